"""Two servers with a part of the slots each, whose topology file is replaced under a running client."""

import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

HALVES = ["0-8191", "8192-16383"]


class MovedSlotsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.addresses = [self.new_address(str(shard)) for shard in range(2)]
        self.topology = self.folder / "topology"
        run = harness.kvctl(None, "cluster", "init", *self.addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.topology.write_bytes(run.stdout)
        self.cluster = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()
        self.servers = []
        self.give(HALVES)

    def give(self, slots):
        """Starts the servers anew, with these slots, on their data."""
        for server in self.servers:
            server.stop()
        self.servers = [
            harness.Server(
                f"--listen={self.addresses[shard]}", "--memory=64M", "--durability=logged",
                f"--data_dir={self.folder}/data{shard}", f"--shard={self.cluster}/{shard}",
                f"--slots={slots[shard]}",
            )
            for shard in range(2)
        ]  # fmt: skip
        for server in self.servers:
            self.addCleanup(server.close)

    def replace_file(self, slots):
        lines = [f"shard {shard} {slots[shard]} {self.addresses[shard]}" for shard in range(2)]
        text = "\n".join(["remora-topology 2", f"cluster {self.cluster}", *lines, ""])
        other = self.folder / "topology.new"
        other.write_text(text)
        other.rename(self.topology)

    def connect(self):
        store = remora.ClusterClient(self.topology, timeout=20)
        self.addCleanup(store.close)
        return store

    def keys_at(self, shard):
        with remora.Client(self.addresses[shard]) as server:
            return set(server)

    def test_the_client_finds_the_owners(self):
        store = self.connect()
        keys = {b"key %d" % i for i in range(100)}
        for key in keys:
            store[key] = b"1"
        owned = [self.keys_at(0), self.keys_at(1)]
        self.assertEqual(len(owned[0]) + len(owned[1]), 100)
        self.give(HALVES[::-1])
        self.replace_file(HALVES[::-1])
        for key in keys:
            store[key] = b"2"
        self.assertEqual({store[key] for key in keys}, {b"2"})
        for shard in range(2):
            with remora.Client(self.addresses[1 - shard]) as server:
                self.assertEqual({server[key] for key in owned[shard]}, {b"2"})

    def test_a_call_waits_for_the_file(self):
        store = self.connect()
        self.give(HALVES[::-1])
        writer = threading.Thread(target=lambda: store.put("key", "1"))
        writer.start()
        self.replace_file(HALVES[::-1])
        writer.join()
        self.assertEqual(store["key"], b"1")

    def test_a_server_does_nothing_for_others(self):
        with remora.Client(self.addresses[0]) as server:
            done = 0
            for i in range(100):
                try:
                    server.put(f"key {i}", "1")
                    done += 1
                except remora.FailedPrecondition as error:
                    self.assertIn("is another server's, and nothing was done", str(error))
                    foreign = f"key {i}"
            self.assertEqual(len(server), done)
            self.assertGreater(done, 0)
            self.assertLess(done, 100)
        run = harness.kvctl(self.addresses[0], "put", foreign, "1")
        self.assertEqual(run.returncode, 78)
        self.assertIn(b"is another server's, and nothing was done", run.stderr)
        run = harness.kvctl(None, f"--topology={self.topology}", "put", foreign, "1")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_bad_flags(self):
        for flags, text in [
            (["--slots=0-5"], "--slots: needs --shard"),
            (["--slots=5-0", f"--shard={self.cluster}/0"], "--slots: '5-0' is no set of slots"),
            (["--slots=0,0", f"--shard={self.cluster}/0"], "--slots: '0,0' is no set of slots; give numbers from 0 to 16383 and ranges, as in 0-8191,8200, and each slot once"),
            (["--slots=16384", f"--shard={self.cluster}/0"], "is no set of slots"),
        ]:
            run = subprocess.run(
                [harness.program("kvserver"), f"--listen={self.new_address('other')}", "--memory=64M", "--durability=memory", *flags],
                capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(text, run.stderr.decode())


if __name__ == "__main__":
    unittest.main()
