"""Arguments that the calls of the Python package take, and their errors for all others."""

import array
import ast
import asyncio
import collections.abc
import json
import math
import os
import pathlib
import resource
import sys
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402


class TypesTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server()
        self.store = remora.Client(self.address)
        self.addCleanup(self.store.close)

    def test_pairs(self):
        wanted = {b"us": b"o", b"ab": b"12"}
        for number, pairs in enumerate(
            (
                {"us": "o", b"ab": bytearray(b"12")},
                [("us", "o"), ["ab", b"12"]],
                (pair for pair in wanted.items()),
                wanted.items(),
            )
        ):
            with self.subTest(number):
                self.store.delete_all()
                self.assertEqual(len(self.store.put_many(pairs)), 2)
                self.assertEqual(dict(self.store.scan()), wanted)
        self.store.delete_all()
        for number, pairs in enumerate(
            (["us"], "us", b"us", [b"us"], [bytearray(b"us")], [memoryview(b"us")], [{"u", "s"}], [{"u": 1, "s": 2}])
            + ([("us", "o"), "ab"], 5, None, [5], [None], [("a", None)], [(None, "a")], "", b"", bytearray())
        ):
            with self.subTest(number), self.assertRaises(TypeError):
                self.store.put_many(pairs)
        for pairs in ([()], [("a",)], [("a", "b", "c")]):
            with self.subTest(pairs), self.assertRaisesRegex(ValueError, "pair"):
                self.store.put_many(pairs)
        self.assertEqual(len(self.store), 0)

    def test_metrics(self):
        self.store["key"] = b"value"
        self.assertEqual(self.store.metrics()["put_time_count"], 0)
        self.assertEqual(self.store.metrics()["requests"], 1)
        with remora.Client(self.address, metrics=True) as timed:
            timed["key"] = b"value"
            self.assertEqual(timed["key"], b"value")
            self.assertIsNone(timed.get("none"))
            metrics = timed.metrics()
        self.assertEqual((metrics["put_time_count"], metrics["get_time_count"]), (1, 2))
        self.assertGreater(metrics["put_time_sum_ns"], 0)
        self.assertEqual((metrics["value_bytes_written"], metrics["value_bytes_read"]), (5, 5))

    def test_metrics_of_asyncio(self):
        async def test():
            async with aio.Client(self.address) as store:
                await store.put("key", "value")
                self.assertEqual(store.metrics()["put_time_count"], 0)
                self.assertEqual(store.metrics()["requests"], 1)
            with self.assertRaises(RuntimeError):
                store.metrics()
            async with aio.Client(self.address, metrics=True) as store:
                await store.put("key", "value")
                self.assertEqual(await asyncio.gather(store.get("key"), store.get("none")), [b"value", None])
                self.assertEqual(await store.count(), 1)  # over the other connection
                metrics = store.metrics()
            self.assertEqual((metrics["put_time_count"], metrics["get_time_count"]), (1, 2))
            self.assertEqual((metrics["value_bytes_written"], metrics["value_bytes_read"]), (5, 5))
            self.assertEqual(metrics["get_searched_time_count"] + metrics["get_cached_time_count"], 2)
            self.assertGreater(metrics["put_time_sum_ns"], 0)
            self.assertEqual(metrics["other_time_count"], 0)
            with remora.Client(self.address) as blocking:
                self.assertEqual(list(metrics), list(blocking.metrics()), "the same names in the same order")

        asyncio.run(asyncio.wait_for(test(), harness.PATIENCE))

    def test_settings(self):
        """As kvctl shows them: also those of more bytes than a reply has."""
        folder = f"{self.folder}/ö" + "long" * 50
        os.mkdir(folder)
        address = f"local://{self.folder}/other"
        self.addCleanup(harness.Server(f"--listen={address}", "--memory=64M", f"--data_dir={folder}").close)
        with remora.Client(address) as store:
            settings = store.settings()
            self.assertGreater(store.put("key", b"value"), 0)  # the client goes on
        shown = json.loads(harness.kvctl(address, "config", "--json").stdout.decode())
        self.assertEqual([setting._asdict() for setting in settings], shown)
        self.assertIn(remora.Setting("data_dir", folder, "command line"), settings)
        self.assertIn("default", {setting.source for setting in settings})

    def test_settings_that_are_none(self):
        for text in ("", "{", "5", "[5]", "[{}]", '[{"key": "a", "value": "b"}]', "null"):
            with self.subTest(text), self.assertRaisesRegex(remora.DataLoss, "is it kvserver"):
                remora._types._settings_of(text)
        self.assertEqual(remora._types._settings_of("[]"), [])

    def test_a_location_cache_beyond_all_memory(self):
        with self.assertRaisesRegex(remora.InvalidArgument, "the most is 68719476736"):
            remora.Client(self.address, location_cache_bytes=1 << 62)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, limits)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, limits[1]))
        with self.assertRaisesRegex(remora.ResourceExhausted, "no memory for a location cache of 34359738368 bytes"):
            remora.Client(self.address, location_cache_bytes=32 << 30)
        with remora.Client(self.address, location_cache_bytes=1 << 20) as client:
            self.assertEqual(len(client), 0)

    def test_a_mirror_of_the_index(self):
        self.store.put_many({f"key {i}".encode(): b"value" for i in range(100)})
        with remora.Client(self.address, index_mirror_bytes=1 << 20) as client:
            for i in range(100):
                self.assertEqual(client.get(f"key {i}".encode()), b"value")
            counters = client.counters()
            self.assertGreater(counters["mirror_hits"], 95)
            self.assertGreater(counters["mirror_read_bytes"], 16_000)
        with self.assertRaisesRegex(remora.InvalidArgument, "the most is 68719476736"):
            remora.Client(self.address, index_mirror_bytes=1 << 62)

    def test_a_copy_as_a_dict(self):
        wanted = {b"us": b"o", b"ab": b"12", b"longer": b""}
        self.store.put_many(wanted)
        self.assertEqual(dict(self.store), wanted)
        self.assertEqual({**self.store}, wanted)
        self.assertEqual(dict(self.store.items()), wanted)
        self.assertEqual(sorted(self.store.keys()), sorted(wanted))
        self.assertEqual(sorted(self.store.values()), sorted(wanted.values()))
        self.assertNotIsInstance(self.store, collections.abc.Mapping)
        copy = {}
        copy.update(self.store)
        self.assertEqual(copy, wanted)
        self.assertEqual(self.store.put_many(self.store) and dict(self.store), wanted)

    def test_numbers_that_are_added(self):
        for wrong in (True, False, 1.0, "1", None):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.store.increment("sum", wrong)
        for wrong in (1 << 63, -(1 << 63) - 1):
            with self.subTest(wrong), self.assertRaises(OverflowError):
                self.store.increment("sum", wrong)
        self.assertNotIn("sum", self.store)
        self.assertEqual(self.store.increment("sum", (1 << 63) - 1), (1 << 63) - 1)
        buffer = self.store.register(bytearray(b"0123"))
        for wrong, kind in ((True, TypeError), (1.0, TypeError), (-1, ValueError), (5, ValueError), (1 << 64, OverflowError)):
            with self.subTest(wrong), self.assertRaises(kind):
                buffer.put("key", wrong)
        with self.assertRaisesRegex(TypeError, "bool"):
            self.store.put("key", b"value", ttl=remora.Until(True))
        self.assertNotIn("key", self.store)

    def test_tokens_of_scans_and_watches(self):
        self.store["key"] = "value"
        for call in (self.store.scan, self.store.watch):
            with self.subTest(call), self.assertRaisesRegex(remora.InvalidArgument, "the resume token is empty"):
                call(resume_token="")
            for wrong in (5, b"token", True):
                with self.subTest(call, wrong=wrong), self.assertRaises(TypeError):
                    call(resume_token=wrong)
            call(resume_token=None)

    def test_keys(self):
        self.store["us"] = "o"
        self.assertEqual(self.store.get_many({"us": 1, "u": 2}), [b"o", None])
        self.assertEqual(self.store.get_many([memoryview(b"us"), bytearray(b"us"), array.array("b", b"us")]), [b"o"] * 3)
        for key in ("us", b"us", bytearray(b"us")):
            with self.subTest(key), self.assertRaisesRegex(TypeError, "one key"):
                self.store.get_many(key)
        for keys in (5, None, [5], [None], [("us",)]):
            with self.subTest(keys), self.assertRaises(TypeError):
                self.store.get_many(keys)
        for call in (
            lambda key: self.store.get(key),
            lambda key: key in self.store,
            lambda key: self.store.put(key, b"value"),
            lambda key: self.store.put("key", key),
            lambda key: self.store.delete(key),
            lambda key: self.store.scan(prefix=key),
        ):
            for wrong in (5, True, ["us"], object()):
                with self.subTest(wrong), self.assertRaises(TypeError):
                    call(wrong)
        with self.assertRaises(UnicodeEncodeError):
            self.store["\ud800"] = "half a character"

    def test_timeouts(self):
        for name in ("timeout", "connect_timeout"):
            for good in (math.inf, 1e300, 1e18, 5, 1 << 70):
                with self.subTest(name, good=good), remora.Client(self.address, **{name: good}) as store:
                    store.ping()
            for bad in (0, -0.0, -1, -math.inf, math.nan, -(1 << 70)):
                with self.subTest(name, bad=bad), self.assertRaisesRegex(ValueError, f"{name}: .*pass more than 0"):
                    remora.Client(self.address, **{name: bad})
            for bad in (True, False, "5", b"5", None, [5], 1j):
                with self.subTest(name, bad=bad), self.assertRaises(TypeError):
                    remora.Client(self.address, **{name: bad})

    def test_spans(self):
        for good in (math.inf, 1e300):
            self.store.put("key", b"value", ttl=good)
            self.assertEqual(self.store.ttl("key"), math.inf)
        self.store.put("key", b"value", ttl=60.5)
        self.assertTrue(0 < self.store.ttl("key") <= 60.5)
        for bad in (0, -1, math.nan, -math.inf):
            with self.subTest(bad), self.assertRaisesRegex(ValueError, "ttl: .*pass more than 0"):
                self.store.put("key", b"value", ttl=bad)
        for bad in (True, "5", [5], None):
            with self.subTest(bad), self.assertRaises(TypeError):
                self.store.touch("key", bad)
        with self.assertRaises(remora.InvalidArgument):
            self.store.put("key", b"value", ttl=8e15)
        watch = self.store.watch()
        for none in (0, 0.0, 1e-9):
            self.assertIsNone(watch.next(none))
        self.store["other"] = b"value"
        for number, forever in enumerate((None, math.inf, 1e300)):
            self.store[f"other {number}"] = b"value"
            self.assertIsNotNone(watch.next(forever))
        for bad, kind in ((-1, ValueError), (math.nan, ValueError), (False, TypeError), ("5", TypeError)):
            with self.subTest(bad), self.assertRaises(kind):
                watch.next(bad)
            with self.subTest(bad), self.assertRaises(kind):
                self.store.watch(timeout=bad)

    def test_numbers(self):
        version = self.store.put("key", b"value")
        for call in (
            lambda number: self.store.put("key", b"other", condition=number),
            lambda number: self.store.delete("key", condition=number),
            lambda number: self.store.scan(limit=number),
            lambda number: self.store.backup(number),
            lambda number: remora.Client(self.address, scan_window_bytes=number),
            lambda number: remora.Client(self.address, location_cache_bytes=number),
        ):
            for wrong, kind in ((True, TypeError), (-1, OverflowError), (1 << 64, OverflowError), (1.0, TypeError), ("1", TypeError)):
                with self.subTest(wrong), self.assertRaises(kind):
                    call(wrong)
        self.assertEqual(self.store.get_versioned("key"), (b"value", version))
        self.assertEqual(len(list(self.store.scan(limit=None))), 1)
        self.assertEqual(len(list(self.store.scan(limit=(1 << 64) - 1))), 1)

    def test_addresses_and_tokens(self):
        for wrong in (None, 5, b"local:///x", pathlib.Path("/x")):
            with self.subTest(wrong), self.assertRaises(TypeError):
                remora.Client(wrong)
        for wrong in ("", "local://", "local:///a\0b", "\ud800"):
            with self.subTest(wrong), self.assertRaises(ValueError):
                remora.Client(wrong)
        with self.assertRaises(TypeError):
            remora.Client(self.address, token=b"token")

    def test_registered_memory(self):
        for wrong, kind in ((None, TypeError), ("text", TypeError), (5, TypeError), (b"fixed", BufferError)):
            with self.subTest(wrong), self.assertRaises(kind):
                self.store.register(wrong)
        with self.assertRaises(BufferError):
            self.store.register(memoryview(bytearray(10))[::2])
        memory = bytearray(10)
        buffer = self.store.register(memory)
        self.store["key"] = b"0123456789"
        view = buffer.get("key")
        buffer.release()
        del buffer
        self.store.close()
        self.assertEqual(bytes(view), b"0123456789")  # it is the caller's memory
        with self.assertRaises(BufferError):
            memory.append(1)
        view.release()
        memory.append(1)

    def test_the_type_hints_name_what_is_there(self):
        tree = ast.parse((PACKAGE / "remora" / "_remora.pyi").read_text())
        hinted = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

        def hinted_of(kind):
            bases = [hinted[base.id] for base in kind.bases if isinstance(base, ast.Name)]
            return {n.name for n in kind.body if isinstance(n, ast.FunctionDef)}.union(*map(hinted_of, bases))

        for name in ("Client", "ClusterClient", "Buffer", "View", "Batch", "Scan", "Watch", "Async", "Topology"):
            there = getattr(remora._remora, name)
            methods = hinted_of(hinted[name])
            methods -= {"__buffer__"} if sys.version_info < (3, 12) else set()  # it has none there
            public = {method for method in vars(there) if not method.startswith("__")}
            self.assertEqual({method for method in methods if not method.startswith("__")}, public)
            self.assertTrue(all(hasattr(there, method) for method in methods))
        self.assertTrue((PACKAGE / "remora" / "py.typed").exists())
        self.assertEqual(sorted(remora.__all__), sorted(n for n in vars(remora) if n in remora.__all__))


if __name__ == "__main__":
    unittest.main()
