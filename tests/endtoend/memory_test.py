"""--memory bounds all the memory that clients can reach: the region, and what each client has to itself."""

import collections
import os
import pathlib
import re
import resource
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
        try:
            name, stat = os.readlink(link), link.stat()
        except FileNotFoundError:  # it has been closed meanwhile
            continue
        if name.startswith("/memfd:"):
            used += stat.st_blocks * 512
            if stat.st_blocks > 0:
                size += stat.st_size
            else:
                ready[name] += 1
    return used, size, ready


def own_memory_group():
    """The folder of this process's control group of memory, of version 1, where it can make others; or None."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        folder = pathlib.Path("/sys/fs/cgroup/memory" + group)
        if controllers == "memory" and os.access(folder, os.W_OK):
            return folder
    return None


@unittest.skipIf(own_memory_group() is None, "only root may make control groups, and here are none of version 1")
class GroupTest(harness.TestCase):
    """A kvserver that was told nothing of memory, in a control group that has little of it."""

    def start(self, mib):
        group = own_memory_group() / f"remora-test-{os.getpid()}-{mib}"
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest(f"a control group cannot be made: {error}")
        self.addCleanup(lambda: harness.wait_until(lambda: self.is_removed(group), "the group is empty"))
        (group / "memory.limit_in_bytes").write_text(str(mib << 20))
        server = harness.Server(
            f"--listen={self.address}", f"--data_dir={self.folder}/data{mib}", usual_log=True,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    @staticmethod
    def is_removed(group):
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    def test_it_is_filled_and_lives(self):
        for mib in (96, 160):
            with self.subTest(mib=mib):
                server = self.start(mib)
                # More than twice of what a write buffer takes without a limit.
                flags = ["load", f"--target={self.address}", "--value_size=16K", "--records=12000", "--depth=16"]
                load = subprocess.run(
                    [harness.program("kvbench"), *flags], capture_output=True, timeout=2 * harness.PATIENCE, check=False
                )
                self.assertEqual(load.returncode, 0, load.stderr)
                self.assertIsNone(server.process.poll())
                self.assertEqual(server.stop()[0], 0)


class AddressSpaceTest(harness.TestCase):
    """Where `operator new` finds nothing, each program says so, and none aborts."""

    def start(self, name, limit=resource.RLIM_INFINITY):
        """Starts a server in an address space of `limit` bytes."""
        server = subprocess.Popen(
            [harness.program("kvserver"), f"--listen={self.address}-{name}", f"--data_dir={self.folder}/{name}",
             "--memory=64M"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY)),
        )  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server

    def end(self, server):
        """Ends a server, which may have ended by itself with a line."""
        server.terminate()
        _, errors = server.communicate(timeout=harness.PATIENCE)
        self.assertIn(server.returncode, (0, 71), errors)
        if server.returncode == 71:
            self.assertRegex(errors, rb"kvserver: [^\n]*ulimit [^\n]*-v[^\n]*\n\Z")
        return server.returncode

    def test_a_server_without_space_ends_with_a_line_or_serves(self):
        """With the smallest limit it ends, with the largest it serves; between them, it does either."""
        statuses = []
        for mib in (100, 180, 220, 400, 1 << 20):
            with self.subTest(mib=mib):
                name = f"data{mib}"
                server = self.start(name, mib << 20)
                harness.wait_until(
                    lambda: server.poll() is not None or self.is_heard(f"{self.address}-{name}"), "it serves, or ends"
                )
                statuses.append(self.end(server))
        self.assertEqual((statuses[0], statuses[-1]), (71, 0))

    def test_a_server_without_space_rejects_writes(self):
        """A running server may grow by less than a write buffer. Each has just begun: one that has served before may
        have memory to give back, and so grow by more."""
        for mib in (8, 24, 48):
            with self.subTest(mib=mib):
                address = f"{self.address}-{mib}"
                server = self.start(f"{mib}")
                harness.wait_until(lambda: server.poll() is not None or self.is_heard(address), "it serves")
                self.reject(server, address, mib << 20)
                self.assertEqual(self.end(server), 0)

    @staticmethod
    def is_heard(address):
        """It may have no memory for a client, and say so."""
        ping = harness.kvctl(address, "ping")
        return ping.returncode == 0 or re.search(rb"the server rejected|left for another client", ping.stderr)

    def reject(self, server, address, space):
        """Limits the growth to `space` bytes, writes until writes are rejected, and lifts the limit."""
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
        size = int(re.search(r"^VmSize:\s+(\d+) kB$", status, re.MULTILINE)[1]) << 10
        resource.prlimit(server.pid, resource.RLIMIT_AS, (size + space, resource.RLIM_INFINITY))
        flags = ["load", f"--target={address}", "--value_size=16K", "--records=10000", "--depth=8"]
        load = subprocess.run(
            [harness.program("kvbench"), *flags], capture_output=True, timeout=2 * harness.PATIENCE, check=False
        )
        self.assertIsNone(server.poll())
        # The store itself, or the next file of the log.
        self.assertRegex(load.stderr, b"the system has no memory left for the server|short of descriptors or memory")
        resource.prlimit(server.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        harness.wait_until(lambda: harness.kvctl(address, "put", "key", "value").returncode == 0, "writes are taken again")
        self.assertEqual(harness.kvctl(address, "get", "key").stdout, b"value")

    def test_a_client_ends_with_a_line(self):
        self.memory_server()
        limit = 256 << 20
        for command in (
            [harness.program("kvbench"), "all", "--target=embedded", "--records=10000000", "--memory=64M", "--threads=300"],
            [harness.program("kvctl"), f"--server={self.address}", "put", "key"],
        ):  # fmt: skip
            with self.subTest(command=command), open("/dev/zero", "rb") as zeros:
                run = subprocess.run(
                    command, stdin=zeros, capture_output=True, timeout=harness.PATIENCE, check=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit // 2, limit)),
                )  # fmt: skip
                self.assertIn(run.returncode, (1, 65, 69, 71), run.stderr)
                self.assertNotIn(b"bad_alloc", run.stderr)


class MemoryTest(harness.TestCase):
    def fill(self, server, clients):
        """Has as many clients as the server takes write more than it can hold, and looks at its memory."""
        with subprocess.Popen(
            [harness.program("many_clients"), self.address, "1000", "200000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            connected = int(process.stdout.readline().split()[0])
            rejection = process.stdout.readline().decode()
            registered = int(process.stdout.readline())
            # A thread of the server makes them.
            harness.wait_until(lambda: len(memfds(server.process.pid)[2]) == 3, "memory is ready for clients to come")
            resident = resident_shared(server.process.pid)
            used, size, ready = memfds(server.process.pid)
            process.stdin.close()
            self.assertEqual(process.wait(timeout=harness.PATIENCE), 0)
        self.assertEqual(connected, clients)
        self.assertIn(f"it has {clients} clients, as many as --max_clients allows", rejection)
        # All of the registered memory is there; message buffers are in no memfd, and of the
        # clients' memory the server keeps no descriptor.
        self.assertGreater(resident, registered * 2 // 3)
        self.assertLessEqual(resident, registered)
        self.assertLessEqual(used, registered)
        self.assertLessEqual(size, registered)
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

    def test_more_than_the_machine_has_is_rejected(self):
        total = int(re.search(r"MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text()).group(1)) << 10
        embedded = ["kvbench", "all", "--target=embedded", "--operations=10"]
        for program, *flags in (
            ["kvserver", f"--listen={self.address}", "--durability=memory", f"--memory={total + 1}"],
            [*embedded, "--records=10", f"--memory={total + 1}"], [*embedded, "--records=1000000000000"],
        ):  # fmt: skip
            with self.subTest(program=program, flags=flags):
                run = subprocess.run(
                    [harness.program(program), *flags], capture_output=True, timeout=harness.PATIENCE, check=False
                )
                self.assertEqual((run.returncode, run.stdout), (71, b""), run.stderr)
                self.assertRegex(run.stderr.decode(), r"a memory of \d+ bytes is more than [^\n]* has, \d+: give it less")

    def test_who_goes_gives_back(self):
        self.memory_server(memory="64M")
        before = harness.stats(self.address)
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        harness.wait_until(
            lambda: harness.stats(self.address)["registered_bytes"] == before["registered_bytes"], "it is given back"
        )


if __name__ == "__main__":
    unittest.main()
