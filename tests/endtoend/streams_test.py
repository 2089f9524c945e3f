"""Descriptors that a program gets from its parent, or does not get: standard streams that are closed, --ready_fd."""

import contextlib
import os
import pathlib
import re
import subprocess
import unittest

import harness
from harness import kvctl

EX_USAGE = 64
EX_IOERR = 74


def run(command, closed=(), **options):
    """Runs a program with these descriptors closed."""

    def close():
        for descriptor in closed:
            os.close(descriptor)

    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, preexec_fn=close, timeout=harness.PATIENCE, check=False, **streams)


class ClosedStreamsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server()
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.kvctl = [harness.program("kvctl"), f"--server={self.address}"]

    def requests_rejected(self):
        counters = harness.stats(self.address)
        return counters["rejected_requests"] + counters["connections_broken"]

    def test_a_result_that_cannot_be_written_is_an_error(self):
        for command in (
            ["get", "key"], ["ttl", "key"], ["incr", "number"], ["append", "text", "more"], ["scan"], ["count"], ["stats"],
            ["ping"], ["export"], ["create_token", "name"],
        ):  # fmt: skip
            with self.subTest(command=command):
                program = self.kvctl[:1] if command[0] == "create_token" else self.kvctl  # which asks no server
                self.assertEqual(run([*program, *command]).returncode, 0)
                closed = run([*program, *command], closed=[1])
                self.assertEqual(closed.returncode, EX_IOERR, closed.stderr)
                self.assertIn(b"standard output", closed.stderr)
                with open("/dev/full", "wb") as full:
                    self.assertEqual(run([*program, *command], stdout=full).returncode, EX_IOERR)
        # None of it went into a connection.
        self.assertEqual(self.requests_rejected(), 0)
        self.assertEqual(kvctl(self.address, "get", "key").stdout, b"value")

    def test_kvbench_says_so(self):
        kvbench = [harness.program("kvbench"), "all", f"--target={self.address}", "--records=10", "--operations=10"]
        self.assertEqual(run(kvbench).returncode, 0)
        self.assertEqual(run(kvbench, closed=[1]).returncode, EX_IOERR)
        with open("/dev/full", "wb") as full:
            self.assertEqual(run(kvbench, stdout=full).returncode, EX_IOERR)
        self.assertEqual(self.requests_rejected(), 0)

    def test_closed_input_is_not_an_empty_value(self):
        put = run([*self.kvctl, "put", "key"], closed=[0])
        self.assertEqual(put.returncode, EX_IOERR)
        self.assertIn(b"standard input", put.stderr)
        self.assertEqual(run([*self.kvctl, "import"], closed=[0]).returncode, EX_IOERR)
        self.assertEqual(kvctl(self.address, "get", "key").stdout, b"value")

    def test_all_closed(self):
        self.assertEqual(run([*self.kvctl, "put", "key", "new"], closed=[0, 1, 2]).returncode, 0)
        self.assertEqual(run([*self.kvctl, "get", "none"], closed=[0, 1, 2]).returncode, 1)
        self.assertEqual(kvctl(self.address, "get", "key").stdout, b"new")

    def test_a_program_of_the_library(self):
        """It prints to descriptor 1, which must be neither its connection nor a file of its store."""
        watch = subprocess.Popen(
            [harness.program("example_watch"), self.address, "prefix"],
            preexec_fn=lambda: [os.close(descriptor) for descriptor in (0, 1, 2)],
        )
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        # A connection of kvctl may not have ended yet, but none of them watches.
        harness.wait_until(lambda: harness.stats(self.address)["watches"] == 1, "it watches")
        for descriptor in (0, 1, 2):
            self.assertEqual(os.readlink(f"/proc/{watch.pid}/fd/{descriptor}"), "/dev/null")
        embedded = [harness.program("example_embedded"), f"{self.folder}/embedded"]
        for _ in range(2):
            self.assertEqual(run(embedded, closed=[0, 1, 2]).returncode, 0)
        self.assertEqual(run(embedded).stdout, b"runs: 3\n")
        for path in filter(pathlib.Path.is_file, (self.folder / "embedded").rglob("*")):
            self.assertNotIn(b"runs: ", path.read_bytes(), path)


class ServerStreamsTest(harness.TestCase):
    def test_a_server_without_streams_keeps_its_data_clean(self):
        ready, write_end = os.pipe()
        command = [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.folder}/data"]
        server = subprocess.Popen(
            [*command, "--memory=64M", f"--ready_fd={write_end}"], pass_fds=[write_end],
            preexec_fn=lambda: [os.close(descriptor) for descriptor in (0, 1, 2)],
        )  # fmt: skip
        os.close(write_end)
        with os.fdopen(ready, "rb") as lines:
            self.assertEqual(lines.read(), b"ready\n")
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for descriptor in (0, 1, 2):
            self.assertEqual(os.readlink(f"/proc/{server.pid}/fd/{descriptor}"), "/dev/null")
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        server.terminate()
        self.assertEqual(server.wait(harness.PATIENCE), 0)
        for path in filter(pathlib.Path.is_file, (self.folder / "data").rglob("*")):
            self.assertNotIn(b"kvserver: ", path.read_bytes(), path)

    def start(self, ready_fd, **options):
        command = [
            harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.folder}/data", "--memory=64M",
            f"--ready_fd={ready_fd}",
        ]  # fmt: skip
        return run(command, **options)

    def test_a_descriptor_that_nobody_passed(self):
        for descriptor in (*range(40), 1 << 20, 1 << 30):
            with self.subTest(descriptor=descriptor):
                rejected = self.start(descriptor)
                self.assertEqual(rejected.returncode, EX_USAGE, rejected.stderr)
                self.assertTrue(re.fullmatch(rb"kvserver: --ready_fd=[^\n]+; [^\n]+\n", rejected.stderr), rejected.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_descriptor_that_takes_nothing_more(self):
        """The server does not wait for its reader."""
        ready, write_end = os.pipe()
        self.addCleanup(os.close, ready)
        os.set_blocking(write_end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write_end, bytes(4096))
        os.set_blocking(write_end, True)
        with open(self.folder / "errors", "wb") as errors:
            server = subprocess.Popen(
                [harness.program("kvserver"), f"--listen={self.address}", "--durability=memory", "--memory=64M",
                 f"--ready_fd={write_end}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[write_end],
            )  # fmt: skip
        os.close(write_end)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        harness.wait_until((self.folder / "socket").exists, "it listens")
        self.assertEqual(kvctl(self.address, "put", "key", "value", "--timeout=30000").returncode, 0)
        # A thread of its own writes the server's messages.
        says = b"--ready_fd: its reader takes no bytes; read it"
        harness.wait_until(lambda: says in (self.folder / "errors").read_bytes(), "the server says so")

    def test_a_descriptor_that_cannot_be_written(self):
        ready, write_end = os.pipe()
        self.addCleanup(os.close, ready)
        self.addCleanup(os.close, write_end)
        rejected = self.start(ready, pass_fds=[ready])
        self.assertEqual(rejected.returncode, EX_USAGE, rejected.stderr)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
