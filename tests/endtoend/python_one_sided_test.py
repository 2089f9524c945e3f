"""One-sided scans of the Python package: of one server and of a cluster, blocking and for asyncio."""

import asyncio
import os
import pathlib
import re
import sys
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402

PAIRS = {b"key %03d" % i: b"of %d" % i for i in range(500)}


def in_loop(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, harness.PATIENCE))


class OneSidedTest(harness.TestCase):
    """The servers of a subclass, whose clients find all pairs in order while no server makes a page."""

    def setUp(self):
        super().setUp()
        self.addresses = self.start()
        self.store = self.connect()
        self.addCleanup(self.store.close)
        self.store.put_many(PAIRS)

    def start(self):
        self.memory_server("--ordered=memory")
        return [self.address]

    def connect(self):
        return remora.Client(self.address)

    def connect_aio(self):
        return aio.Client(self.address)

    def pages(self):
        return sum(harness.stats(address)["scans"] for address in self.addresses)

    def test_shows_all_in_order(self):
        pairs, pages = list(PAIRS.items()), self.pages()
        self.assertEqual(list(self.store.scan(one_sided=True)), pairs)
        self.assertEqual(list(self.store.scan(one_sided=True, reverse=True, limit=70)), pairs[:-71:-1])
        self.assertEqual(list(self.store.scan(one_sided=True, prefix="key 1", keys_only=True)), [k for k, _ in pairs[100:200]])
        self.assertEqual(self.pages(), pages, "the server makes no page")
        self.assertEqual(list(self.store.scan(one_sided=False)), pairs)
        self.assertGreater(self.pages(), pages, "it makes the pages of other scans")

    def test_goes_on_from_a_token(self):
        scan = self.store.scan(one_sided=True, limit=30)
        first, token = list(scan), scan.resume_token()
        self.assertEqual(first + list(self.store.scan(one_sided=True, resume_token=token)), list(PAIRS.items()))
        self.assertEqual(first + list(self.store.scan(resume_token=token)), list(PAIRS.items()))

    def test_options_that_exclude_each_other(self):
        for wrong in ({"any_order": True}, {"one_moment": True}):
            with self.subTest(wrong), self.assertRaisesRegex(remora.InvalidArgument, "one-sided"):
                self.store.scan(one_sided=True, **wrong)

    def test_aio(self):
        async def shown():
            async with self.connect_aio() as store:
                values = [pair async for pair in store.scan(one_sided=True)]
                return values, [key async for key in store.scan(one_sided=True, keys_only=True, reverse=True)]

        pages = self.pages()
        self.assertEqual(in_loop(shown()), (list(PAIRS.items()), list(PAIRS)[::-1]))
        self.assertEqual(self.pages(), pages, "the server makes no page")


class OneSidedClusterTest(OneSidedTest):
    def start(self):
        addresses = [self.new_address(str(shard)) for shard in range(2)]
        run = harness.kvctl(None, "cluster", "init", *addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.topology = self.folder / "topology"
        self.topology.write_bytes(run.stdout)
        cluster = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()
        for shard, address in enumerate(addresses):
            self.memory_server("--ordered=memory", f"--shard={cluster}/{shard}", address=address)
        return addresses

    def connect(self):
        return remora.ClusterClient(self.topology)

    def connect_aio(self):
        return aio.ClusterClient(self.topology)


class WithoutAnOrderTest(harness.TestCase):
    def test_the_error_says_what_to_do(self):
        self.memory_server()
        with remora.Client(self.address) as store, self.assertRaisesRegex(remora.FailedPrecondition, "--ordered=memory"):
            store.scan(one_sided=True)


if __name__ == "__main__":
    unittest.main()
