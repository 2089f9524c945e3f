"""kvctl cluster switch: an operator makes another member of a shard its primary. Real processes, and a real etcd.

REMORA_ROUNDS: how often the primary is switched under load (1 by default).
"""

import os
import signal
import subprocess
import time
import unittest

import harness
from failover_test import NAMES, FailoverCase
from lease_test import Counter

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "1"))
SHARD = "5f0c0000000000aa/one"


class Gaps(Counter):
    """The longest times without an acknowledged write, and without a read."""

    def __init__(self, address):
        super().__init__(address)
        self.gaps = {"write": 0.0, "read": 0.0}

    def watch(self, kind, count):
        last, changed = count(), time.monotonic()
        while not self.over.is_set():
            now, value = time.monotonic(), count()
            if value != last:
                self.gaps[kind] = max(self.gaps[kind], now - changed)
                last, changed = value, now
            time.sleep(0.001)


class SwitchCase(FailoverCase):
    def switch(self, *flags, shard=SHARD):
        return harness.kvctl(None, "cluster", "switch", f"--etcd={self.etcd.url}", f"--shard={shard}", *flags)

    def others(self, *names):
        return [name for name in NAMES if name not in names]

    def restart(self, name):
        """The service manager's part."""
        server = self.servers[name]
        self.assertEqual(server.process.wait(harness.PATIENCE), 75, server.said())
        self.start(name)
        self.await_in_sync(3)

    def expect_switched(self, old, to):
        self.assertEqual(self.primary(), to)
        self.servers[old].await_said(b"cluster_ended: member .* is the primary, in epoch")


class SwitchTest(SwitchCase):
    def test_another_member_is_the_primary_and_the_old_one_follows(self):
        old = self.start_all()
        to = self.others(old)[-1]
        self.assertEqual(self.put(old, "key", "1"), 0)
        run = self.switch(f"--to={to}")
        self.assertEqual((run.returncode, run.stdout.decode()), (0, f"{to} is the primary in place of {old}, in epoch 2\n"), run.stderr)
        self.servers[to].await_said(f"cluster_changed: takes over from {old}, as an operator asked".encode())
        self.expect_switched(old, to)
        self.assertEqual(self.get(to, "key"), "1")
        self.assertEqual(self.put(to, "key", "2"), 0)
        self.restart(old)
        self.assertNotIn(b"copy_taken", self.servers[old].said(), "it follows from its own data")
        run = self.switch()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.get(self.primary(), "key"), "2")

    def test_writes_and_reads_go_on_under_load(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "0"), 0)
        everywhere = ",".join(self.addresses.values())
        for _ in range(ROUNDS):
            gaps = Gaps(everywhere)
            gaps.begin(gaps.write)
            for place in range(2):
                gaps.begin(gaps.read, place, everywhere, False)
            gaps.await_more([0, 1])
            gaps.begin(gaps.watch, "write", lambda one=gaps: one.acknowledged)
            gaps.begin(gaps.watch, "read", lambda one=gaps: one.reads[0])
            try:
                run = self.switch()
                self.assertEqual(run.returncode, 0, run.stderr)
                gaps.await_more([0, 1])
            finally:
                gaps.end()
            self.assertEqual(gaps.faults, [])
            print(f"writes held up for {gaps.gaps['write']:.3f} s, reads for {gaps.gaps['read']:.3f} s")
            old, primary = primary, self.primary()
            self.assertNotEqual(old, primary)
            self.restart(old)

    def test_a_member_that_is_not_in_sync_is_rejected(self):
        primary = self.start_all()
        away, other = self.others(primary)
        self.servers[away].kill()
        self.await_in_sync(2)
        run = self.switch(f"--to={away}")
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"{away} is not in sync; wait until it is", run.stderr.decode())
        run = self.switch(f"--to={other}")
        self.assertEqual(run.returncode, 1)
        self.assertIn("fewer than 2 members would be in sync", run.stderr.decode())
        self.assertEqual(self.put(primary, "key", "1"), 0)
        self.assertEqual(self.primary(), primary)


class FailureTest(SwitchCase):
    """The primary yields, and something fails then."""

    def begin(self):
        """Returns the primary, which yields, and the member that is to take over."""
        for name in NAMES:
            if name not in self.servers or self.servers[name].process.poll() is not None:
                self.start(name)
        self.await_in_sync(3)
        primary = self.primary()
        to = self.others(primary)[0]
        self.assertEqual(self.put(primary, "key", "1"), 0)
        asked = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.addresses[to]}", "--timeout=30000", "promote"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(asked.wait)
        self.addCleanup(asked.kill)
        self.servers[primary].await_said(b"yields: a member at .* is to take over")
        return primary, to

    def test_a_primary_goes_on_if_the_member_dies(self):
        while True:
            primary, to = self.begin()
            self.servers[to].kill()
            if self.put(primary, "key", "2", "--timeout=30000") == 0:
                break
            # On a busy machine, the member has taken over before it was killed.
            self.assertEqual(self.servers[primary].process.wait(harness.PATIENCE), 75, self.servers[primary].said())
        self.assertEqual(self.get(primary, "key"), "2")
        self.assertEqual(self.primary(), primary)

    def test_one_of_the_two_goes_on_if_etcd_is_away(self):
        primary, _ = self.begin()
        harness.freeze(self.etcd.process)
        old = self.servers[primary]
        # On a busy machine, the member has taken over before etcd was stopped.
        harness.wait_until(
            lambda: b"yields: no member has taken over: this primary goes on" in old.said() or old.process.poll() == 75,
            "the primary goes on",
        )
        self.etcd.process.send_signal(signal.SIGCONT)

        def takes_writes():
            for name, server in list(self.servers.items()):
                if server.process.poll() == 75:  # the service manager's part
                    self.start(name)
            return self.put(self.primary(), "other", "2", "--timeout=1000") == 0

        harness.wait_until(takes_writes, "one of the two takes writes")
        self.assertEqual(self.get(self.primary(), "key"), "1")


class MisuseTest(SwitchCase):
    def test_bad_flags_and_members_are_named(self):
        primary = self.start_all()
        for flags, code, words in [
            ([f"--to={primary}"], 1, f"{primary} is the primary already"),
            (["--to=z"], 64, "the shard has no member z"),
            (["--json"], 64, "--json: is for cluster members"),
        ]:
            with self.subTest(flags):
                run = self.switch(*flags)
                self.assertEqual(run.returncode, code, run.stderr)
                self.assertIn(words, run.stderr.decode())
        run = self.switch(shard="5f0c0000000000aa/two")
        self.assertEqual(run.returncode, 66, run.stderr)
        run = harness.kvctl(None, "cluster", "members", f"--etcd={self.etcd.url}", f"--shard={SHARD}", "--to=a")
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertEqual(self.primary(), primary)


if __name__ == "__main__":
    unittest.main()
