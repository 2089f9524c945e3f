"""Errors of the Python package for a client that is closed, in use, or without its server."""

import os
import pathlib
import signal
import socket
import subprocess
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
            "visit": lambda: store.visit("a", len),
            "apply": lambda: store.apply(remora.Batch()),
            "len": lambda: len(store),
            "count": lambda: store.count(prefix="a"),
            "delete_range": lambda: store.delete_range(prefix="a"),
            "scan": lambda: list(store.scan()),
            "watch": lambda: store.watch(),
            "settings": lambda: store.settings(),
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
            for name, keys in (("get_many", ["a", "", "c"]), ("put_many", [("a", b"1"), ("", b"2"), ("c", b"3")])):
                with self.subTest(name), self.assertRaises(remora.Unavailable) as raised:
                    getattr(store, name)(keys)
                kinds = [type(outcome) for outcome in raised.exception.outcomes]
                self.assertEqual(kinds, [remora.Unavailable, remora.InvalidArgument, remora.Unavailable])
            with self.assertRaises(remora.Unavailable) as raised:
                store.ping()
            self.assertIsNone(raised.exception.outcomes)

    def test_while_another_thread_uses_it(self):
        buffer = self.store.register(bytearray(10))
        # A stopped server keeps one thread waiting while others come.
        harness.freeze(self.kvserver.process)
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


# Once the interpreter is ending, it waits a little, so that the threads' calls ask it whether to go on.
PROGRAM = """
import asyncio, math, sys, threading, time
sys.path.insert(0, sys.argv[1])
import remora
from remora import aio

address, silent = sys.argv[2:]

class Last:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)

def waits_for_changes(store):
    store.watch().next()

def counts(store):
    while True:
        store.stats()

def scans(store):
    while True:
        list(store.items())

def connects(store):
    remora.Client(silent, connect_timeout=math.inf)

async def read():
    async with aio.Client(address) as store:
        while True:
            await store.get_many([b"a", b"b"])

def reads(store):
    asyncio.run(read())

def run(work):
    store = remora.Client(address, timeout=math.inf)
    started.release()
    work(store)

works = [waits_for_changes, connects] + 4 * [counts, scans, reads]
started = threading.Semaphore(0)
for work in works:
    threading.Thread(target=run, args=[work], daemon=True).start()
for _ in works:
    started.acquire()
time.sleep(0.1)
last = Last()
sys.exit(7)
"""


class DaemonThreadsTest(harness.TestCase):
    def test_a_program_ends_whatever_its_threads_are_in(self):
        self.logged_server()
        with remora.Client(self.address) as store:
            store.put_many([("a", b"of a"), ("b", b"of b")])
        silent = self.folder / "silent"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(str(silent))
            server.listen()
            for _ in range(3):
                run = subprocess.run(
                    [sys.executable, "-B", "-c", PROGRAM, str(PACKAGE), self.address, f"local://{silent}"],
                    capture_output=True, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual((run.returncode, run.stdout, run.stderr), (7, b"", b""))


@unittest.skipUnless(os.geteuid() == 0, "only root may start programs as a user of their own")
class ShortageTest(harness.FewThreadsTestCase):
    def test_a_watch_goes_on_once_there_is_a_thread_again(self):
        server, serves = self.start(1000)
        self.assertTrue(serves)
        with remora.Client(self.address) as store:
            watch = store.watch(timeout=harness.PATIENCE)
            store["key"] = "value"
            self.limit(server, 1)
            for _ in range(2):
                with self.assertRaisesRegex(remora.ResourceExhausted, "a thread cannot be started"):
                    watch.next(harness.PATIENCE)
            self.limit(server, 1000)
            self.assertEqual(next(watch).key, b"key")


if __name__ == "__main__":
    unittest.main()
