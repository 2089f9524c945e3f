"""Properties of each call of the Python package while it waits, and while its result is made. Other
threads run, Ctrl-C is heard, and nothing else that uses the client comes between."""

import contextlib
import gc
import os
import pathlib
import signal
import sys
import threading
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402


def is_in_use(store):
    """Whether another thread's call is in progress."""
    try:
        store.counters()
    except RuntimeError as error:
        return "another thread" in str(error)
    return False


class Garbage:
    """A cycle, whose finalizer acts, and leaves another one for the next run of the collector."""

    armed = False

    def __init__(self, act):
        self.act = act
        self.itself = self

    def __del__(self):
        if Garbage.armed:
            self.act()
            Garbage(self.act)


@contextlib.contextmanager
def finalizing(act):
    """Has the collector run, and `act` in a finalizer, at nearly each allocation that may start it."""
    before = gc.get_threshold()
    gc.collect()
    Garbage.armed = True
    Garbage(act)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        Garbage.armed = False
        gc.collect()


@contextlib.contextmanager
def signalled(store, number):
    """Has a signal come as soon as a call of the client is in progress."""
    over = threading.Event()

    def send():
        while not is_in_use(store):
            if over.wait(0.001):
                return
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class CallsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.logged_server(f"--backup_dir={self.folder}/backups", "--max_clients=40")
        self.store = self.connect()
        self.pairs = {f"key {i}".encode(): b"of %d" % i for i in range(5)}
        self.store.put_many(self.pairs.items())

    def connect(self):
        store = remora.Client(self.address, timeout=harness.PATIENCE, connect_timeout=harness.PATIENCE)
        self.addCleanup(store.close)
        return store

    def batch(self):
        batch = remora.Batch()
        batch.put("batched", b"value")
        return batch

    def stop_server(self):
        harness.freeze(self.kvserver.process)
        self.addCleanup(self.kvserver.process.send_signal, signal.SIGCONT)

    def in_thread(self, store, call):
        """Begins it in another thread; returns that, and what it will have returned, when the client is in use."""
        results = []
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()

        def is_in_flight():
            self.assertTrue(thread.is_alive(), "it has ended, and nobody else ran meanwhile")
            return is_in_use(store)

        harness.wait_until(is_in_flight, "the client is in use")
        return thread, results


class ThreadsTest(CallsTest):
    def test_others_run_while_a_batch_is_applied(self):
        self.stop_server()
        batch = self.batch()
        thread, results = self.in_thread(self.store, lambda: self.store.apply(batch))
        for change in (batch.clear, lambda: batch.put("more", b""), lambda: batch.delete("more")):
            with self.assertRaisesRegex(RuntimeError, "being applied"):
                change()
        self.kvserver.process.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(self.store.get_versioned("batched"), (b"value", results[0]))
        batch.clear()

    def test_others_run_while_counters_are_asked_for(self):
        self.kvserver.kill()
        thread, results = self.in_thread(self.store, lambda: self.store.stats())
        self.logged_server()
        thread.join()
        self.assertIn("puts", results[0])

    def test_a_buffer_that_is_dropped_lasts_as_long_as_the_call(self):
        memories = [bytearray(100) for _ in range(100)]
        buffers = [self.store.register(memory) for memory in memories]
        self.kvserver.kill()
        thread, _ = self.in_thread(self.store, lambda: self.store.ping())
        with self.assertRaisesRegex(RuntimeError, "another thread"):
            buffers[0].release()
        buffers.clear()
        for memory in memories:
            with self.assertRaises(BufferError):  # a device may still be at it
                memory.append(1)
        self.logged_server()
        thread.join()
        for memory in memories:
            memory.append(1)
        self.assertEqual(self.store["key 1"], b"of 1")

    def test_a_child_that_is_forked_meanwhile_has_no_such_call(self):
        buffer = self.store.register(bytearray(10))
        self.stop_server()
        thread, _ = self.in_thread(self.store, lambda: self.store.put("key", b"value"))
        child = os.fork()
        if child == 0:
            try:
                self.store.get("key 1")
            except RuntimeError as error:
                buffer.release()
                self.store.close()
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.kvserver.process.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(self.store["key"], b"value")

    def test_a_scan_and_a_watch_that_are_dropped_last_as_long_as_the_call(self):
        beside = [self.store.scan(), self.store.watch()]
        self.kvserver.kill()
        thread, _ = self.in_thread(self.store, lambda: self.store.ping())
        beside.clear()
        self.logged_server()
        thread.join()
        self.assertEqual(dict(self.store.scan()), self.pairs)


class FinalizersTest(CallsTest):
    """A finalizer that the collector runs while a call's result is made, and that uses the same client."""

    def setUp(self):
        super().setUp()
        self.store["other"] = b"of another key"
        self.rejected = []
        # Freed objects would be used again, and the collector would not run for them.
        self.kept = [([], (i, i)) for i in range(1000)]
        self.others = ("other",) * 5

    def act(self):
        try:
            self.kept.append(self.store.get_many(self.others))
            self.kept.append(next(self.store.scan(prefix="other")))
        except RuntimeError as error:
            self.rejected.append(str(error))

    def check(self, call, wanted):
        with finalizing(self.act):
            results = [call() for _ in range(40)]
        for result in results:
            self.assertEqual(result, wanted)

    def check_was_rejected(self):
        if sys.version_info < (3, 12):  # later ones run the collector between instructions alone
            self.assertIn("in a call of this thread", "\n".join(self.rejected))

    def test_inside_get_many(self):
        self.check(lambda: self.store.get_many(self.pairs), list(self.pairs.values()))
        self.check_was_rejected()

    def test_inside_a_scan(self):
        self.check(lambda: list(self.store.scan(prefix="key")), list(self.pairs.items()))
        self.check_was_rejected()

    def test_inside_a_watch(self):
        token = self.store.watch().resume_token()
        self.store.put_many(self.pairs.items())
        self.check(
            lambda: [change[1:3] for change in self.store.watch(prefix="key", resume_token=token, timeout=0)],
            list(self.pairs.items()),
        )
        self.check_was_rejected()

    def test_inside_failures(self):
        def act():
            with contextlib.suppress(RuntimeError, remora.Error):
                self.store.put_many([("key", b"x" * 5000)] * 3, condition=remora.ABSENT)
            with contextlib.suppress(remora.Error):
                remora.Client("local:///" + "x" * 200)

        def failures():
            with self.assertRaises(remora.InvalidArgument) as alone:
                self.store.get("")
            return {str(error) for error in (*self.store.put_many([("", b"")] * 3), alone.exception)}

        wanted = failures()
        self.act = act
        self.check(failures, wanted)

    def test_what_drops_a_buffer(self):
        def drop():
            if buffers:
                buffers.pop()

        buffers = [self.store.register(bytearray(10)) for _ in range(200)]
        with finalizing(drop):
            results = [self.store.get_many(self.pairs) for _ in range(40)]
        self.assertEqual(results, [list(self.pairs.values())] * 40)
        self.assertLess(len(buffers), 200)

    def test_code_that_arguments_run_may_use_the_client(self):
        def keys():
            for key in self.pairs:
                self.assertEqual(self.store.get_many([key]), [self.pairs[key]])
                yield key

        class Span:
            def __float__(_):
                self.store.get_many(["other"])
                buffer.release()
                return 60.0

        self.assertEqual(self.store.get_many(keys()), list(self.pairs.values()))
        self.store.put_many((key, self.store[key] + b"!") for key in keys())
        self.assertEqual(self.store["key 3"], b"of 3!")
        buffer = self.store.register(bytearray(10))
        with self.assertRaisesRegex(RuntimeError, "released"):
            buffer.put("from", 5, ttl=Span())
        buffer = self.store.register(bytearray(10))
        self.store.put("timed", b"value", ttl=Span())
        self.assertLessEqual(self.store.ttl("timed"), 60)


class SignalsTest(CallsTest):
    def interrupted(self, store, call):
        """Runs a call of the client, and has Ctrl-C come while it waits."""
        with signalled(store, signal.SIGINT), self.assertRaises(KeyboardInterrupt):
            call()

    def test_each_call_that_waits_for_a_stopped_server(self):
        large = bytearray(1 << 20)
        calls = {
            "put": lambda store: store.put("key", b"value"),
            "set": lambda store: store.__setitem__("key", b"value"),
            "large": lambda store: store.put("key", large),
            "append": lambda store: store.append("key", b"value"),
            "increment": lambda store: store.increment("n"),
            "delete": lambda store: store.delete("key 1"),
            "del": lambda store: store.__delitem__("key 1"),
            "touch": lambda store: store.touch("key 1", 60),
            "persist": lambda store: store.persist("key 1"),
            "put_many": lambda store: store.put_many(self.pairs),
            "apply": lambda store: store.apply(self.batch()),
            "scan": lambda store: store.scan(),
            "iter": lambda store: iter(store),
            "watch": lambda store: store.watch(),
            "count": lambda store: store.count(prefix="key"),
            "delete_range": lambda store: store.delete_range(prefix="key"),
            "delete_all": lambda store: store.delete_all(),
            "backup": lambda store: store.backup(5),
            "settings": lambda store: store.settings(),
            "ping": lambda store: store.ping(),
        }
        stores = {name: self.connect() for name in calls}
        with_buffer = self.connect()
        buffer = with_buffer.register(large)
        watch = self.store.watch()
        self.interrupted(self.store, lambda: next(watch))
        self.stop_server()
        for name, call in calls.items():
            with self.subTest(name):
                self.interrupted(stores[name], lambda: call(stores[name]))
        new = remora.Client.__new__(remora.Client)
        for name, store, call in (
            ("buffer.put", with_buffer, lambda: buffer.put("key", 1 << 20)),
            ("watch.next", self.store, lambda: watch.next()),
            ("watch.next(timeout)", self.store, lambda: watch.next(harness.PATIENCE)),
            ("Client", new, lambda: new.__init__(self.address, connect_timeout=harness.PATIENCE)),
        ):
            with self.subTest(name):
                self.interrupted(store, call)
        self.kvserver.process.send_signal(signal.SIGCONT)
        # Each is as good as before; operations that were begun are done by then, or never.
        for store in (with_buffer, *stores.values()):
            store.ping()
        self.store["after"] = b"all"
        self.assertIn(b"after", (change.key for change in watch))
        for store in (with_buffer, *stores.values()):
            self.assertEqual(store["after"], b"all")

    def test_each_call_that_waits_for_a_connection(self):
        buffer = self.store.register(bytearray(10))
        scan, watch = self.store.scan(), self.store.watch()
        self.kvserver.kill()
        for name, call in {
            "get": lambda: self.store.get("key 1"),
            "[]": lambda: self.store["key 1"],
            "in": lambda: "key 1" in self.store,
            "get_versioned": lambda: self.store.get_versioned("key 1"),
            "get_many": lambda: self.store.get_many(["key 1"]),
            "visit": lambda: self.store.visit("key 1", len),
            "ttl": lambda: self.store.ttl("key 1"),
            "len": lambda: len(self.store),
            "stats": lambda: self.store.stats(),
            "register": lambda: self.store.register(bytearray(10)),
            "buffer.get": lambda: buffer.get("key 1"),
            "watch.next": lambda: watch.next(),
            "scan": lambda: list(scan),
            "put": lambda: self.store.put("key 1", b"value"),
        }.items():
            with self.subTest(name):
                self.interrupted(self.store, call)
        self.logged_server()
        self.assertEqual(self.store["key 1"], b"of 1")
        with self.assertRaises(remora.Cancelled):  # and not as if there were no more
            list(scan)

    def test_a_handler_that_raises_nothing_changes_nothing(self):
        calls = []

        def handler(*_):
            try:
                self.store.get("key 1")
            except RuntimeError as error:
                calls.append(str(error))
            self.kvserver.process.send_signal(signal.SIGCONT)

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.stop_server()
        with signalled(self.store, signal.SIGALRM):
            self.store.put("key 1", b"value")
        self.assertIn("in a call of this thread", calls[0])
        self.assertEqual(self.store["key 1"], b"value")
        self.assertEqual(self.store.counters()["reconnects"], 0)


if __name__ == "__main__":
    unittest.main()
