"""Errors of the Python package for a client that is closed, in use, or without its server."""

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


class EndTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.logged_server()
        self.store = remora.Client(self.address, timeout=harness.PATIENCE)
        self.addCleanup(self.store.close)
        self.store.put_many([("a", b"of a"), ("b", b"of b")])

    def calls(self, store):
        """Each kind of call, by its name."""
        return {
            "get": lambda: store["a"],
            "put": lambda: store.put("a", b"other"),
            "get_many": lambda: store.get_many(["a", "b"]),
            "apply": lambda: store.apply(remora.Batch()),
            "len": lambda: len(store),
            "count": lambda: store.count(prefix="a"),
            "delete_range": lambda: store.delete_range(prefix="a"),
            "scan": lambda: list(store.scan()),
            "watch": lambda: store.watch(),
            "stats": lambda: store.stats(),
            "ping": lambda: store.ping(),
            "backup": lambda: store.backup(5),
        }

    def test_after_close(self):
        calls = self.calls(self.store) | {
            "put_many": lambda: self.store.put_many([("a", b"other")]),
            "counters": lambda: self.store.counters(),
            "register": lambda: self.store.register(bytearray(10)),
        }
        self.store.close()
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, "closed"):
                call()
        with remora.Client(self.address) as other:
            self.assertEqual(list(other.scan()), [(b"a", b"of a"), (b"b", b"of b")])

    def test_without_a_server(self):
        with remora.Client(self.address, reconnect=False) as store:
            batch = remora.Batch()
            batch.put("a", b"other")
            calls = self.calls(store) | {
                "apply": lambda: store.apply(batch),
                "put_many": lambda: store.put_many([("a", b"other"), ("c", b"of c")]),
            }
            store.ping()
            self.kvserver.kill()
            for name, call in calls.items():
                with self.subTest(name), self.assertRaises(remora.Unavailable):
                    call()
            self.assertEqual(store.counters()["requests"], 1)  # asks no server

    def test_while_another_thread_uses_it(self):
        buffer = self.store.register(bytearray(10))
        # A stopped server keeps one thread waiting while others come.
        self.kvserver.process.send_signal(signal.SIGSTOP)
        thread = threading.Thread(target=lambda: self.store.put("a", b"other"))
        thread.start()

        def is_in_use():
            try:
                self.store.counters()
            except RuntimeError:
                return True
            return False

        harness.wait_until(is_in_use, "the client is in use")
        calls = self.calls(self.store) | {"release": buffer.release, "close": self.store.close}
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, "another thread"):
                call()
        self.kvserver.process.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(self.store["a"], b"other")
        buffer.release()


if __name__ == "__main__":
    unittest.main()
