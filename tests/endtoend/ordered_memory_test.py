"""Scans and counts of a server that keeps its keys in order (kvserver --ordered=memory)."""

import json
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

    def test_kvctl_one_sided(self):
        self.memory_server("--ordered=memory")
        for i in range(30):
            self.run_ok("put", f"key {i:02}", f"of {i}")
        lines = [f"key {i:02}\tof {i}".encode() for i in range(30)]
        scans = int(harness.stats(self.address)["scans"])
        self.assertEqual(self.run_ok("scan", "--one_sided").splitlines(), lines)
        self.assertEqual(self.run_ok("scan", "--one_sided", "--reverse", "--limit=3").splitlines(), lines[:-4:-1])
        self.assertEqual(self.run_ok("scan", "--one_sided", "--keys_only", "--prefix=key 1").splitlines(),
                         [line.split(b"\t")[0] for line in lines[10:20]])
        self.assertEqual(int(harness.stats(self.address)["scans"]), scans, "the server has made no page")
        self.assertEqual(kvctl(self.address, "scan", "--one_sided", "--any_order").returncode, 64)

    def test_kvctl_one_sided_without_an_order(self):
        self.memory_server()
        run = kvctl(self.address, "scan", "--one_sided")
        self.assertEqual(run.returncode, 78)
        self.assertIn(b"--ordered=memory", run.stderr)

    def test_a_server_with_a_disk(self):
        """More records than the memory holds, through kills; the order is complete after each."""
        values = {f"key {i:04}": f"{i} " + "v" * 40_000 for i in range(600)}
        lines = [json.dumps(line) for line in [
            {"remora_export": 1}, *({"key": key, "value": values[key]} for key in values), {"records": len(values)}]]
        server = self.logged_server("--ordered=memory", memory="24M")
        self.run_ok("import", stdin="\n".join(lines).encode() + b"\n")
        self.assertGreater(harness.stats(self.address)["cold_keys"], 100)
        for i in range(3):
            self.check_contents(values)
            self.run_ok("delete_all", f"--prefix=key 00{i}", "--yes")
            self.run_ok("put", f"key 01{i}x", "new")
            values = {key: value for key, value in values.items() if not key.startswith(f"key 00{i}")}
            values[f"key 01{i}x"] = "new"
            server.kill()
            server = self.logged_server("--ordered=memory", memory="24M")
            self.check_contents(values)
            harness.wait_until(lambda: harness.stats(self.address)["loading"] == 0, "it has loaded what it stored")
        self.check_contents(values)
        self.assertGreater(harness.stats(self.address)["ordered_index_bytes"], 600)
        server.stop()
        self.logged_server(memory="24M")
        self.check_contents(values)
        self.assertEqual(harness.stats(self.address)["ordered_index_bytes"], 0)

    def check_contents(self, values):
        keys = sorted(values)
        self.assertEqual(self.run_ok("scan").decode().splitlines(), [f"{key}\t{values[key]}" for key in keys])
        self.assertEqual(self.run_ok("scan", "--reverse", "--keys_only").decode().splitlines(), keys[::-1])
        self.assertEqual(int(self.run_ok("count", "--prefix=key 01")), sum(key.startswith("key 01") for key in keys))


if __name__ == "__main__":
    unittest.main()
