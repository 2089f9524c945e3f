"""Slots that move between two shards that fail over, with a real etcd: under load, and with kills of either primary.

REMORA_ROUNDS: how many moves are made with kills (3 by default).
"""

import os
import random
import re
import signal
import subprocess
import time
import unittest

import harness
from cluster_load import Load, begin_slow_move  # it finds the package, too
from etcd_slots_test import EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE, HALF, SHARDS, EtcdSlotsCase

import remora  # noqa: E402
from remora._remora import Topology  # noqa: E402

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "3"))
SLOTS = 16384


class ShardMovesCase(EtcdSlotsCase):
    def division(self):
        return self.etcd.run("get", f"/remora/clusters/{self.cluster}/slots", "--print-value-only").stdout.decode()

    def owners(self):
        """Returns the slots of each shard, as etcd says."""
        found = {}
        for name, ranges in re.findall(r"^shard (\w+) (\S+) ", self.division(), re.MULTILINE):
            found[name] = set()
            for one in ranges.split(","):
                first, _, last = one.partition("-")
                found[name].update(range(int(first), int(last or first) + 1))
        return found

    def expect_one_owner_each(self):
        owners = self.owners()
        self.assertEqual(sum(len(slots) for slots in owners.values()), SLOTS)
        self.assertEqual(set().union(*owners.values()), set(range(SLOTS)))
        for shard, slots in owners.items():
            harness.wait_until(lambda: self.stat(self.primary(shard), "slots") == len(slots),
                               f"shard {shard} serves the {len(slots)} slots of the division")  # fmt: skip

    def kvctl(self, *arguments, source=None):
        code, said, error = super().kvctl(*arguments, source=source)
        return code, said, re.sub(r"^kvctl: connected to .*\n", "", error, flags=re.MULTILINE)

    def move(self, slots, to, *flags):
        code, said, error = self.kvctl("cluster", "move", f"--slots={slots}", f"--to={to}", *flags)
        self.assertEqual((code, error), (0, ""), said)
        return said

    def leftovers(self):
        return [str(path) for path in self.folder.glob("*.data/slots-*")]


class MoveTest(ShardMovesCase):
    def test_records_move_to_all_members_and_back(self):
        self.start_all()
        store = self.connect()
        keys = {b"key %d" % i: b"value %d" % i for i in range(2000)}
        store.put_many(list(keys.items()))
        store.put("with ttl", "1", ttl=3600)
        said = self.move("0-2000", "1")
        self.assertRegex(said, r"^2001 slots have moved; each took no writes for [0-9.]+ ms at most\n$")
        print(said, end="")
        self.assertEqual({key: store[key] for key in keys}, keys)
        self.assertEqual(dict(store.scan(prefix="key ")), keys)
        self.assertEqual(store.count(), len(keys) + 1)
        self.assertGreater(store.ttl("with ttl"), 3000)
        self.expect_one_owner_each()
        self.assertEqual(len(self.owners()["1"]), SLOTS - HALF + 2001)
        moved = [key for key in keys if Topology.slot_of(key.decode()) <= 2000]
        self.assertGreater(len(moved), 100)
        store[moved[0]] = b"later"
        # The other member of each shard has what its primary had, and shows nothing else.
        for shard in SHARDS:
            before = self.primary(shard)
            self.servers[before].kill()
            self.assertNotEqual(self.primary(shard), before)
            self.start_again(before)
        self.assertEqual(store[moved[0]], b"later")
        self.assertEqual({key: store[key] for key in keys if key != moved[0]}, {key: keys[key] for key in keys if key != moved[0]})
        self.assertEqual(store.count(), len(keys) + 1)
        run = harness.kvctl(self.list_of("0"), "get", moved[1].decode())
        self.assertIn(b"another server's", run.stderr)
        del store[moved[2]]
        self.move("0-2000", "0")
        self.assertNotIn(moved[2], store)
        self.assertEqual(store[moved[0]], b"later")
        self.assertEqual(store.count(), len(keys))
        self.expect_one_owner_each()
        self.assertEqual(self.leftovers(), [])
        # A member learns later than these two shards' primaries.
        harness.wait_until(lambda: self.kvctl("cluster", "status")[0] == 0, "all tell the same")

    def test_rebalance_shows_a_plan_first(self):
        self.start_all()
        store = self.connect()
        keys = {b"key %d" % i: b"%d" % i for i in range(500)}
        store.put_many(list(keys.items()))
        self.move("100-8000", "1")
        code, said, error = self.kvctl("cluster", "rebalance")
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(said, r"^move \d+ slots \(.*\) from shard 1 to shard 0\nnothing was moved; --yes does it\n$")
        code, said, error = self.kvctl("cluster", "rebalance", "--yes", "--rate=64M")
        self.assertEqual((code, error), (0, ""), said)
        self.assertEqual({len(slots) for slots in self.owners().values()}, {HALF})
        self.assertEqual(self.kvctl("cluster", "rebalance")[:2], (0, "the slots are in balance\n"))
        self.assertEqual(dict(store.scan()), keys)
        self.expect_one_owner_each()

    def test_a_scan_over_a_move_misses_nothing_in_silence(self):
        self.start_all()
        store = self.connect()
        keys = {b"key %05d" % i for i in range(3000)}
        store.put_many([(key, b"1") for key in keys])
        scan = iter(store.scan())
        shown = [next(scan)]
        self.move("0-3000", "1")
        self.move("0-3000", "0")
        with self.assertRaisesRegex(remora.Error, "begin a new scan|begin anew"):
            shown.extend(scan)
        self.assertEqual({key for key, _ in store.items()}, keys)

    def test_a_move_is_given_up_when_kvctl_or_the_destination_ends(self):
        self.start_all()
        store = self.connect()
        store.put_many([(f"key {i}", b"v" * 1000) for i in range(2000)])
        slow = begin_slow_move(self, self.source, "20K")
        code, _, error = self.kvctl("cluster", "move", "--slots=4000-4100", "--to=1")
        self.assertEqual(code, EX_UNAVAILABLE, error)
        self.assertIn("another move is in progress", error)
        slow.send_signal(signal.SIGINT)
        slow.communicate(timeout=harness.PATIENCE)
        # The servers end the move by themselves.
        harness.wait_until(lambda: self.kvctl("cluster", "move", "--slots=4000-4100", "--to=1")[0] == 0, "the next one is taken")
        self.assertEqual(len(self.owners()["0"]), HALF - 101)
        slow = begin_slow_move(self, self.source, "20K")
        self.servers[self.primary("1")].kill()
        _, error = slow.communicate(timeout=harness.PATIENCE)
        self.assertEqual(slow.returncode, EX_TEMPFAIL, error)
        # Which server, which fault, and what to do; the state of the cluster has it, too.
        why = error.decode()
        self.assertIn("it ended during the copy, and the slots stay where they are: shard 0 (", why)
        self.assertRegex(why, r" gave it up: shard 1 \(.*\): .*; run the command again")
        self.primary("1")
        code, said, error = self.kvctl("cluster", "status")
        self.assertRegex(said, r"(?m)^shard 0 gave up a move of 3001 slots to shard 1, \d+ s ago: shard 1 \(", error)
        self.assertEqual(len(self.owners()["0"]), HALF - 101)
        self.assertEqual(store.count(), 2000)


class MisuseTest(ShardMovesCase):
    def test_flags_that_make_no_sense(self):
        self.start_all()
        for arguments, words in [
            (["move", "--slots=0-9"], "name the shard with --to"),
            (["move", "--to=1"], "name the --slots"),
            (["move", "--slots=0-9", "--to=7"], "has no shard '7'"),
            (["move", "--slots=0-8191", "--to=1"], "would have no slot left"),
        ]:
            with self.subTest(words):
                code, _, error = self.kvctl("cluster", *arguments)
                self.assertEqual(code, EX_USAGE)
                self.assertIn(words, error)
        self.assertEqual(self.kvctl("cluster", "move", "--slots=9000", "--to=1")[:2], (0, "the shard has these slots already\n"))
        # The file names servers, too, but not where the division is.
        code, _, error = self.kvctl("cluster", "move", "--slots=0-9", "--to=1", source=self.file)
        self.assertNotEqual(code, 0)
        self.assertIn("the division of this shard is in etcd; name its servers", error)
        self.expect_one_owner_each()


class LoadTest(ShardMovesCase):
    def choose(self):
        """Returns some slots of a shard, its name, and that of another shard."""
        owners = self.owners()
        source = random.choice([shard for shard, slots in owners.items() if len(slots) > 100])
        slots = sorted(owners[source])
        first = random.randrange(len(slots) - 50)
        chosen = slots[first : first + random.randrange(1, min(3000, len(slots) - first))]
        return ",".join(map(str, chosen)), source, SHARDS[1 - SHARDS.index(source)]

    def test_no_move_loses_a_write_or_shows_an_old_value(self):
        self.start_all()
        load = Load(self.source)
        self.addCleanup(load.end)
        for number in range(ROUNDS):
            slots, _, destination = self.choose()
            print(self.move(slots, destination), end="")
            load.await_more()
        load.end()
        load.check(self.connect())
        self.assertEqual(load.faults, [])
        self.expect_one_owner_each()
        print(f"{ROUNDS} moves, {sum(load.writes)} writes, {load.reads} reads, the longest write took {load.longest * 1000:.1f} ms")

    def test_kills_of_either_primary_lose_nothing(self):
        self.start_all()
        load = Load(self.source)
        self.addCleanup(load.end)
        moved = 0
        for number in range(ROUNDS):
            load.await_more()
            slots, source, destination = self.choose()
            victim = self.primary(source if number % 2 == 0 else destination)
            run = subprocess.Popen([harness.program("kvctl"), "cluster", "move", f"--topology={self.source}",
                                    f"--slots={slots}", f"--to={destination}", "--timeout=20000"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
            self.addCleanup(run.kill)
            # Any step will do: no check depends on which one it is.
            time.sleep(random.random() * 1.5)
            self.servers[victim].kill()
            _, error = run.communicate(timeout=harness.PATIENCE)
            moved += run.returncode == 0
            for shard in SHARDS:
                self.primary(shard)
            self.start_again(victim)
            self.expect_one_owner_each()
            self.assertEqual(load.faults, [], (number, victim, error))
        load.end()
        load.check(self.connect())
        self.assertEqual(load.faults, [])
        self.expect_one_owner_each()
        print(f"{ROUNDS} kills, {moved} moves were done, {sum(load.writes)} writes, {load.reads} reads")


if __name__ == "__main__":
    unittest.main()
