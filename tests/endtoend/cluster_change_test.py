"""kvctl cluster remove, add, force and rebuild: members of a shard that come, or are lost for good, and an etcd that has lost
its data. Real processes, and a real etcd.
"""

import json
import shutil
import unittest

import harness
from failover_test import NAMES, FailoverCase

SHARD = "5f0c0000000000aa/one"
WAITS = "--timeout=500"


class ChangeCase(FailoverCase):
    def setUp(self):
        super().setUp()
        self.addresses["d"] = self.new_address("d")

    def cluster(self, action, *flags, shard=SHARD, etcd=None):
        """Returns the exit status, the output and the error line."""
        run = harness.kvctl(None, "cluster", action, f"--etcd={etcd or self.etcd.url}", f"--shard={shard}", "--timeout=30000", *flags)
        return run.returncode, run.stdout.decode(), run.stderr.decode()

    def expect(self, action, *flags, says):
        code, said, error = self.cluster(action, *flags)
        self.assertEqual((code, error), (0, ""), said)
        self.assertIn(says, said)

    def shown(self):
        return json.loads(self.configuration())

    def others(self, *names):
        return [name for name in NAMES if name not in names]

    def kill(self, name, left):
        """Kills a member that is not the primary, and waits until so many are in sync."""
        self.servers[name].kill()
        self.await_in_sync(left)

    def serving(self):
        """The member that serves, also if it was added."""
        found = []

        def serves():
            found[:] = [one for one, server in self.servers.items()
                        if server.process.poll() is None and self.stat(one, "replication_role") == 3]  # fmt: skip
            return len(found) == 1

        harness.wait_until(serves, "one member serves")
        return found[0]

    def await_put(self, name, key, value):
        harness.wait_until(lambda: self.put(name, key, value, "--timeout=2000") == 0, f"{name} takes writes")


class ReplaceTest(ChangeCase):
    def test_a_member_that_is_lost_is_removed_and_another_one_takes_its_place(self):
        primary = self.start_all()
        lost, other = self.others(primary)
        self.assertEqual(self.put(primary, "key", "1"), 0)
        self.kill(lost, 2)
        self.expect("remove", f"--member={lost}", says=f"{lost} is removed: the shard has 2 members, 2 of them in sync, and min_in_sync is 2\n")
        self.assertEqual(self.shown()["replicas"], sorted([primary, other]))
        self.assertEqual(self.put(primary, "key", "2"), 0)
        self.expect("add", "--member=d", f"--address={self.addresses['d']}", says="d is added: the shard has 3 members")
        self.start("d")
        self.await_in_sync(3)
        self.assertEqual(self.put(primary, "key", "3"), 0)
        code, said, error = self.cluster("members")
        self.assertEqual((code, error), (0, ""), said)
        # The new one does what a member does.
        self.servers[primary].kill()
        successor = self.serving()
        self.await_in_sync(2)
        self.assertIn(successor, (other, "d"))
        self.await_put(successor, "key2", "4")
        for name in (other, "d"):
            if name != successor:
                self.servers[name].kill()
        self.assertEqual(self.get(successor, "key"), "3")

    def test_a_running_member_that_is_removed_ends_and_never_counts_again(self):
        primary = self.start_all()
        gone, other = self.others(primary)
        self.assertEqual(self.put(primary, "key", "1"), 0)
        self.expect("remove", f"--member={gone}", says=f"{gone} is removed")
        self.assertEqual(self.put(primary, "key", "2", "--timeout=30000"), 0)
        server = self.servers[gone]
        self.assertEqual(server.process.wait(harness.PATIENCE), 78, server.said())
        server.await_said(b"cluster_ended: .*it was removed from the shard")
        # Started again, it serves nobody, and follows nobody.
        self.start(gone).await_said(b"cluster_failed: .*which the configuration does not have")
        for number in range(3):
            self.await_put(primary, f"key{number}", "3")
        self.servers[primary].kill()
        successor = self.serving()
        self.assertEqual(successor, other)
        self.assertEqual(self.get(successor, "key2"), "3")
        self.assertNotEqual(self.put(successor, "key", "4", WAITS), 0, "one of two is below the minimum")
        self.assertEqual(self.stat(gone, "replication_role"), 1)
        # And added again, it joins.
        self.expect("add", f"--member={gone}", f"--address={self.addresses[gone]}", says=f"{gone} is added")
        self.await_in_sync(2)
        self.await_put(successor, "key", "5")

    def test_a_shard_goes_on_with_its_last_member(self):
        primary = self.start_all()
        lost, other = self.others(primary)
        self.kill(lost, 2)
        self.kill(other, 1)
        self.assertNotEqual(self.put(primary, "key", "1", WAITS), 0, "below the minimum")
        self.expect("remove", f"--member={lost}", says="1 of them in sync")
        code, said, error = self.cluster("remove", f"--member={other}")
        self.assertEqual((code, said), (1, ""))
        self.assertIn("min_in_sync is 2, and the shard would have 1 members; give a lower --min_in_sync", error)
        self.expect("remove", f"--member={other}", "--min_in_sync=1", says="the shard has 1 members, 1 of them in sync, and min_in_sync is 1\n")
        self.assertEqual(self.shown()["complete"], [])
        self.await_put(primary, "key", "2")
        # The removed ones do not take over, though both were in sync.
        self.servers[primary].kill()
        for name in (lost, other):
            self.start(name).await_said(b"which the configuration does not have")
        self.assertEqual(self.shown()["epoch"], 1)
        self.start(primary)
        self.assertEqual(self.serving(), primary)
        self.assertEqual(self.get(primary, "key"), "2")


class MisuseTest(ChangeCase):
    def test_changes_that_make_no_sense_are_rejected(self):
        primary = self.start_all()
        away, other = self.others(primary)
        for action, flags, code, words in [
            ("remove", [f"--member={primary}"], 1, "make another one the primary first (kvctl cluster switch)"),
            ("remove", ["--member=z"], 64, "the shard has no member z"),
            ("remove", [f"--member={away}", "--min_in_sync=3"], 1, "the shard would have 2 members"),
            ("add", [f"--member={away}", "--address=tcp://h:1"], 1, "has a member of this name already"),
            ("add", ["--member=d", f"--address={self.addresses[away]}"], 1, f"member {away} has this address"),
            ("add", ["--member=d", "--address=tcp://h:1", "--min_in_sync=4"], 1, "fewer than 4 members would be in sync"),
            ("force", ["--member=z", "--accept_lost_writes"], 64, "the shard has no member z"),
            ("force", [f"--member={away}", "--accept_lost_writes"], 1, f"member {primary} leads in epoch 1"),
            ("force", [f"--member={primary}", "--accept_lost_writes"], 1, f"member {primary} leads in epoch 1"),
        ]:
            with self.subTest(action=action, flags=flags):
                before = self.configuration()
                found, said, error = self.cluster(action, *flags)
                self.assertEqual((found, said), (code, ""), error)
                self.assertIn(words, error)
                self.assertEqual(self.configuration(), before)
        for action, flags in [("remove", [f"--member={away}"]), ("add", ["--member=d", "--address=tcp://h:1"]), ("force", [f"--member={away}"])]:
            with self.subTest(action):
                self.assertEqual(self.cluster(action, *flags, shard="5f0c0000000000aa/two")[0], 66)
                self.assertEqual(self.cluster(action, *flags, etcd="http://127.0.0.1:1")[0], 69)
        # The member may be the one that is to take over.
        self.kill(other, 2)
        self.servers[primary].kill()
        code, said, error = self.cluster("remove", f"--member={away}", "--min_in_sync=1")
        self.assertEqual((code, said), (69, ""), error)
        self.assertIn("wait until a member serves", error)
        self.assertEqual(self.serving(), away)

    def test_flags_that_make_no_sense_are_rejected(self):
        etcd, shard, member = "--etcd=http://127.0.0.1:1", f"--shard={SHARD}", "--member=a"
        for arguments, words in [
            (["remove", etcd, shard], "cluster remove: name the member with --member=ID"),
            (["remove", etcd, member], "name the shard with --shard="),
            (["remove", shard, member], "--etcd"),
            (["remove", etcd, shard, member, "--to=b"], "--to: is for cluster switch"),
            (["remove", etcd, shard, member, "--address=tcp://h:1"], "--address: is for cluster add"),
            (["remove", etcd, shard, member, "--accept_lost_writes"], "--accept_lost_writes: is for cluster force"),
            (["remove", etcd, shard, member, "--min_in_sync=0"], "--min_in_sync"),
            (["remove", etcd, shard, "--member=A B"], "is no name of a member"),
            (["remove", etcd, shard, member, "tcp://h:1"], "takes the servers from etcd"),
            (["add", etcd, shard, member], "with --address=ADDRESS"),
            (["add", etcd, shard, member, "--address=h"], "--address"),
            (["force", etcd, shard, member, "--min_in_sync=1"], "--min_in_sync: is for cluster remove, add, rebuild"),
            (["members", etcd, shard, member], "--member: is for cluster remove, add, force, rebuild"),
            (["force", etcd, shard, member, "--initial_member=a=tcp://h:1"], "--initial_member: is for cluster rebuild"),
            (["rebuild", etcd, shard], "cluster rebuild: name each member with --initial_member="),
            (["rebuild", etcd, shard, "--initial_member=a"], "--initial_member=a: is not ID=ADDRESS"),
            (["rebuild", etcd, shard, "--initial_member=a=h"], "address"),
            (["rebuild", etcd, shard, *2 * ["--initial_member=a=tcp://h:1"]], "its replicas are not in order"),
            (["rebuild", etcd, shard, "--initial_member=a=tcp://h:1", "--min_in_sync=2"], "min_in_sync is not from 1 to"),
            (["status", "--topology=x", etcd, member], "--etcd: is for cluster members"),
        ]:
            with self.subTest(arguments):
                run = harness.kvctl(None, "cluster", *arguments)
                self.assertEqual(run.returncode, 64, run.stderr)
                self.assertIn(words, run.stderr.decode())


class ForceTest(ChangeCase):
    def lose_all_but_one(self):
        """Returns a member that lacks a write, and the two that had it, which are dead: the primary first."""
        primary = self.start_all()
        left, other = self.others(primary)
        self.assertEqual(self.put(primary, "kept", "1"), 0)
        self.kill(left, 2)
        self.assertEqual(self.put(primary, "lost", "1"), 0)
        for name in (primary, other):
            self.servers[name].kill()
        self.start(left)
        harness.wait_until(lambda: self.stat(left, "loading") == 0, "it is loaded")
        return left, primary, other

    def test_a_member_takes_over_that_lacks_writes(self):
        left, primary, other = self.lose_all_but_one()
        before = self.configuration()
        code, said, error = self.cluster("force", f"--member={left}")
        self.assertEqual(code, 64)
        self.assertIn("acknowledged writes may be lost", error)
        self.assertIn("add --accept_lost_writes", error)
        self.assertIn(f"each acknowledged write is on: {', '.join(sorted([primary, other]))}\n", said)
        self.assertIn(f"lost: each acknowledged write that {left} does not have\n", said)
        self.assertEqual(self.configuration(), before, "nothing was done")
        self.assertEqual(self.stat(left, "replication_role"), 1)
        self.expect("force", f"--member={left}", "--accept_lost_writes", says=f"{left} is the primary by force, in epoch 2\n")
        self.servers[left].await_said(f"cluster_changed: takes over from {primary} by force; epoch 2, 1 members in sync".encode())
        self.assertEqual(self.get(left, "kept"), "1")
        self.assertIsNone(self.get(left, "lost"))
        self.assertNotEqual(self.put(left, "key", "1", WAITS), 0, "below the minimum")
        self.expect("remove", f"--member={primary}", "--min_in_sync=1", says=f"{primary} is removed")
        self.await_put(left, "key", "2")
        run = harness.kvctl(self.addresses[left], "get", "--version", "key")
        self.assertGreater(int(run.stdout.split(b"\n")[0]), 1 << 50, "no version is given again")
        # The others come back after all: one was removed, and one gives up its data.
        self.start(primary).await_said(b"which the configuration does not have")
        back = self.start(other)
        self.assertEqual(back.process.wait(harness.PATIENCE), 75, back.said())
        back.await_said(b"cluster_ended: a copy of the primary's data has come")
        self.start(other)
        self.await_in_sync(2)
        self.assertEqual(self.get(left, "key"), "2")
        self.servers[left].kill()
        self.assertEqual(self.serving(), other)
        self.assertIsNone(self.get(other, "lost"))
        self.assertEqual(self.get(other, "key"), "2")

    def test_of_members_that_lost_power_the_one_with_most_takes_over(self):
        left, primary, other = self.lose_all_but_one()
        self.servers[left].kill()
        for name in (primary, other):
            (self.folder / f"{name}.data" / "REMORA-MEMBER").unlink()  # as after a new start of the machine
        for name in NAMES:
            self.start(name)
        harness.wait_until(lambda: all(self.stat(name, "loading") == 0 for name in NAMES), "all are loaded")
        self.servers[primary].await_said(b"may have lost writes since; another one has to take over")
        code, _, error = self.cluster("force", f"--member={left}", "--accept_lost_writes")
        self.assertEqual(code, 1)
        self.assertRegex(error, f"member [{primary}{other}] has more, up to group .*; choose that one")
        self.assertEqual(self.shown()["epoch"], 1)
        self.expect("force", f"--member={primary}", "--accept_lost_writes", says=f"{primary} is the primary by force")
        self.await_in_sync(3)
        self.await_put(primary, "key", "1")
        self.assertEqual(self.get(primary, "lost"), "1", "nothing is lost")


class RebuildTest(ChangeCase):
    LOST = b"if etcd has lost its data, restore them, or see `kvctl cluster rebuild`"

    def lose_etcd(self):
        self.etcd.kill()
        shutil.rmtree(self.folder / "etcd")
        self.assertTrue(self.etcd.start())

    def rebuild(self, *flags, names=NAMES):
        return self.cluster("rebuild", *[f"--initial_member={name}={self.addresses[name]}" for name in names], *flags)

    def start_all_again(self):
        for name in NAMES:
            self.servers[name].kill()
        for name in NAMES:
            self.start(name)
        harness.wait_until(lambda: all(self.stat(name, "loading") == 0 for name in NAMES), "all are loaded")

    def test_a_shard_goes_on_without_its_configuration_and_is_rebuilt(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        self.lose_etcd()
        self.servers[primary].await_said(b"etcd has no configuration at .* any more: " + self.LOST)
        self.assertEqual(self.put(primary, "key", "2"), 0)
        self.assertEqual(self.get(primary, "key"), "2")
        self.assertEqual(self.configuration(), "", "nobody has begun the shard anew")
        code, _, error = self.rebuild("--accept_lost_writes")
        self.assertEqual(code, 1, error)
        self.assertRegex(error, f"member {primary} .* leads in epoch 1, and goes on without etcd; stop it")
        self.start_all_again()
        for name in NAMES:
            self.servers[name].await_said(b"and this server has data: " + self.LOST)
        away = self.others(primary)[0]
        self.servers[away].kill()
        code, _, error = self.rebuild("--accept_lost_writes")
        self.assertEqual(code, 69, error)
        self.assertRegex(error, f"member {away} .* does not answer: .*; start it, or leave it out")
        self.start(away)
        harness.wait_until(lambda: self.stat(away, "loading") == 0, "it is loaded")
        code, said, error = self.rebuild()
        self.assertEqual(code, 64, said)
        self.assertIn("nothing was done; if the above is right", error)
        self.assertRegex(said, "the primary is to be [abc], with writes up to version [0-9]+ of epoch 1\n")
        self.assertEqual(self.configuration(), "")
        code, said, error = self.rebuild("--accept_lost_writes")
        self.assertEqual((code, error), (0, ""), said)
        self.assertRegex(said, "the shard is rebuilt: [abc] is the primary, in epoch 2; the others join")
        self.await_in_sync(3)
        serving = self.primary()
        self.assertEqual(self.get(serving, "key"), "2")
        self.assertEqual(self.put(serving, "key", "3"), 0)
        self.assertEqual((self.shown()["epoch"], self.shown()["min_in_sync"]), (2, 2))
        code, _, error = self.rebuild("--accept_lost_writes")
        self.assertEqual(code, 1)
        self.assertIn("etcd has a configuration of epoch 2, so there is nothing to rebuild", error)
        self.servers[serving].kill()
        self.assertEqual(self.get(self.primary(), "key"), "3")

    def test_no_member_gives_up_its_data_for_a_shard_that_was_begun_anew(self):
        primary = self.start_all()
        self.assertEqual(self.put(primary, "key", "1"), 0)
        for server in self.servers.values():
            server.kill()
        self.lose_etcd()
        self.start_anew("a")
        harness.wait_until(lambda: self.stat("a", "replication_role") == 3, "an empty member begins the shard")
        old = self.start("b")
        old.await_said(b"primary_rejected: .*histories differ: stop one of two primaries")
        self.assertFalse((self.folder / "b.data" / "REMORA-COPY").exists())
        self.assertIsNone(old.process.poll())
        # The way back: without that member and its configuration.
        self.servers["a"].kill()
        old.kill()
        self.lose_etcd()
        self.start("b")
        self.start("c")
        harness.wait_until(lambda: all(self.stat(name, "loading") == 0 for name in "bc"), "they are loaded")
        code, said, error = self.rebuild("--accept_lost_writes", names="bc")
        self.assertEqual((code, error), (0, ""), said)
        self.await_in_sync(2)
        self.assertEqual(self.get(self.serving(), "key"), "1")

    def test_members_without_data_or_of_another_shard_are_named(self):
        code, _, error = self.rebuild("--accept_lost_writes", names="a")
        self.assertEqual(code, 69, error)
        self.etcd.kill()
        self.start("a")
        self.assertTrue(self.etcd.start())
        alone = self.server("--insecure_open", "--durability=memory", "--memory=64M", "--shard=5f0c0000000000aa/one",
                            address=self.addresses["d"])  # fmt: skip
        code, _, error = self.rebuild("--accept_lost_writes", names="d")
        self.assertEqual(code, 1, error)
        self.assertIn("is no member of a shard; start it with --etcd", error)
        self.assertEqual(alone.stop()[0], 0)
        other = self.server("--insecure_open", "--durability=memory", "--memory=64M", "--shard=5f0c0000000000aa/two",
                            address=self.addresses["d"])  # fmt: skip
        code, _, error = self.rebuild("--accept_lost_writes", names="d")
        self.assertEqual(code, 69, error)
        self.assertIn("and shard one of cluster 5f0c0000000000aa is expected", error)
        self.assertEqual(other.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
