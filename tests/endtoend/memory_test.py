"""--memory bounds all the memory that clients can reach: the region, and what each client has to itself."""

import collections
import os
import pathlib
import re
import subprocess
import unittest

import harness


def resident_shared(pid):
    """Bytes of shared memory that the process has resident, by the kernel's count."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^RssShmem:\s+(\d+) kB$", status, re.MULTILINE).group(1)) << 10


def memfds(pid):
    """Returns three figures of all the memfds that the process has open. The first is their bytes
    in memory, whoever touched them. The second is the sizes of those that somebody has touched. The
    third is how many of each name nobody has: they are ready for clients to come."""
    used = size = 0
    ready = collections.Counter()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        name = os.readlink(link)
        if name.startswith("/memfd:"):
            stat = link.stat()
            used += stat.st_blocks * 512
            if stat.st_blocks > 0:
                size += stat.st_size
            else:
                ready[name] += 1
    return used, size, ready


class MemoryTest(harness.TestCase):
    def fill(self, server, clients):
        """Has as many clients as the server takes write more than it can hold, and looks at its memory."""
        with subprocess.Popen(
            [harness.program("many_clients"), self.address, "1000", "200000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            connected = int(process.stdout.readline().split()[0])
            refusal = process.stdout.readline().decode()
            registered = int(process.stdout.readline())
            resident = resident_shared(server.process.pid)
            used, size, ready = memfds(server.process.pid)
            process.stdin.close()
            self.assertEqual(process.wait(timeout=harness.PATIENCE), 0)
        self.assertEqual(connected, clients)
        self.assertIn(f"it has {clients} clients, as many as --max_clients allows", refusal)
        # All of the registered memory is there; message buffers are in no memfd, and of the
        # clients' memory the server keeps no descriptor.
        self.assertGreater(resident, registered * 2 // 3)
        self.assertLessEqual(resident, registered)
        self.assertLessEqual(used, registered)
        self.assertLessEqual(size, registered)
        self.assertEqual(len(ready), 3, ready)
        self.assertLessEqual(max(ready.values()), 4, ready)
        return registered

    def plan(self, server):
        """The region's bytes, each client's, and how many clients there may be, as the log says."""
        line = rb"memory: (\d+) bytes for index and records, and (\d+) bytes for each of (\d+) clients"
        return [int(number) for number in server.await_said(line).groups()]

    def test_all_clients_and_a_full_store_stay_within_it(self):
        server = self.memory_server(memory="64M")
        region, each, clients = self.plan(server)
        self.assertGreaterEqual(clients, 16)
        registered = self.fill(server, clients)
        self.assertLessEqual(registered, 64 << 20)
        self.assertGreater(registered, region + clients * each - 1)
        self.assertEqual(harness.stats(self.address)["memory_bytes"], region)

    def test_the_size_is_decimal(self):
        region, each, clients = self.plan(self.memory_server(memory="0100MiB"))
        self.assertAlmostEqual(region + clients * each, 100 << 20, delta=1 << 20)

    def test_as_many_clients_as_asked_for(self):
        server = self.memory_server("--max_clients=100", memory="64M")
        self.assertEqual(self.plan(server)[2], 100)
        self.assertLessEqual(self.fill(server, 100), 64 << 20)

    def test_more_than_the_machine_has_is_refused(self):
        total = int(re.search(r"MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text()).group(1)) << 10
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen={self.address}", "--durability=memory", f"--memory={total + 1}"],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 71, run.stderr)
        self.assertRegex(run.stderr.decode(), rf"a memory of {total + 1} bytes is more than [^\n]* has, \d+: give it less")

    def test_who_goes_gives_back(self):
        self.memory_server(memory="64M")
        before = harness.stats(self.address)
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        harness.wait_until(
            lambda: harness.stats(self.address)["registered_bytes"] == before["registered_bytes"], "it is given back"
        )


if __name__ == "__main__":
    unittest.main()
