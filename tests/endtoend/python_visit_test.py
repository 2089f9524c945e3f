"""Visits of values by the Python package: in place where the client maps the server's memory, and of copies elsewhere."""

import collections.abc
import gc
import hashlib
import itertools
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

IN_PLACE = os.environ.get("REMORA_TRANSPORT", "local") == "local"


class VisitTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.start()
        self.store = self.connect()
        self.store["key"] = b"0123456789"
        self.assertEqual(self.store["key"], b"0123456789")  # from here on, the client knows the index

    def start(self):
        return self.memory_server()

    def connect(self):
        store = remora.Client(self.address, timeout=harness.PATIENCE)
        self.addCleanup(store.close)
        return store


class VisitTest(VisitTestCase):
    def test_values_of_each_size(self):
        for size in (0, 1, 100, 5000, 262144, 262145, (3 << 20) + 7):
            value = os.urandom(size)
            version = self.store.put("sized", value)
            calls = []
            self.assertEqual(self.store.visit("sized", lambda view: calls.append(1) or bytes(view)), value)  # noqa: B023
            self.assertEqual(len(calls), 1)
            self.assertEqual(self.store.visit_versioned("sized", len), (size, version))

    def test_a_view_is_as_bytes(self):
        def look(view):
            self.assertEqual(len(view), 10)
            self.assertEqual((view[0], view[-1]), (ord("0"), ord("9")))
            for bad in (10, -11):
                with self.assertRaises(IndexError):
                    view[bad]
            self.assertEqual(bytes(view[2:5]), b"234")
            self.assertEqual(view[2:][1:-1].tobytes(), b"345678")
            self.assertEqual((len(view[5:2]), len(view[7:100]), bytes(view[:])), (0, 3, b"0123456789"))
            with self.assertRaises(ValueError):
                view[::2]
            with self.assertRaises(TypeError):
                view["key"]
            self.assertEqual(list(view[:3]), [48, 49, 50])
            self.assertIn(ord("7"), view)
            self.assertTrue(view == b"0123456789" and view == view[:] and view != b"0123456780" and view != 5)
            self.assertEqual(struct.unpack_from(">H", view, 2), (0x3233,))
            self.assertEqual(hashlib.sha256(view).digest(), hashlib.sha256(b"0123456789").digest())
            with memoryview(view) as memory:
                self.assertTrue(memory.readonly and memory.c_contiguous)
                self.assertEqual(memory.cast("H")[0], int.from_bytes(b"01", sys.byteorder))
            with self.assertRaises(TypeError):
                view[0] = 1
            with self.assertRaises(TypeError):
                hash(view)
            with self.assertRaises(BufferError):
                self.store.register(view)  # it is not writable; before the client is asked
            return view

        self.store.visit("key", look)
        self.assertRaises(TypeError, remora.View)
        if sys.version_info >= (3, 12):
            self.assertTrue(issubclass(remora.View, collections.abc.Buffer))

    def test_nothing_is_read_behind_the_end(self):
        kept = []
        self.assertIs(self.store.visit("key", lambda view: kept.extend([view, view[2:5]]) or view), kept[0])
        for view in kept:
            for use in (bytes, memoryview, hashlib.sha256, list, view.__eq__, lambda view: view[0],
                        lambda view: view[:1], lambda view: view.tobytes(), lambda view: b"".join([view])):  # fmt: skip
                with self.assertRaisesRegex((ValueError, TypeError), "is over|bytes-like"):
                    use(view)
        self.assertEqual([len(view) for view in kept], [10, 3])
        self.store.close()
        for view in kept:
            self.assertRaises(ValueError, bytes, view)

    def test_an_exception_of_the_function(self):
        calls = []

        def fail(view):
            calls.append(1)
            memory = memoryview(view)[2:]  # which the exception's traceback holds
            raise LookupError(bytes(memory))

        try:
            self.store.visit("key", fail)
        except LookupError as error:
            self.assertEqual((error.args, len(calls)), ((b"23456789",), 1))
            self.assertEqual(error.__traceback__.tb_next.tb_frame.f_code.co_name, "fail")
            self.assertIsNone(error.__context__)
        else:
            self.fail("it raised nothing")
        for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
            with self.assertRaises(kind):
                self.store.visit("key", lambda _: (_ for _ in ()).throw(kind))  # noqa: B023
        try:
            raise ValueError
        except ValueError as outer:
            with self.assertRaises(LookupError) as raised:
                self.store.visit("key", fail)
            self.assertIs(raised.exception.__context__, outer)
        self.assertEqual(self.store["key"], b"0123456789")

    def test_a_signal_during_the_function(self):
        def interrupt(_):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(harness.PATIENCE)

        with self.assertRaises(KeyboardInterrupt):
            self.store.visit("key", interrupt)
        self.assertEqual(self.store.visit("key", bytes), b"0123456789")

    def test_what_cannot_be(self):
        calls = []
        for key, kind in (("none", remora.NotFound), ("", remora.InvalidArgument),
                          ("k" * 4097, remora.InvalidArgument), (5, TypeError)):  # fmt: skip
            with self.assertRaises(kind):
                self.store.visit(key, calls.append)
        for arguments in ((), ("key",), ("key", 5), ("key", None), ("key", len, 5)):
            self.assertRaises(TypeError, self.store.visit, *arguments)
        self.assertRaises(TypeError, self.store.visit, "key", lambda: None)
        self.assertRaises(TypeError, self.store.visit, "key", default=5, function=len)
        self.assertEqual(self.store.visit(key="key", function=len), 10)
        self.store.put("brief", b"value", ttl=0.001)
        time.sleep(0.01)
        self.assertRaises(KeyError, self.store.visit, "brief", calls.append)
        self.store.close()
        self.assertRaisesRegex(RuntimeError, "closed", self.store.visit, "key", calls.append)
        self.assertRaisesRegex(RuntimeError, "closed", self.store.visit_versioned, "key", calls.append)
        self.assertEqual(calls, [])

    def test_the_client_is_in_use(self):
        def use_it(_):
            for use in (lambda: self.store["key"], lambda: self.store.visit("key", len), self.store.close):
                with self.assertRaisesRegex(RuntimeError, "in a call of this thread"):
                    use()
            said = []

            def use_in_thread():
                try:
                    self.store.ping()
                except RuntimeError as error:
                    said.append(str(error))

            thread = threading.Thread(target=use_in_thread)
            thread.start()
            thread.join()  # others run meanwhile
            self.assertIn("by another thread", said[0])
            return 7

        self.assertEqual(self.store.visit("key", use_it), 7)
        self.store.ping()

    def test_a_visit_within_a_visit(self):
        other = self.connect()
        other["other"] = b"abc"

        def both(view):
            return bytes(view) + other.visit("other", bytes) + bytes(view[:2])

        self.assertEqual(self.store.visit("key", both), b"0123456789abc01")

    def test_objects_of_the_client_that_go_meanwhile(self):
        buffers = [self.store.register(bytearray(10))]
        self.store.visit("key", lambda _: buffers.clear())
        gc.collect()
        self.store.ping()

    def test_a_function_that_is_dropped_meanwhile(self):
        holder = {}

        def drop(view):
            del holder["function"]
            gc.collect()
            return bytes(view)

        holder["function"] = drop
        del drop
        self.assertEqual(self.store.visit("key", holder["function"]), b"0123456789")

    def test_a_forked_child(self):
        child = os.fork()
        if child == 0:
            try:
                self.store.visit("key", bytes)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.store.visit("key", bytes), b"0123456789")

    def test_the_server_is_gone(self):
        with remora.Client(self.address, reconnect=False) as store:
            self.assertEqual(store["key"], b"0123456789")
            if IN_PLACE:
                # The last bytes that the function saw may have been of a server that was gone.
                with self.assertRaises(remora.Unavailable):
                    store.visit("key", lambda _: self.kvserver.kill())
            else:
                self.assertIsNone(store.visit("key", lambda _: self.kvserver.kill()))
            with self.assertRaises(remora.Unavailable) as raised:
                store.visit("key", len)
            self.assertIsNone(raised.exception.__context__)

    def test_an_exception_while_the_server_goes(self):
        def fail(_):
            self.kvserver.kill()
            raise LookupError("seen")

        with remora.Client(self.address, reconnect=False) as store:
            self.assertEqual(store["key"], b"0123456789")
            with self.assertRaises(remora.Unavailable if IN_PLACE else LookupError) as raised:
                store.visit("key", fail)
            if IN_PLACE:
                self.assertIsInstance(raised.exception.__context__, LookupError)


class HeldBuffersTest(VisitTestCase):
    """A buffer of a view is not the package's to end: the visit says that there is one."""

    def test_what_is_returned(self):
        for returned in (memoryview, lambda view: [memoryview(view)[2:5]], lambda view: memoryview(view).cast("H")):
            with self.assertRaisesRegex(BufferError, "returned a buffer"):
                self.store.visit("key", returned)
        self.assertEqual(self.store["key"], b"0123456789")

    def test_variables_of_the_function(self):
        def circular(view):
            memory = [memoryview(view)]
            memory.append(memory)
            return bytes(memory[0])

        gc.disable()
        self.addCleanup(gc.enable)
        self.assertEqual(self.store.visit("key", circular), b"0123456789")

    def test_what_is_kept(self):
        kept = []
        value = os.urandom(3 << 20)
        for size in (10, len(value)):
            store = self.connect()
            store["key"] = value[:size]
            self.assertEqual(store["key"], value[:size])

            def keep(view):
                kept.append(memoryview(view)[2:])
                return 5

            with self.assertRaisesRegex(BufferError, "closed" if IN_PLACE else "still held"):
                store.visit("key", keep)
            if IN_PLACE:
                self.assertRaisesRegex(RuntimeError, "closed", store.ping)
                self.assertEqual(bytes(kept[-1]), bytes(size - 2))
            else:
                self.assertEqual(bytes(kept[-1]), value[2:size])
        # Others take their places, and writes what was seen.
        others = [self.connect() for _ in range(3)]
        for other, i in zip(others, range(300)):
            other["key"] = os.urandom(5000 + i)
        if IN_PLACE:
            self.assertFalse(any(any(memory) for memory in kept))
        while kept:
            kept.pop().release()

    def test_what_is_kept_and_an_exception(self):
        kept = []

        def keep(view):
            kept.append(memoryview(view))
            raise LookupError("own")

        with self.assertRaises(BufferError) as raised:
            self.store.visit("key", keep)
        self.assertIsInstance(raised.exception.__context__, LookupError)

        def interrupted(view):
            kept.append(memoryview(view))
            raise KeyboardInterrupt

        store = self.connect()
        store.get("key")
        with self.assertRaises(KeyboardInterrupt):
            store.visit("key", interrupted)
        if IN_PLACE:
            self.assertRaisesRegex(RuntimeError, "closed", store.ping)

    def test_what_is_kept_beside_another_client_of_the_server(self):
        kept = []
        other = self.connect()
        self.assertRaises(BufferError, self.store.visit, "key", lambda view: kept.append(memoryview(view)))
        self.assertEqual(other["key"], b"0123456789")
        self.assertEqual(bytes(kept[0]), bytes(10) if IN_PLACE else b"0123456789")

    def test_what_is_kept_of_a_server_that_goes(self):
        kept = []

        def keep(view):
            kept.append(memoryview(view))
            self.kvserver.kill()
            self.kvserver = self.start()  # so that the client connects again, before it is closed

        with self.assertRaises(BufferError):
            self.store.visit("key", keep)
        self.assertEqual(bytes(kept[0]), bytes(10) if IN_PLACE else b"0123456789")


WRITER = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
import remora
with remora.Client(sys.argv[2]) as store:
    store.put("key", b"a" * 5000)
    print("writing", flush=True)
    for i in itertools.count():
        store.put("key", bytes([i % 256]) * (5000 + i % 3))
"""


class OverwrittenTest(VisitTestCase):
    def start(self):
        return self.memory_server(memory="20M")

    def use_all_memory_again(self, store):
        for _ in range(640):
            store.put("filling", bytes(100_000))
        time.sleep(0.5)  # longer than the grace period

    def test_the_function_is_called_again(self):
        other = self.connect()
        for before, after in ((b"b" * 100, b"a" * 101), (b"b" * (1 << 20), b"a" * (1 << 20))):
            self.store["key"] = before
            self.assertEqual(self.store["key"], before)
            seen = []

            def overwrite(view):
                seen.append(bytes(view))  # noqa: B023
                if len(seen) == 1:  # noqa: B023
                    other["key"] = after  # noqa: B023
                    self.use_all_memory_again(other)
                return bytes(view)

            version = other.get_versioned("key")[1]
            got, shown = self.store.visit_versioned("key", overwrite)
            self.assertEqual(seen, [before, after] if IN_PLACE else [before])
            self.assertTrue(got == seen[-1])
            self.assertEqual(shown > version, IN_PLACE)

    def test_an_exception_over_bytes_that_changed(self):
        other = self.connect()
        calls = []

        def parse(view):
            calls.append(1)
            if len(calls) == 1:
                other["key"] = b"9876543210"
                self.use_all_memory_again(other)
            if not bytes(view).isdigit():
                raise ValueError("no digits")
            return bytes(view)

        # The filling, which has no digits, is not the value of the key.
        self.assertEqual(self.store.visit("key", parse), b"9876543210" if IN_PLACE else b"0123456789")

        def interrupted(_):
            calls.append(1)
            self.use_all_memory_again(other)
            raise KeyboardInterrupt

        calls.clear()
        self.store.get("key")
        self.assertRaises(KeyboardInterrupt, self.store.visit, "key", interrupted)
        self.assertEqual(len(calls), 1)
        self.assertEqual(self.store["key"], b"9876543210")

    def test_a_key_that_is_deleted_meanwhile(self):
        other = self.connect()

        def delete(view):
            del other["key"]
            self.use_all_memory_again(other)
            return bytes(view)

        if IN_PLACE:
            self.assertRaises(remora.NotFound, self.store.visit, "key", delete)
        else:
            self.assertEqual(self.store.visit("key", delete), b"0123456789")

    def test_beside_a_writer(self):
        writer = subprocess.Popen([sys.executable, "-B", "-c", WRITER, PACKAGE, self.address], stdout=subprocess.PIPE)
        self.addCleanup(writer.stdout.close)
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)
        self.assertEqual(writer.stdout.readline(), b"writing\n")
        calls = itertools.count()

        def look(view):
            first = bytes(view)
            if next(calls) % 8 == 0:
                time.sleep(0.15)  # longer than the grace period
            return first, bytes(view)

        seen, visits = set(), 0
        end = time.monotonic() + 2
        while time.monotonic() < end or (min(visits, len(seen)) < 2 and time.monotonic() < end + harness.PATIENCE):
            first, second = self.store.visit("key", look)
            self.assertTrue(first == second and len(set(first)) == 1 and len(first) in (5000, 5001, 5002))
            seen.add(first[0])
            visits += 1
        self.assertGreater(min(visits, len(seen)), 1)
        self.assertGreaterEqual(next(calls), visits)
        self.assertIsNone(writer.poll())


if __name__ == "__main__":
    unittest.main()
