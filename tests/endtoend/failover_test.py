"""Three members of a shard with a real etcd: kill -9 of the primary under load, members that stop, an etcd that stops.

REMORA_ROUNDS: how often a primary is killed under load (1 by default).
"""

import json
import os
import re
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
        self.servers = {}
        self.starts = 0

    def start(self, name, *flags, data=None):
        """Starts a member, without tokens unless there are flags."""
        server = harness.Server(
            f"--listen={self.addresses[name]}", f"--data_dir={self.folder / (data or name)}.data",
            "--memory=32M", "--shard=5f0c0000000000aa/one", f"--member={name}", f"--etcd={self.etcd.url}",
            *[f"--initial_member={one}={self.addresses[one]}" for one in NAMES], *(flags or ["--insecure_open"]),
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
        return harness.kvctl(self.addresses[name], *flags, "put", key, value).returncode

    def get(self, name, key):
        run = harness.kvctl(self.addresses[name], "get", key)
        return run.stdout.decode() if run.returncode == 0 else None


class FailoverTest(FailoverCase):
    def test_another_member_serves_when_the_primary_is_killed(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        others = [name for name in NAMES if name != primary]
        run = harness.kvctl(self.addresses[others[0]], "get", "key")
        self.assertIn(b"it is not the primary of its shard", run.stderr)
        run = harness.kvctl(self.addresses[others[0]], "promote")
        self.assertIn(b"is a member of a cluster, which promotes by itself", run.stderr)
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
        frozen.process.send_signal(signal.SIGSTOP)
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
        self.servers[primary].process.send_signal(signal.SIGSTOP)
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
        self.servers[primary].process.send_signal(signal.SIGSTOP)
        for name in others:
            self.start(name)  # the last one that left has all writes, and takes over
        harness.wait_until(lambda: any(self.stat(one, "replication_role") == 3 for one in others), "another serves")
        counter.begin(counter.write)
        counter.await_more([0])
        self.servers[primary].process.send_signal(signal.SIGCONT)
        counter.await_more([0])
        counter.end()
        self.assertEqual(counter.faults, [])


class MembersTest(FailoverCase):
    """`kvctl cluster members`."""

    def members(self, *flags, shard="5f0c0000000000aa/one"):
        """Returns the exit status, the words of each member's line by its ID, and stderr."""
        run = harness.kvctl(None, "cluster", "members", f"--etcd={self.etcd.url}", f"--shard={shard}", "--timeout=2000", *flags)
        lines = [re.split(r"  +", line, maxsplit=5) for line in run.stdout.decode().splitlines()[2:]]
        return run.returncode, {line[0]: line[1:] for line in lines}, run.stderr.decode()

    def test_the_members_of_a_healthy_shard(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        harness.wait_until(lambda: all(line[3] == "0" for line in self.members()[1].values()), "nobody lacks a write")
        code, lines, error = self.members()
        self.assertEqual((code, error), (0, ""))
        expected = {one: ["in sync", "follows", "1", "0", self.addresses[one]] for one in NAMES}
        expected[primary][:2] = ["primary", "serves"]
        self.assertEqual(lines, expected)
        for name in NAMES:
            self.await_counts(name, *((3, 3, 2) if name == primary else (0, 0, 0)))
        run = harness.kvctl(None, "cluster", "members", f"--etcd={self.etcd.url}", "--shard=5f0c0000000000aa/one", "--json")
        shown = json.loads(run.stdout)
        members = shown.pop("members")
        self.assertEqual(shown, {"shard": "5f0c0000000000aa/one", "epoch": 1, "min_in_sync": 2})
        self.assertEqual([one["id"] for one in members], NAMES)
        self.assertEqual(next(one for one in members if one["id"] == primary), {
            "id": primary, "part": "primary", "address": self.addresses[primary], "state": "serves", "epoch": 1,
            "writes_lacking": 0, "error": None,
        })  # fmt: skip

    def await_counts(self, name, *counts):
        metrics = ("cluster_members", "cluster_members_in_sync", "cluster_min_in_sync")
        harness.wait_until(lambda: tuple(self.stat(name, metric) for metric in metrics) == counts, f"{name} has {counts} in its metrics")

    def test_a_member_that_is_away_is_named(self):
        primary = self.start_all()
        away = next(name for name in NAMES if name != primary)
        self.servers[away].kill()
        self.await_in_sync(2)
        code, lines, error = self.members()
        self.assertEqual(code, 1)
        self.assertEqual(lines[away][:4], ["out", "does not answer", "-", "-"])
        self.assertIn(f"{away} is not in sync and does not answer; start", error)
        self.start(away)
        self.await_in_sync(3)
        harness.wait_until(lambda: self.members()[0] == 0, "all is well again")

    def test_another_primary_is_shown_once_it_serves(self):
        primary = self.start_all()
        for name in [name for name in NAMES if name != primary]:
            self.servers[name].process.send_signal(signal.SIGSTOP)
        self.servers[primary].kill()
        code, lines, error = self.members()
        self.assertEqual(code, 69)
        self.assertIn(f"its primary {primary} (", error)
        self.assertEqual({line[1] for line in lines.values()}, {"does not answer"})
        for name in [name for name in NAMES if name != primary]:
            self.servers[name].process.send_signal(signal.SIGCONT)
        successor = self.primary()
        code, lines, error = self.members()
        self.assertEqual(code, 1, error)
        self.assertEqual(lines[successor][:4], ["primary", "serves", "2", "0"])

    def test_below_the_minimum_it_says_so_and_that_a_member_is_complete(self):
        primary = self.start_all()
        others = [name for name in NAMES if name != primary]
        for number, name in enumerate(others):
            self.servers[name].kill()
            self.await_in_sync(2 - number)
        code, lines, error = self.members()
        self.assertEqual(code, 1)
        self.assertEqual([lines[name][0] for name in others], ["out", "complete"])
        self.await_counts(primary, 3, 1, 2)
        self.assertIn("writes wait for min_in_sync", error)

    def test_faults_of_etcd_and_of_the_configuration(self):
        code, lines, error = self.members()
        self.assertEqual((code, lines), (66, {}))
        self.assertIn("etcd: there is no configuration at /remora/shards/5f0c0000000000aa/one; compare --shard", error)
        self.assertEqual(self.etcd.control("put", "/remora/shards/5f0c0000000000aa/two", "{}"), 0)
        code, _, error = self.members(shard="5f0c0000000000aa/two")
        self.assertEqual(code, 65)
        self.assertIn("the value in etcd is damaged", error)
        # A shard that has another one's members.
        primary = self.start_all()
        self.assertEqual(self.etcd.control("put", "/remora/shards/5f0c0000000000aa/two", self.configuration_of("one")), 0)
        code, lines, error = self.members(shard="5f0c0000000000aa/two")
        self.assertEqual(code, 69)
        self.assertEqual(lines[primary][1], "does not answer")
        self.assertIn("is shard one of cluster 5f0c0000000000aa, and shard two", error)
        self.etcd.kill()
        code, lines, error = self.members()
        self.assertEqual((code, lines), (69, {}))
        self.assertIn("start it, or correct its address", error)

    def test_secrets(self):
        for command in (["user", "add", "root:very xyzzy"], ["auth", "enable"]):
            self.assertEqual(self.etcd.control(*command), 0)
        password = self.folder / "password"
        password.write_text("very xyzzy\n")
        password.chmod(0o600)
        wrong = self.folder / "wrong"
        wrong.write_text("wrong xyzzy\n")
        wrong.chmod(0o600)
        open_to_all = self.folder / "open"
        open_to_all.write_text("very xyzzy\n")
        open_to_all.chmod(0o644)
        for flags, status, words in [
            ([], 77, "check user"),
            (["--etcd_user=root", f"--etcd_password_file={wrong}"], 77, "check user"),
            (["--etcd_user=root", f"--etcd_password_file={open_to_all}"], 77, "others can read"),
            (["--etcd_user=root", f"--etcd_password_file={self.folder}/none"], 64, "none: "),
            (["--etcd_user=root", f"--etcd_password_file={password}"], 66, "there is no configuration"),
            ([f"--etcd_ca={self.folder}/none"], 64, "--etcd_ca="),
            ([f"--token_file={self.folder}/none"], 64, "token in "),
        ]:
            with self.subTest(flags):
                code, _, error = self.members(*flags)
                self.assertEqual(code, status, error)
                self.assertIn(words, error)
                self.assertNotIn("xyzzy", error)

    def test_a_token_for_reading_is_enough(self):
        lines = {role: harness.kvctl(None, "create_token", role, f"--role={role}").stdout for role in ("read-only", "replication")}
        for name, text in {**lines, "all": b"".join(lines.values())}.items():
            (self.folder / name).write_bytes(text)
            (self.folder / name).chmod(0o600)
        for name in NAMES:
            self.start(name, f"--tokens={self.folder}/all", f"--replication_token_file={self.folder}/replication")
        self.await_in_sync(3)
        reads = f"--token_file={self.folder}/read-only"
        harness.wait_until(lambda: self.members(reads)[0] == 0, "all members are well")
        code, _, error = self.members()
        self.assertEqual(code, 77)
        self.assertIn("requires an auth token", error)

    def test_flags_that_make_no_sense_are_rejected(self):
        etcd, shard = "--etcd=http://127.0.0.1:1", "--shard=5f0c0000000000aa/one"
        for arguments, words in [
            (["members"], "name an address of etcd with --etcd="),
            (["members", etcd], "name the shard with --shard="),
            (["members", shard], "--etcd"),
            (["members", "--etcd=localhost", shard], "give http://HOST:PORT"),
            (["members", etcd, "--shard=one"], "is no CLUSTER/NAME"),
            (["members", etcd, shard, "--etcd_user=x"], "go together"),
            (["members", etcd, shard, "--topology=x"], "cluster members asks etcd"),
            (["members", etcd, shard, "tcp://h:1"], "takes the servers from etcd"),
            (["members", etcd, shard, "--server=tcp://h:1"], "leave it out"),
            (["status", etcd, "--topology=x"], "is for cluster members"),
            (["init", etcd, "tcp://h:1"], "is for cluster members"),
            (["status", "--json", "--topology=x"], "--etcd"),
        ]:
            with self.subTest(arguments):
                run = harness.kvctl(None, "cluster", *arguments)
                self.assertEqual(run.returncode, 64, run.stderr)
                self.assertIn(words, run.stderr.decode())


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
        self.assertIsNone(self.get("a", "key"))
        self.etcd.start()
        # Alone it begins the shard, and takes no writes below its minimum.
        harness.wait_until(lambda: self.stat("a", "replication_role") == 3, "it serves")
        self.assertNotEqual(self.put("a", "key", "1", "--timeout=500"), 0)

    def test_a_damaged_configuration_is_left_alone(self):
        self.assertEqual(self.etcd.control("put", "/remora/shards/5f0c0000000000aa/one", "{}"), 0)
        server = self.start("a")
        server.await_said(b"cluster_failed: configuration: the value in etcd is damaged")
        self.assertEqual(self.configuration().strip(), "{}")


if __name__ == "__main__":
    unittest.main()
