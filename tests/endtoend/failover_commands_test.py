"""The commands about a shard that fails over: kvctl cluster members, and tools/failover-demo, with a real etcd."""

import json
import pathlib
import re
import signal
import subprocess
import unittest

import harness
import redis_pair
from failover_test import NAMES, FailoverCase


class MembersTest(FailoverCase):
    """`kvctl cluster members`."""

    def members(self, *flags, shard="5f0c0000000000aa/one"):
        """Returns the exit status, the words of each member's line by its ID, and stderr."""
        run = harness.kvctl(None, "cluster", "members", f"--etcd={self.etcd.url}", f"--shard={shard}", "--timeout=5000", *flags)
        lines = [re.split(r"  +", line, maxsplit=5) for line in run.stdout.decode().splitlines()[2:]]
        return run.returncode, {line[0]: line[1:] for line in lines}, run.stderr.decode()

    def test_the_members_of_a_healthy_shard(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        harness.wait_until(lambda: all(line[3] == "0" for line in self.members()[1].values()), "nobody lacks a write")
        harness.wait_until(lambda: self.members()[0] == 0, "all members are well")
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
        path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{path}", f"--server={self.addresses[primary]}")
        self.addCleanup(gate.close)
        wire = redis_pair.Wire(path)
        self.addCleanup(wire.close)
        harness.wait_until(lambda: wire.call("WAIT", 2, 0) == b":2\r\n", "a gate's WAIT counts both replicas")
        self.servers[away].kill()
        self.await_in_sync(2)
        harness.wait_until(lambda: wire.call("WAIT", 2, 0) == b":1\r\n", "one of them has left")
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
            harness.freeze(self.servers[name].process)
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


class DemoTest(unittest.TestCase):
    """tools/failover-demo."""

    def run_it(self, *flags):
        demo = pathlib.Path(__file__).parents[2] / "tools/failover-demo"
        return subprocess.run([demo, f"--bin={harness.BIN}", *flags], capture_output=True, text=True, timeout=280, check=False)

    def test_nothing_is_lost(self):
        run = self.run_it("--rounds=2")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("acknowledged writes, 0 lost", run.stdout)

    def test_bad_flags_and_missing_programs_are_named(self):
        for flags, status, words in [
            (["--rounds=0"], 64, "--rounds: is from 1 on"),
            (["--other"], 64, "see --help"),
            (["--bin=/nowhere"], 69, "there is no /nowhere/kvserver; build it"),
        ]:
            run = self.run_it(*flags)
            self.assertEqual((run.returncode, words in run.stderr), (status, True), run.stderr)


if __name__ == "__main__":
    unittest.main()
