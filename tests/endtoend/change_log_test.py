"""Watches of a server that is only in memory, and keeps its last changes for them (kvserver --change_log)."""

import subprocess
import unittest

import harness
import redis_pair
from harness import kvctl

VALUE = b"v" * 100_000


class Base(redis_pair.TestCase):
    def run_ok(self, *arguments, stdin=b""):
        run = kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def position(self):
        return self.run_ok("watch", "--show_positions", "--idle=1ms").decode().strip()

    def ended(self, position):
        """Returns what `kvctl watch` says whose position is lost."""
        run = kvctl(self.address, "watch", "--resume", position, "--idle=10s")
        self.assertEqual((run.returncode, run.stdout), (69, b""), run.stderr)
        return run.stderr


class WatchTest(Base):
    def test_kvctl(self):
        self.memory_server("--change_log=1M")
        start = self.position()
        self.run_ok("put", "a", "1")
        self.run_ok("put", "large", stdin=5 * VALUE)
        self.run_ok("append", "a", "2")
        self.run_ok("delete", "large")
        changes = [b"put\ta\t1", b"put\tlarge\t" + 5 * VALUE, b"put\ta\t12", b"delete\tlarge"]
        self.assertEqual(self.run_ok("watch", "--resume", start, "--idle=1ms").splitlines(), changes)
        self.assertEqual(self.run_ok("watch", "--resume", start, "--idle=1ms", "--prefix=l").splitlines(), changes[1::2])
        self.run_ok("put", "short", "1", "--ttl=1ms")
        # Each within two seconds.
        self.assertEqual(self.run_ok("watch", "--resume", start, "--prefix=s", "--limit=2"), b"put\tshort\t1\ndelete\tshort\n")

    def test_a_watch_that_is_too_far_behind_ends(self):
        self.memory_server("--change_log=1M")
        start = self.position()
        for i in range(10):
            self.run_ok("put", str(i), stdin=VALUE)
        self.assertIn(b"--change_log", self.ended(start))
        start = self.position()
        self.run_ok("put", "too large", stdin=10 * VALUE)
        self.assertIn(b"larger than the change log", self.ended(start))

    def test_a_restart_ends_a_watch(self):
        server = self.memory_server("--change_log=1M")
        start = self.position()
        server.kill()
        self.memory_server("--change_log=1M")
        self.run_ok("put", "key", "value")
        self.assertIn(b"started anew", self.ended(start))

    def test_the_log_says_what_it_takes(self):
        server = self.memory_server("--change_log=3M")
        server.await_said(rb"; beside them, 3145728 bytes for the change log")

    def test_sizes_that_make_no_sense_are_rejected(self):
        for status, says, flags in (
            (64, b"--change_log: 1023K is out of bounds; give a size from 1M to 8T, or 0 for none", ["--change_log=1023K"]),
            (64, b"--change_log: 9T is out of bounds", ["--change_log=9T"]),
            (64, b"--change_log: ", ["--change_log=some"]),
            (64, b"--change_log is for --durability=memory", ["--change_log=1M", "--durability=logged", f"--data_dir={self.folder}/d"]),
            (71, b"is more than", ["--change_log=8T"]),
        ):
            with self.subTest(flags=flags):
                words = [harness.program("kvserver"), f"--listen={self.address}", "--memory=64M", *flags]
                if "--durability=logged" not in flags:
                    words.append("--durability=memory")
                run = subprocess.run(words, capture_output=True, timeout=harness.PATIENCE, check=False)
                self.assertEqual((run.returncode, run.stdout), (status, b""), run.stderr)
                self.assertIn(says, run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class GateTest(Base):
    def setUp(self):
        super().setUp()
        self.server_process = self.memory_server("--change_log=1M")
        self.gate("--threads=2", "--timeout=10000", "--notify_keyspace_events=KA")

    def test_notifications(self):
        wire, writer = self.wire(), self.wire()
        self.assertIn(b"psubscribe", wire.call("PSUBSCRIBE", "__key*"))
        writer.call("SET", "k", "v")
        writer.call("DEL", "k")
        writer.call("SET", "short", "v", "PX", "1")
        said = [wire.reply().split(b"\r\n") for _ in range(4)]
        self.assertEqual([(words[6].partition(b":")[2], words[8]) for words in said],
                         [(b"k", b"set"), (b"k", b"del"), (b"short", b"set"), (b"short", b"del")])  # fmt: skip

    def test_cached_values(self):
        wire = self.wire()
        wire.call("HELLO", 3)
        self.assertEqual(wire.call("CLIENT", "TRACKING", "ON"), b"+OK\r\n")
        for value in (b"1", b"2"):
            wire.call("GET", "k")
            self.assertEqual(self.wire().call("SET", "k", value), b"+OK\r\n")
            self.assertEqual(wire.reply(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n")
        self.assertEqual(wire.call("GET", "k"), b"$1\r\n2\r\n")
        self.server_process.kill()
        self.memory_server("--change_log=1M")
        self.assertEqual(wire.reply(), b">2\r\n$10\r\ninvalidate\r\n_\r\n")
        self.assertEqual(wire.call("GET", "k"), b"_\r\n")


if __name__ == "__main__":
    unittest.main()
