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
