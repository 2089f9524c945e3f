"""Two servers with a part of the slots each, whose topology file is replaced under a running client."""

import os
import pathlib
import subprocess
import sys
import threading
import unittest

import harness
import moved_slots
from moved_slots import HALVES

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402


class MovedSlotsTest(moved_slots.TestCase):
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
        # The first key whose server gave it away has the client read the file.
        self.assertEqual(self.moved_requests(), 1)
        for shard in range(2):
            with remora.Client(self.addresses[1 - shard]) as server:
                self.assertEqual({server[key] for key in owned[shard]}, {b"2"})

    def test_reads_find_the_owners(self):
        store = self.connect()
        store["key"] = b"old"
        for read, value in [
            (lambda: store["key"], b"new"),
            (lambda: store.get("key"), b"new"),
            (lambda: store.get_many(["key"]), [b"new"]),
            (lambda: "key" in store, True),
            (lambda: "{key}none" in store, False),
            (lambda: store.ttl("key"), float("inf")),
            (lambda: len(store), 1),
        ]:
            slots = self.slots[::-1]
            self.give(slots)
            self.replace_file(slots)
            with remora.ClusterClient(self.topology) as other:
                other["key"] = b"new"
            self.assertEqual(read(), value)
            self.assertEqual(self.keys_at(0) | self.keys_at(1), {b"key"})

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
        self.assertEqual(harness.stats(self.addresses[0])["moved_requests"], 100 - done)
        run = harness.kvctl(self.addresses[0], "put", foreign, "1")
        self.assertEqual(run.returncode, 78)
        self.assertIn(b"is another server's, and nothing was done", run.stderr)
        run = harness.kvctl(None, f"--topology={self.topology}", "put", foreign, "1")
        self.assertEqual(run.returncode, 0, run.stderr)

    def status(self, *flags):
        """Returns the exit status, the columns slots and serves of each shard, and stderr."""
        run = harness.kvctl(None, "cluster", "status", f"--topology={self.topology}", *flags)
        lines = [line.split() for line in run.stdout.decode().splitlines()]
        self.assertEqual((lines[0][1], lines[0][5]), ("slots", "serves"))
        return run.returncode, [(int(line[1]), line[5]) for line in lines[1:]], run.stderr.decode()

    def test_the_status_compares_the_slots(self):
        half = [(8192, "same")] * 2
        self.assertEqual(self.status(), (0, half, ""))
        self.give(["0-5460", "5461-16383"])
        code, shards, said = self.status()
        self.assertEqual((code, shards), (1, [(8192, "other")] * 2))
        self.assertEqual(said, f"kvctl: cluster: shard 0 ({self.addresses[0]}): the server has the slots 0-5460, and "
                               f"{self.topology} gives it the slots 0-8191; start the server with the --slots of its "
                               "line there, or correct the file; and 1 more\n")  # fmt: skip
        self.replace_file(["0-5460", "5461-16383"])
        self.assertEqual(self.status(), (0, [(5461, "same"), (10923, "same")], ""))
        # As many slots, but others; and more ranges than a line shows.
        self.give(["0-5459,5461", ",".join(map(str, range(0, 100, 2)))])
        code, shards, said = self.status()
        self.assertEqual((code, shards), (1, [(5461, "other"), (10923, "other")]))
        self.assertIn("the server has the slots 0-5459,5461, and ", said)
        self.give(["0-5460", ",".join(map(str, range(0, 100, 2)))])
        code, shards, said = self.status()
        self.assertEqual((code, shards), (1, [(5461, "same"), (10923, "other")]))
        self.assertIn(f"shard 1 ({self.addresses[1]}): the server has 50 slots, and ", said)
        self.servers[0].stop()
        code, shards, said = self.status()
        self.assertEqual((code, shards), (69, [(5461, "-"), (10923, "other")]))

    def test_the_status_for_a_client_that_may_only_read(self):
        token = self.write("token", self.make_token("reader", "read-only"))
        tokens = self.write("tokens", pathlib.Path(token).read_text())
        self.give(["0-8190,8192", "8193-16383,3"], f"--tokens={tokens}")
        code, shards, said = self.status(f"--token_file={token}")
        self.assertEqual((code, shards), (1, [(8192, "other")] * 2), said)
        self.assertIn("the server has 8192 other slots, and ", said)
        self.give(["0-8191", "1-3"], f"--tokens={tokens}")
        code, shards, said = self.status(f"--token_file={token}")
        self.assertEqual((code, shards), (1, [(8192, "same"), (8192, "other")]), said)
        self.assertIn("the server has 3 slots, and ", said)

    def test_settings_and_metrics_tell_of_the_slots(self):
        self.give(["0-8190,8192", "8191-16383"])
        stats = [harness.stats(address) for address in self.addresses]
        self.assertEqual([one["slots"] for one in stats], [8192, 8193])
        self.assertNotEqual(stats[0]["slots_checksum"], stats[1]["slots_checksum"])
        self.assertIn(b"\nslots = 0-8190,8192 ", harness.kvctl(self.addresses[0], "config").stdout)

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
