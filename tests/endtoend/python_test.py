"""The Python package against a real server. Runs with the interpreter that it was built for."""

import array
import math
import os
import pathlib
import signal
import sys
import threading
import time
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402


class PythonTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.memory_server()
        self.store = remora.Client(self.address)
        self.addCleanup(self.store.close)

    def test_a_mapping(self):
        self.store["key"] = "value"
        self.assertEqual(self.store["key"], b"value")
        self.assertIn("key", self.store)
        del self.store["key"]
        self.assertNotIn("key", self.store)
        with self.assertRaises(KeyError):
            self.store["key"]
        with self.assertRaises(KeyError):
            del self.store["key"]

    def test_a_token(self):
        made = self.make_token("reader", "read-only")
        address = self.new_address("other")
        self.memory_server(f"--tokens={self.write('tokens', made)}", address=address)
        for token in (made, made.split()[2]):
            with remora.Client(address, token=token) as store:
                self.assertIsNone(store.get("none"))
                with self.assertRaisesRegex(remora.PermissionDenied, "for reading alone"):
                    store["key"] = "value"
        with self.assertRaisesRegex(remora.PermissionDenied, "has none"):
            remora.Client(address)
        with self.assertRaises(remora.InvalidArgument):
            remora.Client(address, token="short")

    def test_get_has_a_default(self):
        self.assertIsNone(self.store.get("none"))
        self.assertEqual(self.store.get("none", 5), 5)
        self.store.put("some", b"")
        self.assertEqual(self.store.get("some", default=5), b"")

    def test_every_kind_of_bytes(self):
        every = bytes(range(256))
        for number, value in enumerate((every, bytearray(every), memoryview(every)[3:], array.array("d", [1.5, 2]))):
            self.store.put(b"\0\xff%d" % number, value)
            self.assertEqual(self.store[b"\0\xff%d" % number], bytes(value))
        self.store["schlüssel"] = "größe"
        self.assertEqual(self.store["schlüssel".encode()].decode(), "größe")
        with self.assertRaises(TypeError):
            self.store["key"] = 5
        with self.assertRaises(TypeError):
            self.store.put("key", b"", 5)
        with self.assertRaises(TypeError):
            self.store.put(5, b"value")
        with self.assertRaises(BufferError):
            self.store["key"] = memoryview(every)[::2]

    def test_how_long(self):
        self.store.put("key", b"value", ttl=60)
        self.assertTrue(0 < self.store.ttl("key") <= 60)
        self.store.persist("key")
        self.assertEqual(self.store.ttl("key"), math.inf)
        self.store.touch("key", 60.5)
        self.assertTrue(0 < self.store.ttl("key") <= 60.5)
        self.store.put("key", b"value", ttl=math.inf)
        self.assertEqual(self.store.ttl("key"), math.inf)
        for bad in (0, -1, math.nan, -math.inf):
            with self.assertRaises(ValueError):
                self.store.put("key", b"value", ttl=bad)
        with self.assertRaises(remora.NotFound):
            self.store.ttl("none")
        with self.assertRaises(remora.NotFound):
            self.store.touch("none", 1)

    def test_conditions(self):
        with self.assertRaises(remora.NotFound):
            self.store.put("key", b"a", condition=remora.PRESENT)
        first = self.store.put("key", b"a", condition=remora.ABSENT)
        with self.assertRaises(remora.AlreadyExists):
            self.store.put("key", b"b", condition=remora.ABSENT)
        self.assertEqual(self.store.get_versioned("key"), (b"a", first))
        second = self.store.put("key", b"c", condition=first)
        self.assertGreater(second, first)
        for stale in (
            lambda: self.store.put("key", b"d", condition=first),
            lambda: self.store.delete("key", condition=first),
            lambda: self.store.touch("key", 60, condition=first),
            lambda: self.store.persist("key", condition=first),
            lambda: self.store.append("key", b"d", condition=first),
        ):
            with self.assertRaisesRegex(remora.FailedPrecondition, str(second)):
                stale()
        self.assertGreater(self.store.delete("key", condition=second), second)
        with self.assertRaises(remora.NotFound):
            self.store.get_versioned("key")
        for bad in (0, -1, 1 << 64, (1 << 64) - 3, "1"):
            with self.assertRaises((ValueError, OverflowError, TypeError)):
                self.store.put("key", b"", condition=bad)

    def test_adding_and_appending(self):
        self.assertEqual(self.store.increment("n"), 1)
        self.assertEqual(self.store.increment("n", -3), -2)
        self.assertEqual(self.store.append("n", b"0"), 3)
        self.assertEqual(self.store["n"], b"-20")
        self.assertEqual(self.store.append("new", "text", ttl=60), 4)
        self.assertLessEqual(self.store.ttl("new"), 60)
        with self.assertRaises(remora.FailedPrecondition):
            self.store.increment("new")
        self.store["n"] = str((1 << 63) - 1)
        with self.assertRaises(remora.OutOfRange):
            self.store.increment("n")
        with self.assertRaises(OverflowError):
            self.store.increment("n", 1 << 63)

    def test_batches(self):
        batch = remora.Batch()
        batch.put("a", b"1")
        batch.put("b", bytearray(b"2"), ttl=60)
        batch.delete("c")
        self.assertEqual(len(batch), 3)
        with self.assertRaisesRegex(KeyError, "write 3"):
            self.store.apply(batch)
        self.assertEqual(self.store.get_many(["a", "b", "c"]), [None, None, None])
        self.store["c"] = b"3"
        version = self.store.apply(batch)
        self.assertEqual(self.store.get_versioned("a"), (b"1", version))
        self.assertEqual(self.store.get_versioned("b"), (b"2", version + 1))
        self.assertLessEqual(self.store.ttl("b"), 60)
        self.assertNotIn("c", self.store)
        batch.clear()
        self.assertEqual(len(batch), 0)
        batch.put("a", b"9", condition=remora.ABSENT)
        with self.assertRaises(remora.AlreadyExists):
            self.store.apply(batch)
        for bad in (None, [], {"a": b"1"}):
            with self.assertRaises(TypeError):
                self.store.apply(bad)
        with self.assertRaises(TypeError):
            remora.Batch(5)
        with self.assertRaises(ValueError):
            batch.put("a", b"1", ttl=0)

    def test_many_keys(self):
        self.assertEqual(self.store.get_many([]), [])
        for i in range(0, 100, 2):
            self.store[f"key {i}"] = str(i)
        values = self.store.get_many(f"key {i}".encode() for i in range(100))
        self.assertEqual(values, [None if i % 2 else str(i).encode() for i in range(100)])
        with self.assertRaises(ValueError) as raised:
            self.store.get_many(["key 2", "", "none"])
        value, error, none = raised.exception.outcomes
        self.assertEqual((value, type(error), none), (b"2", remora.InvalidArgument, None))
        for bad in (5, ["good", 5]):
            with self.assertRaises(TypeError):
                self.store.get_many(bad)

    def test_many_puts(self):
        self.assertEqual(self.store.put_many([]), [])
        versions = self.store.put_many((f"key {i}", str(i)) for i in range(100))
        self.assertEqual(versions, sorted(set(versions)))
        self.assertEqual(self.store.get_versioned("key 99"), (b"99", versions[99]))
        mixed = self.store.put_many([("key 1", b"x"), ("", b"x"), ("new", b"x")], condition=remora.ABSENT, ttl=60)
        self.assertIsInstance(mixed[0], remora.AlreadyExists)
        self.assertIsInstance(mixed[1], ValueError)
        self.assertIn("key: it has 0 bytes", str(mixed[1]))
        self.assertEqual(self.store.get_versioned("new"), (b"x", mixed[2]))
        self.assertLessEqual(self.store.ttl("new"), 60)
        for bad in (5, ["good"], [("a", "b", "c")], [("a", 5)], [(5, "a")], [("good", b""), 5]):
            with self.assertRaises((TypeError, ValueError)):
                self.store.put_many(bad)

    def test_durability(self):
        self.store.put("key", b"a", durability="memory")
        batch = remora.Batch()
        batch.put("key", b"b")
        # This server has no disk.
        for rejected in (
            lambda: self.store.put("key", b"b", durability="synced"),
            lambda: self.store.append("key", b"b", durability="logged"),
            lambda: self.store.increment("n", durability="logged"),
            lambda: self.store.delete("key", durability="logged"),
            lambda: self.store.touch("key", 60, durability="logged"),
            lambda: self.store.persist("key", durability="logged"),
            lambda: self.store.apply(batch, durability="logged"),
        ):
            with self.assertRaisesRegex(remora.InvalidArgument, "server rejected the request"):
                rejected()
        self.assertIsInstance(self.store.put_many([("key", b"b")], durability="synced")[0], remora.InvalidArgument)
        self.assertEqual(self.store["key"], b"a")
        self.store.apply(batch, durability="memory")
        self.assertEqual(self.store["key"], b"b")
        for bad, kind in (("fast", ValueError), (2, TypeError), ("", ValueError)):
            with self.assertRaises(kind):
                self.store.put("key", b"", durability=bad)
        with self.assertRaises(TypeError):
            batch.put("key", b"", durability="memory")
        with self.assertRaises(TypeError):
            batch.delete("key", durability="memory")

    def test_a_buffer_is_read_into(self):
        memory = bytearray(1 << 20)
        with self.store.register(memory) as buffer:
            self.store["large"] = b"v" * (1 << 20)
            view = buffer.get("large")
            self.assertEqual(len(view), 1 << 20)
            self.assertEqual(memory, b"v" * (1 << 20))
            self.store["small"] = b"abc"
            self.assertEqual(bytes(buffer.get("small")), b"abc")
            self.assertEqual(memory[:3], b"abc")
            view.release()
            with self.assertRaises(BufferError):
                memory.append(1)  # it is the store's to write, too
            self.store["large"] = b"v" * ((1 << 20) + 1)
            self.assertRaises(remora.OutOfRange, buffer.get, "large")
            self.assertRaises(KeyError, buffer.get, "none")
            memory[:5000] = bytes(range(250)) * 20
            version = buffer.put("from", 5000, ttl=60)
            self.assertEqual(self.store.get_versioned("from"), (bytes(range(250)) * 20, version))
            for wrong in (-1, (1 << 20) + 1, "5"):
                self.assertRaises((TypeError, ValueError), buffer.put, "from", wrong)
            self.assertRaises(remora.AlreadyExists, buffer.put, "from", 1, condition=remora.ABSENT)
        memory.append(1)
        self.assertRaises(RuntimeError, buffer.put, "from", 1)
        self.assertRaises(RuntimeError, buffer.get, "small")
        self.assertRaises(BufferError, self.store.register, b"not to be written")
        self.assertRaises(ValueError, self.store.register, bytearray())
        numbers = array.array("d", [0.0] * 4)
        self.store["numbers"] = array.array("d", [1.0, 2.0])
        self.store.register(numbers).get("numbers")
        self.assertEqual(list(numbers), [1.0, 2.0, 0.0, 0.0])

    def test_closing_releases_what_is_registered(self):
        memory = bytearray(100)
        buffer = self.store.register(memory)
        self.store.close()
        memory.append(1)
        with self.assertRaises(RuntimeError):
            buffer.get("key")
        with self.assertRaises(RuntimeError):
            self.store.get("key")
        self.store.close()

    def test_errors_say_why(self):
        with self.assertRaisesRegex(ValueError, "4097"):
            self.store["k" * 4097] = b""
        with self.assertRaises(ValueError):
            self.store[""]
        with self.assertRaises(remora.InvalidArgument):
            remora.Client("nowhere")
        with self.assertRaisesRegex(ConnectionError, "/none/such"):
            remora.Client("local:///none/such")
        for bad in ({"timeout": 0}, {"connect_timeout": -1}, {"location_cache_bytes": -1}):
            with self.assertRaises((ValueError, OverflowError)):
                remora.Client(self.address, **bad)
        with self.assertRaises(TypeError):
            remora.Client(self.address, 5)
        with self.assertRaises(RuntimeError):
            self.store.__init__(self.address)
        self.kvserver.kill()
        with self.assertRaises(remora.Unavailable):
            self.store.put("key", b"value")

    def test_it_reconnects_unless_told_not_to(self):
        only_one = remora.Client(self.address, reconnect=False)
        self.store["key"] = b"value"
        self.kvserver.kill()
        self.memory_server("--quiet")
        self.assertIsNone(self.store.get("key"))
        self.assertEqual(self.store.increment("sum"), 1)
        with self.assertRaises(remora.Unavailable):
            only_one.get("key")
        self.assertTrue(issubclass(remora.Unknown, remora.Error))

    def test_counters(self):
        self.store["key"] = b"value"
        self.assertEqual(self.store.stats()["puts"], 1)
        self.store.ping()
        self.assertEqual(self.store.counters()["requests"], 2)

    def test_one_thread_at_a_time(self):
        # A stopped server keeps one thread waiting while another comes.
        harness.freeze(self.kvserver.process)
        thread = threading.Thread(target=lambda: self.store.put("key", b"value"))
        thread.start()

        def is_rejected():
            try:
                self.store.get("key")
            except RuntimeError as error:
                self.assertIn("another thread", str(error))
                return True
            return False

        harness.wait_until(is_rejected, "the client is in use")
        with self.assertRaises(RuntimeError):
            self.store.close()
        self.kvserver.process.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(self.store["key"], b"value")

    def test_a_forked_child_is_rejected(self):
        buffer = self.store.register(bytearray(10))
        child = os.fork()
        if child == 0:
            try:
                self.store.put("key", b"value")
            except RuntimeError:
                buffer.release()
                self.store.close()
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.store["key"] = b"value"
        self.assertEqual(self.store["key"], b"value")


class ScanTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server()
        self.store = remora.Client(self.address)
        self.addCleanup(self.store.close)
        for key in ("b/2", "a", "b/1", "c"):
            self.store[key] = f"of {key}"

    def test_in_order(self):
        pairs = [(b"a", b"of a"), (b"b/1", b"of b/1"), (b"b/2", b"of b/2"), (b"c", b"of c")]
        self.assertEqual(list(self.store.scan()), pairs)
        self.assertEqual(list(self.store.items()), pairs)
        self.assertEqual(list(self.store), [key for key, _ in pairs])
        self.assertEqual(list(self.store.scan(prefix="b/")), pairs[1:3])
        self.assertEqual(list(self.store.scan(begin=b"b", end="b/2", keys_only=True)), [b"b/1"])
        self.assertEqual(list(self.store.scan(reverse=True, limit=2)), pairs[:1:-1])
        self.assertEqual(dict(self.store.scan(one_moment=True)), dict(pairs))

    def test_of_one_moment_among_other_calls(self):
        for key in self.store:
            self.store[key + b" more"] = self.store[key]
        self.assertEqual(len(self.store), 8)

    def test_several_at_once_and_not_to_the_end(self):
        for one, other in zip(self.store.scan(), self.store.scan(reverse=True, keys_only=True)):
            self.assertEqual(one[1], b"of " + one[0])
            self.assertIn(other, self.store)
        for _ in range(20):
            self.assertEqual(next(self.store.scan()), (b"a", b"of a"))
        self.assertLessEqual(self.store.stats()["scan_cursors"], 4)

    def test_tokens(self):
        first = self.store.scan(limit=3)
        self.assertEqual(len(list(first)), 3)
        self.assertGreater(first.version(), 0)
        self.assertEqual(list(self.store.scan(resume_token=first.resume_token())), [(b"c", b"of c")])
        with self.assertRaises(remora.InvalidArgument):
            self.store.scan(resume_token=first.resume_token() + "x")
        with self.assertRaises(remora.InvalidArgument):
            self.store.scan(resume_token=first.resume_token(), reverse=True)

    def test_count_and_drop(self):
        self.assertEqual((len(self.store), self.store.count(), self.store.count(prefix="b")), (4, 4, 2))
        with self.assertRaisesRegex(remora.InvalidArgument, r"None is open; to delete all keys, .*delete_all"):
            self.store.delete_range(begin=None, end="")
        self.assertEqual(self.store.delete_range(prefix="b/"), 2)
        self.assertEqual(self.store.delete_all(), 2)
        self.assertEqual(list(self.store), [])

    def test_durability_and_expiry(self):
        synced = self.store.stats()["synced_writes"]
        self.store.put("d", b"", durability="synced", ttl=3600)
        self.store.put_many([("e", b""), ("f", b"")], durability="synced")
        self.assertEqual(self.store.stats()["synced_writes"], synced + 3)
        scan = self.store.scan(begin="c", keys_only=True)
        self.assertEqual((next(scan), scan.expiry()), (b"c", math.inf))
        self.assertEqual(next(scan), b"d")
        self.assertLess(abs(scan.expiry() - time.time()), 3600 + 60)

    def test_a_window_of_another_size(self):
        with remora.Client(self.address, scan_window_bytes=16384) as other:
            self.assertEqual(len(list(other.scan())), 4)
        with remora.Client(self.address, scan_window_bytes=0) as other, self.assertRaises(remora.FailedPrecondition):
            other.scan()

    def test_arguments(self):
        for wrong in ({"prefix": 5}, {"limit": "many"}, {"bogus": 1}, {"resume_token": 5}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.store.scan(**wrong)
        with self.assertRaises(OverflowError):
            self.store.scan(limit=-1)
        with self.assertRaises(TypeError):
            remora.Scan()

    def test_the_end_of_the_client_is_theirs(self):
        scan = self.store.scan()
        next(scan)
        self.store.close()
        with self.assertRaises(RuntimeError):
            next(scan)
        del scan
        other = remora.Client(self.address)
        kept = iter(other)
        del other
        self.assertEqual(len(list(kept)), 4)

    def test_watches(self):
        watch = self.store.watch(prefix="b/", timeout=0.01)
        self.assertEqual(list(watch), [])
        self.store.put("b/3", "three", ttl=60)
        self.store["other"] = "not asked for"
        version = self.store.put("b/1", b"one")
        kept = watch.resume_token()
        change = watch.next(harness.PATIENCE)
        self.assertIsInstance(change, remora.Change)
        self.assertEqual((change.kind, change.key, change.value), ("put", b"b/3", b"three"))
        self.assertTrue(time.time() < change.expiry < math.inf)
        self.assertEqual(next(watch)[:4], ("put", b"b/1", b"one", version))
        del self.store["b/1"]
        change = watch.next()
        self.assertEqual(change[:5], ("delete", b"b/1", None, 0, math.inf))
        self.assertIsNone(watch.next(timeout=0))
        again = self.store.watch(prefix="b/", resume_token=kept, timeout=0.01)
        self.assertEqual([change.key for change in again], [b"b/3", b"b/1", b"b/1"])

    def test_watches_that_cannot_be(self):
        for wrong in ({"prefix": 5}, {"resume_token": 5}, {"timeout": "long"}, {"bogus": 1}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.store.watch(**wrong)
        with self.assertRaises(remora.InvalidArgument):
            self.store.watch(resume_token="no token")
        with self.assertRaises(TypeError):
            remora.Watch()
        watch = self.store.watch()
        self.store.close()
        with self.assertRaises(RuntimeError):
            next(watch)
        with self.assertRaises(RuntimeError):
            self.store.watch()

    def test_a_watch_is_interrupted(self):
        watch = self.store.watch()
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            next(watch)
        self.store["key"] = "value"
        self.assertEqual(next(watch).key, b"key")

    def test_a_server_without_a_place_for_backups_says_so(self):
        with self.assertRaises(remora.FailedPrecondition):
            self.store.backup(5)


class BackupTest(harness.TestCase):
    def test_it_is_waited_for(self):
        self.logged_server(f"--backup_dir={self.folder}/backups")
        with remora.Client(self.address) as store:
            version = store.put("key", "value")
            first = store.backup(5)
            self.assertIsInstance(first, remora.Backup)
            self.assertGreaterEqual(first.version, version)
            self.assertEqual(store.backup(5, wait=False), first)
            self.assertGreater(store.backup(6).id, first.id)
            with self.assertRaises(remora.InvalidArgument):
                store.backup(0)
            with self.assertRaises(TypeError):
                store.backup("five")


if __name__ == "__main__":
    unittest.main()
