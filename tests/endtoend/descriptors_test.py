"""A kvserver with few descriptors: how many clients fit, what the others are told, and that the store keeps its own."""

import os
import resource
import socket
import subprocess
import unittest

import harness
from harness import kvctl


def few(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


class DescriptorsTest(harness.TestCase):
    def start(self, limit, *flags):
        server = harness.Server(
            f"--listen={self.address}", f"--data_dir={self.folder}/data", "--memory=512M", *flags,
            preexec_fn=few(limit),
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def test_as_many_clients_as_fit_and_the_store_makes_its_tables(self):
        server = self.start(256)
        fit = int(server.await_said(rb"the limit of open files \(ulimit -n\) is 256, enough for (\d+)").group(1))
        self.assertGreater(fit, 16)
        # 180 MB: more than a write buffer, while all of them are there.
        with subprocess.Popen(
            [harness.program("many_clients"), self.address, "900", "200000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            self.assertEqual(process.stdout.readline(), f"{fit} clients\n".encode())
            rejection = process.stdout.readline().decode()
            self.assertIn(f"it has {fit} clients, as many as its limit of descriptors allows", rejection)
            self.assertTrue(process.stdout.readline(), "all was written")
            # A table is made by RocksDB's own thread.
            harness.wait_until(lambda: list((self.folder / "data").glob("*.sst")), "there is a table")
            process.stdin.close()
            self.assertEqual(process.wait(timeout=harness.PATIENCE), 0)
        server.await_said(b"rejected: it has")
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.assertEqual(server.stop()[0], 0)

    def test_a_client_takes_one(self):
        server = self.memory_server("--max_clients=40")
        before = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        with subprocess.Popen(
            [harness.program("many_clients"), self.address, "1", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            self.assertEqual(process.stdout.readline(), b"40 clients\n")
            process.stdout.read(1)
            # Descriptors that are made ahead come and go beside.
            self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/fd")) - before, 2 * 40)
            process.stdin.close()

    def test_a_limit_that_is_too_low_is_said_at_the_start(self):
        for flags, pattern in ([], "raise the limit"), (["--max_clients=9000"], "or let in fewer clients"):
            run = subprocess.run(
                [harness.program("kvserver"), f"--listen={self.address}", "--durability=memory", "--memory=8G", *flags],
                capture_output=True, timeout=harness.PATIENCE, check=False, preexec_fn=few(1024 if flags else 64),
            )  # fmt: skip
            self.assertEqual(run.returncode, 71, run.stderr)
            self.assertRegex(run.stderr.decode(), rf"this process may have \d+ descriptors[^\n]*{pattern}")

    def test_who_finds_no_descriptor_is_told_so(self):
        server = self.start(1024)
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # None behind the last one; and those between are taken by who says nothing.
        last = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (last + 1, before[1]))
        silent = []
        while (run := kvctl(self.address, "get", "key", "--timeout=10000")).returncode == 1:
            silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            silent[-1].connect(str(self.folder / "socket"))
            self.assertLess(len(silent), 60)
        self.assertEqual(run.returncode, 69)
        self.assertIn(b"has no descriptor or memory left for another client", run.stderr)
        harness.wait_until(lambda: b"rejected: no descriptor is left" in server.said(), "the log says so")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for connection in silent:
            connection.close()
        self.assertEqual(kvctl(self.address, "get", "key").returncode, 1)
        self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
