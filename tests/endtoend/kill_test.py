"""kill -9 of the server and of clients, in the middle of PUTs and additions."""

import fcntl
import os
import select
import signal
import subprocess
import threading
import unittest

import harness

# Few keys are overwritten again and again; many are each written once.
FEW, MANY = 50, 1_000_000
# Acknowledgements that are in flight to us, at most: lines of a pipe of one page.
PIPE_SIZE = 4096
IN_FLIGHT = PIPE_SIZE // 2
ENOUGH = 2 * IN_FLIGHT


class Writer:
    """An acked_writer (see there): writes until somebody dies. `paced`: only as much as is waited for."""

    def __init__(self, address, name, keys, paced=False):
        self.address, self.name, self.keys, self.paced = address, name, keys, paced
        self.changed = threading.Condition()
        self.acked = self.goal = 0
        self.ended = False
        self.process = subprocess.Popen(
            self.command("write"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        # Reads all the time: a writer that waits for its reader is not in the middle of a PUT when it is killed.
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def command(self, *mode):
        return [harness.program("acked_writer"), self.address, self.name, str(self.keys), *mode]

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                # A killed writer may leave half a line, which does not count.
                if line.endswith(b"\n") and int(line) == self.acked:
                    self.acked += 1
                self.changed.notify_all()
                self.changed.wait_for(lambda: not self.paced or self.acked < self.goal or self.ended)
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, count):
        """Returns when `count` more writes were acknowledged."""
        with self.changed:
            self.goal = self.acked + count
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.acked >= self.goal or self.ended, harness.PATIENCE)
            if self.acked < self.goal:
                raise AssertionError(f"writer {self.name} ended or hangs after {self.acked} writes")

    def end(self):
        """Waits until it ends; returns its exit status. All that it said was then counted."""
        with self.changed:
            self.paced = False
            self.changed.notify_all()
        status = self.process.wait(timeout=harness.PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def kill(self):
        self.process.kill()
        return self.end()

    def verify(self):
        """Are all acknowledged writes there? Returns acked_writer's exit status, and its list of what is not."""
        run = subprocess.run(
            self.command("verify", str(self.acked)),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        return run.returncode, run.stderr.decode()


class Adder:
    """An adder (see there)."""

    def __init__(self, address, key):
        self.process = subprocess.Popen(
            [harness.program("adder"), address, key],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def wait_for_more(self):
        """Returns when some hundred more were acknowledged."""
        readable, _, _ = select.select([self.process.stdout], [], [], harness.PATIENCE)
        if not readable or not os.read(self.process.stdout.fileno(), 1 << 16):
            self.close()
            raise AssertionError("an adder ended or hangs")

    def end(self):
        """How many it added, and of how many it does not know."""
        output, errors = self.process.communicate(timeout=harness.PATIENCE)
        if self.process.returncode != 0:
            raise AssertionError(f"an adder failed: {self.process.returncode}: {errors!r}")
        added, unknown = output.split()[-2:]
        return int(added), int(unknown)

    def close(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


class KillTest(harness.TestCase):
    def adders(self, count):
        adders = [Adder(self.address, "sum") for _ in range(count)]
        for adder in adders:
            self.addCleanup(adder.close)
        return adders

    def test_additions_are_exact_although_a_logged_server_is_killed_time_and_again(self):
        server = self.logged_server("--quiet")
        adders = self.adders(3)
        for _ in range(8):
            for adder in adders:
                adder.wait_for_more()
            server.kill()
            server = self.logged_server("--quiet")
        told = [adder.end() for adder in adders]
        self.assertEqual([unknown for _, unknown in told], [0] * len(adders))
        self.assertEqual(int(harness.kvctl(self.address, "get", "sum").stdout), sum(added for added, _ in told))

    def test_a_memory_server_that_is_killed_leaves_nothing_added_twice(self):
        server = self.memory_server("--quiet")
        adders = self.adders(3)
        for _ in range(5):
            for adder in adders:
                adder.wait_for_more()
            server.kill()
            server = self.memory_server("--quiet")
        added_before = harness.kvctl(self.address, "get", "sum")
        self.assertIn(added_before.returncode, (0, 1))
        told = [adder.end() for adder in adders]
        # The last server acknowledged all keys that it has: at most all, and no more than was ever
        # told.
        self.assertLessEqual(
            int(harness.kvctl(self.address, "get", "sum").stdout or 0), sum(added for added, _ in told)
        )
        # Each server was killed under at most one addition of each.
        for _, unknown in told:
            self.assertLessEqual(unknown, 5)
        self.assertEqual(harness.stats(self.address)["completions_told"], 0)

    def writer(self, name, keys, paced=False):
        writer = Writer(self.address, name, keys, paced)
        self.addCleanup(writer.kill)
        return writer

    def test_server_killed_during_puts_keeps_what_it_acknowledged(self):
        written = []
        for kill in range(3):
            server = self.logged_server("--quiet", memory="1G")
            for writer in written:  # at once: the server may still be loading
                self.assertEqual(writer.verify(), (0, ""))
            writers = [self.writer(f"{name}{kill}", keys) for name, keys in (("few", FEW), ("many", MANY))]
            for writer in writers:
                writer.wait_for(ENOUGH)
            server.kill()
            for writer in writers:
                self.assertEqual(writer.end(), 69, "a client did not notice that the server is gone")
            written += writers
        self.logged_server("--quiet", memory="1G")
        for writer in written:
            self.assertEqual(writer.verify(), (0, ""))
        harness.wait_until(lambda: harness.stats(self.address)["loading"] == 0, "the server has loaded all of it")
        for writer in written:
            self.assertEqual(writer.verify(), (0, ""))

    def test_a_watch_goes_on_behind_servers_that_were_killed_during_puts(self):
        server = self.logged_server("--quiet")
        start = harness.kvctl(self.address, "watch", "--show_positions", "--idle=1ms").stdout.decode().strip()
        writers = []
        for kill in range(3):
            writers.append(self.writer(f"writer{kill}", MANY))
            writers[-1].wait_for(ENOUGH)
            server.kill()
            writers[-1].end()
            server = self.logged_server("--quiet")
        run = harness.kvctl(self.address, "watch", "--resume", start, "--idle=1ms")
        self.assertEqual(run.returncode, 0, run.stderr)
        shown = {writer.name: [] for writer in writers}
        for line in run.stdout.decode().splitlines():
            _, key, value = line.split("\t")
            shown[key.split("/")[0]].append(int(value.split(":")[0]))
        for writer in writers:
            numbers = shown[writer.name]
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertIn(len(numbers), (writer.acked, writer.acked + 1))  # the last one's answer was lost, maybe

    def test_clients_killed_during_puts_leave_nothing_behind(self):
        self.memory_server("--quiet", memory="1G")
        connections = harness.stats(self.address)["connections"]
        survivor = self.writer("survivor", FEW, paced=True)
        for kill in range(3):
            victims = [self.writer(f"victim{kill}{number}", FEW) for number in range(2)]
            for writer in [survivor, *victims]:
                writer.wait_for(ENOUGH)
            for victim in victims:
                self.assertEqual(victim.kill(), -signal.SIGKILL)
            survivor.wait_for(ENOUGH)
            for victim in victims:
                self.assertEqual(victim.verify(), (0, ""))
            harness.wait_until(
                lambda: harness.stats(self.address)["connections"] == connections + 1,
                "the server has freed the connections of killed clients",
            )
        survivor.kill()
        self.assertEqual(survivor.verify(), (0, ""))


if __name__ == "__main__":
    unittest.main()
