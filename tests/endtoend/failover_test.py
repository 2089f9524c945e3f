"""Three members of a shard with a real etcd: kill -9 of the primary under load, members that stop, an etcd that stops.

REMORA_ROUNDS: how often a primary is killed under load (1 by default).
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import harness
from kill_test import Writer
from lease_test import Counter

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "1"))
KEYS = 200
NAMES = ["a", "b", "c"]
# On a busy machine, a member that is well may not answer for the second of the default.
SILENCE = "--failover_after=3000"
# The time limit of writes that have to succeed.
PATIENT = f"--timeout={harness.PATIENCE * 500}"


class Etcd:
    """One etcd, on loopback."""

    def __init__(self, folder):
        self.log = open(folder / "etcd.log", "ab")
        for _ in range(5):
            peers = f"http://127.0.0.1:{harness.free_port()}"
            self.url = f"http://127.0.0.1:{harness.free_port()}"
            self.command = [
                "etcd", "--name=one", f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=one={peers}",
            ]  # fmt: skip
            if self.start():
                return
        raise AssertionError("etcd does not start")

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        harness.wait_until(lambda: self.process.poll() is not None or self.control("endpoint", "health") == 0, "etcd serves")
        return self.process.poll() is None

    def control(self, *arguments):
        return self.run(*arguments).returncode

    def run(self, *arguments):
        return subprocess.run(
            ["etcdctl", f"--endpoints={self.url}", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, "ETCDCTL_API": "3"}, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.log.close()


class FailoverCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd(self.folder)
        self.addCleanup(self.etcd.close)
        self.addresses = {name: self.new_address(name) for name in NAMES}
        self.listens = {}  # members whose addresses are not those at which they listen
        self.servers = {}
        self.starts = 0

    def start(self, name, *flags, data=None, environment=None):
        """Starts a member, without tokens unless there are flags."""
        server = harness.Server(
            f"--listen={self.listens.get(name, self.addresses[name])}", f"--data_dir={self.folder / (data or name)}.data",
            "--memory=32M", "--shard=5f0c0000000000aa/one", f"--member={name}", f"--etcd={self.etcd.url}", SILENCE,
            *[f"--initial_member={one}={self.addresses[one]}" for one in NAMES], *(flags or ["--insecure_open"]),
            environment=environment,
        )  # fmt: skip
        self.addCleanup(server.close)
        self.servers[name] = server
        return server

    def start_anew(self, name):
        """Starts a member whose data are gone."""
        self.starts += 1
        return self.start(name, data=f"{name}{self.starts}")

    def start_all(self):
        for name in NAMES:
            self.start(name)
        self.await_in_sync(3)
        return self.primary()

    def stat(self, name, metric):
        try:
            return harness.stats(self.addresses[name])[metric]
        except AssertionError:
            return None

    def primary(self):
        """The member that serves, once there is one."""
        found = []

        def serves():
            found[:] = [one for one in NAMES if self.servers[one].process.poll() is None and self.stat(one, "replication_role") == 3]
            return len(found) == 1

        harness.wait_until(serves, "one member serves")
        return found[0]

    def configuration_of(self, name):
        return self.etcd.run("get", f"/remora/shards/5f0c0000000000aa/{name}", "--print-value-only").stdout.decode().strip()

    def configuration(self):
        return self.etcd.run("get", "/remora/shards/", "--prefix", "--print-value-only").stdout.decode()

    def await_in_sync(self, count):
        harness.wait_until(lambda: self.configuration().split('"in_sync":')[-1].split("]")[0].count('"id"') == count,
                           f"{count} members are in sync")  # fmt: skip

    def put(self, name, key, value, *flags):
        return harness.kvctl(self.addresses[name], *(flags or [PATIENT]), "put", key, value).returncode

    def put_that_waits(self, name, key, value):
        """Returns a process that waits for an answer, once the member has logged the write."""
        before = self.stat(name, "commit_groups")
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.addresses[name]}", "--timeout=600000", "put", key, value],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.kill)
        harness.wait_until(lambda: self.stat(name, "commit_groups") > before, "the write is logged")
        return waiting

    def get(self, name, key):
        run = harness.kvctl(self.addresses[name], PATIENT, "get", key)
        return run.stdout.decode() if run.returncode == 0 else None


class FailoverTest(FailoverCase):
    def test_another_member_serves_when_the_primary_is_killed(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        others = [name for name in NAMES if name != primary]
        run = harness.kvctl(self.addresses[others[0]], "get", "key")
        self.assertIn(b"it is not the primary of its shard", run.stderr)
        self.servers[primary].kill()
        successor = self.primary()
        self.assertIn(successor, others)
        self.assertEqual(self.get(successor, "key"), "1")
        self.assertEqual(self.put(successor, "key", "2"), 0)
        self.assertEqual(self.get(successor, "key"), "2")

    def test_no_acknowledged_write_is_lost_when_primaries_are_killed_under_load(self):
        primary = self.start_all()
        writers = []
        for round_number in range(ROUNDS):
            with self.subTest(round_number):
                now = [Writer(self.addresses[primary], f"w{round_number}x{i}", KEYS) for i in range(3)]
                for writer in now:
                    writer.wait_for(100)
                self.servers[primary].kill()
                killed_at = time.monotonic()
                for writer in now:
                    writer.kill()
                writers += now
                old, primary = primary, self.primary()
                harness.wait_until(lambda: self.put(primary, "probe", str(round_number)) == 0, "it takes writes")
                print(f"blocked for {time.monotonic() - killed_at:.2f} s")
                self.assertNotEqual(primary, old)
                for writer in writers:
                    writer.address = self.addresses[primary]
                    self.assertEqual(writer.verify(), (0, ""))
                self.start_anew(old)
                self.await_in_sync(3)


class EventsTest(FailoverCase):
    def test_the_shard_goes_on_without_a_member_and_takes_it_back(self):
        primary = self.start_all()
        away = next(name for name in NAMES if name != primary)
        self.servers[away].kill()
        self.assertEqual(self.put(primary, "key", "1", "--timeout=60000"), 0)
        self.await_in_sync(2)
        self.start(away)
        self.await_in_sync(3)
        self.assertEqual(self.get(primary, "key"), "1")

    def test_below_the_minimum_reads_go_on_and_writes_wait(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        others = [name for name in NAMES if name != primary]
        for name in others:
            self.servers[name].kill()
        self.await_in_sync(1)
        self.assertNotEqual(self.put(primary, "key", "2", "--timeout=500"), 0)
        self.assertEqual(self.get(primary, "key"), "1")
        self.start(others[0])
        harness.wait_until(lambda: self.put(primary, "key", "3") == 0, "it takes writes")

    def test_a_healthy_shard_goes_on_while_etcd_is_away(self):
        primary = self.start_all()
        self.etcd.kill()
        for i in range(50):
            self.assertEqual(self.put(primary, f"key{i}", "1"), 0)
            self.assertEqual(self.get(primary, f"key{i}"), "1")
            time.sleep(0.05)
        self.assertTrue(all(server.process.poll() is None for server in self.servers.values()))
        # Without etcd nobody takes over; with it, one does.
        self.servers[primary].kill()
        time.sleep(2)
        others = [name for name in NAMES if name != primary]
        self.assertTrue(all(self.stat(name, "replication_role") == 1 for name in others))
        self.etcd.start()
        successor = self.primary()
        self.assertEqual(self.get(successor, "key49"), "1")

    def test_a_primary_that_was_frozen_ends(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        frozen = self.servers[primary]
        harness.freeze(frozen.process)
        others = [name for name in NAMES if name != primary]
        harness.wait_until(lambda: any(self.stat(one, "replication_role") == 3 for one in others), "another serves")
        frozen.process.send_signal(signal.SIGCONT)
        self.assertEqual(frozen.process.wait(harness.PATIENCE), 75)
        frozen.await_said(b"cluster_ended: .*is the primary, in epoch")

    def test_all_members_start_again(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        for server in self.servers.values():
            server.kill()
        for name in NAMES:
            self.start(name)
        primary = self.primary()
        self.assertEqual(self.get(primary, "key"), "1")
        harness.wait_until(lambda: self.put(primary, "key", "2", "--timeout=1000") == 0, "it takes writes")


class LeaseTest(FailoverCase):
    """Readers of a primary that another member replaces, while its memory stays readable."""

    def begin(self, primary):
        everywhere = ",".join([self.addresses[primary], *[self.addresses[one] for one in NAMES if one != primary]])
        counter = Counter(everywhere)
        self.addCleanup(counter.end)
        counter.begin(counter.read, 0, everywhere, False)
        counter.begin(counter.read, 1, self.addresses[primary], True)
        return counter

    def test_nothing_old_is_read_of_a_frozen_primary(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "0"), 0)
        counter = self.begin(primary)
        counter.begin(counter.write)
        counter.await_more([0, 1])
        counter.replaced.set()
        harness.freeze(self.servers[primary].process)
        counter.await_more([0])
        self.servers[primary].process.send_signal(signal.SIGCONT)
        counter.await_more([0])
        counter.end()
        self.assertEqual(counter.faults, [])

    def test_nothing_old_is_read_of_a_primary_below_the_minimum(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "0"), 0)
        others = [name for name in NAMES if name != primary]
        for number, name in enumerate(others):
            self.servers[name].kill()
            self.await_in_sync(2 - number)
        counter = self.begin(primary)
        reads = list(counter.reads)
        harness.wait_until(lambda: counter.faults or min(now - then for now, then in zip(counter.reads[:2], reads)) > 20, "it is read")
        counter.replaced.set()
        harness.freeze(self.servers[primary].process)
        for name in others:
            self.start(name)  # the last one that left has all writes, and takes over
        harness.wait_until(lambda: any(self.stat(one, "replication_role") == 3 for one in others), "another serves")
        counter.begin(counter.write)
        counter.await_more([0])
        self.servers[primary].process.send_signal(signal.SIGCONT)
        counter.await_more([0])
        counter.end()
        self.assertEqual(counter.faults, [])


class MisuseTest(FailoverCase):
    def rejected(self, *flags):
        return subprocess.run(
            [harness.program("kvserver"), f"--listen={self.addresses['a']}", "--insecure_open",
             f"--data_dir={self.folder}/rejected", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip

    def test_flags_that_make_no_sense_are_rejected(self):
        etcd, shard, member = f"--etcd={self.etcd.url}", "--shard=5f0c0000000000aa/one", "--member=a"
        for flags, words in [
            ([etcd, member], "needs --member=ID and --shard"),
            ([etcd, shard], "needs --member=ID and --shard"),
            (["--etcd=localhost", shard, member], "give http://HOST:PORT"),
            ([etcd, shard, "--member=A B"], "no name of a member"),
            ([etcd, shard, member, "--follow"], "leave out --follow"),
            ([etcd, shard, member, "--commit_log=off"], "needs a commit log"),
            ([etcd, shard, member, "--initial_member=a"], "is not ID=ADDRESS"),
            ([etcd, shard, member, "--initial_member=a=tcp://x:1", "--min_in_sync=2"], "min_in_sync is not from 1"),
            ([etcd, shard, member, "--etcd_user=x"], "go together"),
            ([member], "--etcd"),
        ]:
            with self.subTest(flags):
                run = self.rejected(*flags)
                self.assertEqual(run.returncode, 64, run.stderr)
                self.assertIn(words, run.stderr.decode())

    def test_a_member_without_etcd_or_a_configuration_serves_nobody_and_says_so(self):
        self.etcd.kill()
        server = self.start("a")
        server.await_said(b"cluster_failed: etcd: http://127.*start it, or correct its address")
        self.assertNotEqual(harness.kvctl(self.addresses["a"], "--timeout=500", "get", "key").returncode, 0)
        self.etcd.start()
        # Alone it begins the shard, and takes no writes below its minimum.
        harness.wait_until(lambda: self.stat("a", "replication_role") == 3, "it serves")
        self.assertNotEqual(self.put("a", "key", "1", "--timeout=500"), 0)

    def test_wrong_credentials_of_etcd_are_named(self):
        for command in (["user", "add", "root:very xyzzy"], ["auth", "enable"]):
            self.assertEqual(self.etcd.control(*command), 0)
        password = self.write("password", "wrong xyzzy\n")
        server = self.start("a", "--insecure_open", "--etcd_user=root", f"--etcd_password_file={password}")
        server.await_said(b"cluster_failed: etcd: .*check user")
        self.assertNotIn(b"xyzzy", server.said())
        server.kill()
        pathlib.Path(password).write_text("very xyzzy\n")
        self.start("a", "--insecure_open", "--etcd_user=root", f"--etcd_password_file={password}")
        harness.wait_until(lambda: self.stat("a", "replication_role") == 3, "it serves")

    def test_a_second_server_of_a_member_does_nothing_and_says_so(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        name = next(one for one in NAMES if one != primary)
        first = self.servers[name]
        self.listens[name] = self.new_address("second")
        second = self.start(name, data="second")
        second.await_said(f"cluster_failed: another server answers at the address of member {name}, ".encode())
        # With the life and the data of the member, as of a directory that was copied.
        second.kill()
        first.kill()
        shutil.copytree(self.folder / f"{name}.data", self.folder / "copied.data")
        del self.listens[name]
        first = self.start(name)
        self.await_in_sync(3)
        self.listens[name] = self.new_address("second")
        second = self.start(name, data="copied")
        second.await_said(b"cluster_failed: another server answers at the address of member")
        self.servers[primary].kill()
        serving = lambda address: harness.stats(address)["replication_role"] == 3  # noqa: E731
        others = [one for one in NAMES if one not in (primary, name)]
        harness.wait_until(lambda: any(serving(self.addresses[one]) for one in [name, *others]), "a member serves")
        self.assertFalse(serving(self.listens[name]))
        self.assertIsNone(second.process.poll())

    def test_a_damaged_configuration_is_left_alone(self):
        self.assertEqual(self.etcd.control("put", "/remora/shards/5f0c0000000000aa/one", "{}"), 0)
        server = self.start("a")
        server.await_said(b"cluster_failed: configuration: the value in etcd is damaged")
        self.assertEqual(self.configuration().strip(), "{}")


if __name__ == "__main__":
    unittest.main()
