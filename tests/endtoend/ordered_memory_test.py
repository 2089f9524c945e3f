"""Scans and counts of a server that is only in memory and keeps its keys in order (kvserver --ordered=memory)."""

import subprocess
import unittest

import harness
from harness import kvctl


class OrderedMemoryTest(harness.TestCase):
    def run_ok(self, *arguments, stdin=b""):
        run = kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def test_kvctl(self):
        self.memory_server("--ordered=memory")
        for i in range(30):
            self.run_ok("put", f"key {i:02}", f"of {i}")
        lines = [f"key {i:02}\tof {i}".encode() for i in range(30)]
        self.assertEqual(self.run_ok("scan").splitlines(), lines)
        self.assertEqual(self.run_ok("scan", "--reverse", "--limit=3").splitlines(), lines[:-4:-1])
        self.assertEqual(self.run_ok("scan", "--prefix=key 1").splitlines(), lines[10:20])
        self.assertEqual(self.run_ok("count", "--prefix=key 2"), b"10\n")
        exported = self.run_ok("export")
        self.run_ok("delete_all", "--prefix=key 1", "--yes")
        self.assertEqual(self.run_ok("scan").splitlines(), lines[:10] + lines[20:])
        self.run_ok("import", stdin=exported)
        self.assertEqual(self.run_ok("scan").splitlines(), lines)
        stats = dict(line.split() for line in self.run_ok("stats").decode().splitlines() if line)
        self.assertGreater(int(stats["ordered_index_bytes"]), 30)
        self.assertEqual(stats["scan_saved_bytes"], "0")

    def test_a_server_with_a_disk_has_the_order_from_there(self):
        run = subprocess.run(
            [harness.BIN / "kvserver", f"--listen={self.address}", f"--data_dir={self.folder}/data", "--ordered=memory"],
            capture_output=True, timeout=harness.PATIENCE)
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertIn(b"--ordered=memory is for --durability=memory", run.stderr)


if __name__ == "__main__":
    unittest.main()
