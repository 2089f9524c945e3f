"""No wake-up between clients and the server is lost while threads migrate, processes stop, and clients are killed.

The server and the clients sleep whenever they wait, and only the other side's wake-up ends such a sleep. Meanwhile
threads move between CPUs, processes are stopped for some milliseconds, and clients are killed and replaced.
REMORA_SLEEPS says for how many sleeps the test goes on.

A lost wake-up shows as a client that waits for an answer while it and the server are both asleep. Nothing else may
wake them, so this does not depend on how fast the machine is: a thread that only waits for a CPU is not asleep. The
server does wake up by itself some seconds after a client has connected, so the test looks for this state, and does not
only wait for progress.
"""

import contextlib
import mmap
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import harness

SLEEPS = int(os.environ.get("REMORA_SLEEPS", "20000"))
# A client that is answered nothing for so long has failed. Time in which this process did not run, either, does not
# count.
NO_PROGRESS = 30
TICK = 0.1
# So often in a row, a tick apart, nobody has run and all are asleep.
LOOKS_AT_SLEEPERS = 10
# Of each client. Many: in all, more than a server polls always (PolledConnections::kAlwaysPolled), so that it parks
# some. Few: so few that it sleeps briefly before it sleeps at the sockets (rdma/local/listener.cc).
MANY_CONNECTIONS = 12
FEW_CONNECTIONS = 1
KINDS = ("sync", "async", "sync")
# While the same clients run, nothing else wakes the server.
ROUNDS_OF_THE_SAME = 20
PHASES_PER_KILL = 3
CPUS = sorted(os.sched_getaffinity(0))


def threads_of(pid):
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def status_of(pid, thread):
    lines = pathlib.Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def sleeps_of_thread(pid):
    """How often the kernel has put its first thread to sleep."""
    return int(status_of(pid, pid)["voluntary_ctxt_switches"])


def runs_of(pid):
    """Whether all of its threads are asleep, and how often each has run."""
    try:
        statuses = [status_of(pid, thread) for thread in threads_of(pid)]
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended just now
        return False, []
    runs = [(each["voluntary_ctxt_switches"], each["nonvoluntary_ctxt_switches"]) for each in statuses]
    return all(each["State"].startswith("S") for each in statuses), runs


def state_of(pid):
    lines = []
    for thread in threads_of(pid):
        status = status_of(pid, thread)
        where = pathlib.Path(f"/proc/{pid}/task/{thread}/wchan").read_text()
        lines.append(
            f"  {status['Name']}: {status['State']}, in {where}, CPUs {status['Cpus_allowed_list']}, "
            f"slept {status['voluntary_ctxt_switches']} times"
        )
    return "\n".join(lines)


class Sleeper:
    """A sleeper (see there)."""

    def __init__(self, address, folder, number, kind, connections):
        self.name, self.kind = f"{kind} {number}", kind
        path = folder / f"counts{number}"
        path.write_bytes(bytes(16))
        with open(path, "r+b") as file:
            self.counts = memoryview(mmap.mmap(file.fileno(), 16)).cast("Q")
        self.errors = open(folder / f"errors{number}", "w+b")
        self.process = subprocess.Popen(
            [harness.program("sleeper"), address, f"key{number}", str(connections), path, kind],
            stdin=subprocess.DEVNULL, stderr=self.errors,
        )  # fmt: skip
        self.pid = self.process.pid

    @property
    def answered(self):
        return self.counts[0]

    @property
    def sleeps(self):
        return self.counts[1]

    def said(self):
        return os.pread(self.errors.fileno(), 1 << 16, 0).decode()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


class WakeupTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        seed = random.randrange(1 << 32)
        self.seed, self.random = seed, random.Random(seed)
        self.kvserver = self.memory_server(f"--max_clients={2 * len(KINDS) * MANY_CONNECTIONS}", memory="256M")
        self.number = self.kills = self.stops = self.migrations = 0
        self.sleeps_of_killed = 0
        self.sleepers = []
        self.addCleanup(lambda: [sleeper.close() for sleeper in self.sleepers])

    def start(self, kind):
        self.number += 1
        self.sleepers.append(Sleeper(self.address, self.folder, self.number, kind, self.connections))

    def replace(self, sleeper):
        self.kills += 1
        self.sleepers.remove(sleeper)
        sleeper.close()
        self.sleeps_of_killed += sleeper.sleeps
        self.start(sleeper.kind)
        self.await_progress([self.sleepers[-1]])

    def migrate(self, pid):
        self.migrations += 1
        thread = pid if self.random.random() < 0.75 else self.random.choice(threads_of(pid))
        with contextlib.suppress(ProcessLookupError):  # that thread has ended
            os.sched_setaffinity(thread, CPUS if self.random.random() < 0.25 else {self.random.choice(CPUS)})

    def stop_for_a_while(self, pid):
        self.stops += 1
        os.kill(pid, signal.SIGSTOP)
        # Longer than the brief sleep of a client, now and then: then it sleeps until a byte comes.
        time.sleep(self.random.choice((0, 0.0002, 0.001, 0.002, 0.015)))
        os.kill(pid, signal.SIGCONT)

    def await_progress(self, sleepers):
        """Returns when each of them was answered once more."""
        before = {sleeper: sleeper.answered for sleeper in sleepers}
        waited, last = 0.0, time.monotonic()
        runs, same = None, 0
        while before:
            before = {sleeper: answered for sleeper, answered in before.items() if sleeper.answered == answered}
            for sleeper in before:
                self.assertIsNone(sleeper.process.poll(), f"{sleeper.name} has ended: {sleeper.said()}")
            now = time.monotonic()
            waited, last = waited + min(now - last, TICK), now
            if waited > NO_PROGRESS:
                self.fail_for(next(iter(before)), "is not answered")
            if waited > TICK:
                seen = [runs_of(pid) for pid in (self.kvserver.process.pid, *(sleeper.pid for sleeper in sleepers))]
                same = same + 1 if seen == runs and all(asleep for asleep, _ in seen) else 0
                runs = seen
                if same == LOOKS_AT_SLEEPERS:
                    self.fail_for(next(iter(before)), "and the server sleep, and nobody will wake them")
            time.sleep(0.0001 if waited < 0.01 else TICK)

    def fail_for(self, sleeper, what):
        self.fail(
            f"seed {self.seed}: {sleeper.name} {what}, after {sleeper.answered} calls and {sleeper.sleeps} sleeps\n"
            f"{state_of(sleeper.pid)}\n{state_of(self.kvserver.process.pid)}"
        )

    def disturb(self, running):
        pids = [self.kvserver.process.pid, *(sleeper.pid for sleeper in running)]
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.8:
                self.migrate(self.random.choice(pids))
            else:
                self.stop_for_a_while(self.random.choice(pids))

    def sleeps(self):
        clients = self.sleeps_of_killed + sum(sleeper.sleeps for sleeper in self.sleepers)
        return clients, sleeps_of_thread(self.kvserver.process.pid)

    def test_no_wakeup_is_lost_with_many_connections(self):
        self.check_that_no_wakeup_is_lost(MANY_CONNECTIONS)

    def test_no_wakeup_is_lost_with_few_connections(self):
        self.check_that_no_wakeup_is_lost(FEW_CONNECTIONS)

    def check_that_no_wakeup_is_lost(self, connections):
        self.connections = connections
        for kind in KINDS:
            self.start(kind)
        self.await_progress(self.sleepers)
        begun = time.monotonic()
        phases = 0
        while sum(self.sleeps()) < SLEEPS or min(self.sleeps()) < SLEEPS // 20 or self.kills == 0:
            running = self.random.sample(self.sleepers, self.random.choice((1, 1, 1, 2, 3)))
            for sleeper in self.sleepers:
                os.kill(sleeper.pid, signal.SIGCONT if sleeper in running else signal.SIGSTOP)
            for _ in range(ROUNDS_OF_THE_SAME):
                self.disturb(running)
                self.await_progress(running)
            phases += 1
            if phases % PHASES_PER_KILL == 0:
                self.replace(self.random.choice(self.sleepers))
        for sleeper in self.sleepers:
            os.kill(sleeper.pid, signal.SIGCONT)
        self.await_progress(self.sleepers)
        clients, server = self.sleeps()
        print(
            f"{clients} sleeps of clients and {server} of the server in {time.monotonic() - begun:.1f} s, none for ever; "
            f"{self.migrations} migrations, {self.stops} stops, {self.kills} kills"
        )
        self.assertEqual(self.kvserver.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
