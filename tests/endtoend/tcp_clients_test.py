"""Many clients over tcp:// at one server: each puts and gets a key; afterwards nothing of them is left.

The environment variable REMORA_CLIENTS says how many there are; 100 by default.
"""

import os
import pathlib
import re
import sys
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

CLIENTS = int(os.environ.get("REMORA_CLIENTS") or 100)
CROWDS = 4
# The store's, and for each connection its registered memory and what the server allocates for it.
MEMORY = (64 << 20) + CLIENTS * (512 << 10)


class TcpClientsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.address = f"tcp://127.0.0.1:{harness.free_port()}"

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.kvserver.process.pid}/fd"))

    def own_memory(self):
        """Returns the bytes that the server has allocated, without the shared memory that it registers."""
        status = pathlib.Path(f"/proc/{self.kvserver.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) << 10

    def serve_all(self):
        """All are connected at once; each does its two operations, the last one first."""
        clients = [remora.Client(self.address) for _ in range(CLIENTS)]
        # The server counts a connection just behind its answer, which kvctl may have before.
        harness.wait_until(lambda: harness.stats(self.address)["connections"] == CLIENTS + 1, "all connections are counted")
        self.assertGreaterEqual(self.descriptors(), CLIENTS)
        for number, client in reversed(list(enumerate(clients))):
            client.put(f"key {number}", f"value of {number}")
        for number, client in enumerate(clients):
            self.assertEqual(client.get(f"key {number}"), f"value of {number}".encode())
        for client in clients:
            client.close()

    def await_quiet(self):
        stats = {}

        def is_quiet():
            stats.update(harness.stats(self.address))
            return stats["connections"] == 1  # of the one that asks

        harness.wait_until(is_quiet, "no connection is left")
        return stats

    def test_descriptors_and_memory_come_back(self):
        self.kvserver = self.memory_server(f"--max_clients={CLIENTS + 8}", memory=str(MEMORY))
        self.quiet_descriptors = self.descriptors()
        registered = self.await_quiet()["registered_bytes"]
        # The allocator keeps blocks of a crowd for the next one, and has all that it keeps after these.
        for _ in range(CROWDS):
            self.serve_all()
            self.assertEqual(self.await_quiet()["registered_bytes"], registered)
        before = self.own_memory()
        self.serve_all()
        self.assertEqual(self.await_quiet()["registered_bytes"], registered)
        self.assertLess(self.own_memory() - before, CLIENTS * (24 << 10))  # a connection has buffers of 32 KiB
        # kvctl's connection may still be there for a moment.
        harness.wait_until(lambda: self.descriptors() <= self.quiet_descriptors, "all descriptors are back")
        self.assertEqual(self.kvserver.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
