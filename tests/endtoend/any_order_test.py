"""All keys of a server that is only in memory, and moments of expiry: kvctl, and the Python package."""

import asyncio
import datetime
import json
import math
import os
import pathlib
import sys
import time
import unittest

import harness
from harness import kvctl

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402


class AnyOrderTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        self.store = remora.Client(self.address)
        self.addCleanup(self.store.close)
        self.pairs = {b"key %d" % i: b"of %d" % i for i in range(500)}
        self.store.put_many(self.pairs.items())

    def run_ok(self, *arguments, stdin=b""):
        run = kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def test_python(self):
        with self.assertRaisesRegex(remora.FailedPrecondition, "any_order"):
            self.store.scan()
        for wrong in ({"reverse": True}, {"one_moment": True}):
            with self.subTest(wrong), self.assertRaises(remora.InvalidArgument):
                self.store.scan(any_order=True, **wrong)
        shown = list(self.store.scan(any_order=True))
        self.assertEqual((len(shown), dict(shown)), (500, self.pairs))
        keys = list(self.store)
        self.assertEqual((len(keys), set(keys)), (500, set(self.pairs)))
        self.assertEqual((dict(self.store.items()), len(self.store)), (self.pairs, 500))
        self.assertEqual(len(list(self.store.scan(prefix="key 1", keys_only=True, any_order=True))), 111)
        self.assertEqual(self.store.count(prefix="key 1"), 111)

    def test_python_pages_while_others_write(self):
        shown = []
        token = None
        while len(page := list(scan := self.store.scan(limit=60, resume_token=token, any_order=token is None))) > 0:
            shown += [key for key, _ in page if key in self.pairs]
            token = scan.resume_token()
            self.store.put_many((f"more {len(shown)} {i}", b"") for i in range(500))
        self.assertEqual((len(shown), set(shown)), (500, set(self.pairs)))

    def test_aio(self):
        async def scan():
            async with aio.Client(self.address) as store:
                return [pair async for pair in store.scan(any_order=True)]

        shown = asyncio.run(asyncio.wait_for(scan(), harness.PATIENCE))
        self.assertEqual((len(shown), dict(shown)), (500, self.pairs))

    def test_kvctl_scan(self):
        rejected = kvctl(self.address, "scan")
        self.assertEqual((rejected.returncode, rejected.stdout), (78, b""))
        self.assertIn(b"any order", rejected.stderr)
        lines = self.run_ok("scan", "--any_order").splitlines()
        self.assertEqual((len(lines), dict(line.split(b"\t") for line in lines)), (500, self.pairs))
        lines = self.run_ok("scan", "--any_order", "--keys_only", "--prefix=key 1", "--limit=7").splitlines()
        self.assertEqual((len(lines), len(set(lines))), (7, 7))
        self.assertEqual(kvctl(self.address, "scan", "--any_order", "--reverse").returncode, 64)
        self.assertEqual(self.run_ok("count", "--prefix=key 1"), b"111\n")

    def test_kvctl_export(self):
        self.assertEqual(kvctl(self.address, "export").returncode, 78)
        self.store.put("for a day", b"", ttl=86_400)
        export = self.run_ok("export", "--any_order")
        records = [json.loads(line) for line in export.splitlines()]
        self.assertEqual(records[-1], {"records": 501})
        expiry = [record["expires_ms"] for record in records if record.get("key") == "for a day"]
        self.assertEqual(self.run_ok("delete_all", "--yes"), b"501\n")
        self.assertIn(b"imported 501\n", self.run_ok("import", stdin=export))
        scan = self.store.scan(prefix="for a day", any_order=True)
        self.assertEqual(next(scan), (b"for a day", b""))
        self.assertEqual([round(scan.expiry() * 1000)], expiry)
        self.assertEqual(self.store["key 7"], b"of 7")


class UntilTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        self.store = remora.Client(self.address)
        self.addCleanup(self.store.close)

    def expiry(self, key):
        scan = self.store.scan(prefix=key, any_order=True)
        next(scan)
        return scan.expiry()

    def test_a_moment_is_kept_to_the_millisecond(self):
        moment = int(time.time()) + 3600 + 0.123
        self.store.put("put", b"value", ttl=remora.Until(moment))
        self.store.put("touched", b"value")
        self.store.touch("touched", remora.Until(moment))
        self.store.increment("number", ttl=remora.Until(moment))
        batch = remora.Batch()
        batch.put("of a batch", b"", ttl=remora.Until(moment))
        self.store.apply(batch)
        self.store.put_many([("one of many", b"")], ttl=remora.Until(moment))
        for key in ("put", "touched", "number", "of a batch", "one of many"):
            self.assertEqual(self.expiry(key), moment, key)
        self.store.put("copy", b"", ttl=remora.Until(self.expiry("put")))
        self.assertEqual(self.expiry("copy"), moment)
        tomorrow = datetime.datetime.now() + datetime.timedelta(days=1)
        self.store.put("tomorrow", b"", ttl=remora.Until(tomorrow.timestamp()))
        self.assertLess(abs(self.store.ttl("tomorrow") - 86_400), 60)
        self.store.put("copy", b"", ttl=remora.Until(math.inf))
        self.assertEqual(self.expiry("copy"), math.inf)

    def test_aio(self):
        async def put():
            async with aio.Client(self.address) as store:
                await store.put("key", b"", ttl=remora.Until(4e9))
                await store.touch("key", remora.Until(4e9 + 1))

        asyncio.run(asyncio.wait_for(put(), harness.PATIENCE))
        self.assertEqual(self.expiry("key"), 4e9 + 1)

    def test_what_is_no_moment(self):
        with self.assertRaises(remora.OutOfRange):
            self.store.put("key", b"", ttl=remora.Until(time.time() - 60))
        for wrong in (0, -1, -math.inf, math.nan, 1e20):
            with self.subTest(wrong), self.assertRaises(ValueError):
                self.store.put("key", b"", ttl=remora.Until(wrong))
        with self.assertRaises(TypeError):
            self.store.put("key", b"", ttl=remora.Until("tomorrow"))
        self.assertNotIn("key", self.store)


if __name__ == "__main__":
    unittest.main()
