"""Moves of slots between the servers of kvserver --shards, under clients that read and write meanwhile."""

import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import harness
from cluster_load import Load, begin_slow_move

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora._remora import Topology  # noqa: E402

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "5"))
SHARDS = harness.ShardsTestCase.SHARDS
SLOTS = 16384
EX_USAGE, EX_DATAERR, EX_UNAVAILABLE, EX_TEMPFAIL, EX_CONFIG = 64, 65, 69, 75, 78


class SlotMovesTestCase(harness.ShardsTestCase):
    def start_in_memory(self, *flags):
        self.topology = self.folder / "topology"
        server = harness.Server(f"--shards={SHARDS}", f"--listen={self.address}", "--durability=memory", "--memory=192M",
                                f"--topology={self.topology}", *flags)  # fmt: skip
        self.addCleanup(server.close)
        return server

    def connect(self):
        store = remora.ClusterClient(self.topology, timeout=30)
        self.addCleanup(store.close)
        return store

    def cluster(self, action, *arguments, **options):
        run = harness.kvctl(None, "cluster", action, f"--topology={self.topology}", *arguments, **options)
        return run.returncode, run.stdout.decode(), run.stderr.decode()

    def move(self, slots, to, *arguments):
        code, said, error = self.cluster("move", f"--slots={slots}", f"--to={to}", *arguments)
        self.assertEqual((code, error), (0, ""), said)
        return said

    def owners(self):
        """Returns the slots of each shard, as the file says."""
        found = {}
        for name, ranges in re.findall(r"^shard (\w+) (\S+) ", self.topology.read_text(), re.MULTILINE):
            found[int(name)] = set()
            for one in ranges.split(","):
                first, _, last = one.partition("-")
                found[int(name)].update(range(int(first), int(last or first) + 1))
        return found

    def expect_one_owner_each(self):
        owners = self.owners()
        self.assertEqual(sum(len(slots) for slots in owners.values()), SLOTS)
        self.assertEqual(set().union(*owners.values()), set(range(SLOTS)))
        code, said, error = self.cluster("status")
        self.assertEqual((code, error), (0, ""), said)

    def leftovers(self):
        return [path.name for path in self.topology.parent.iterdir() if ".copy-" in path.name]


class MoveTest(SlotMovesTestCase):
    def expect_moves(self, store):
        keys = {b"key %d" % i: b"value %d" % i for i in range(3000)}
        store.put_many(list(keys.items()))
        store.put("with ttl", "1", ttl=3600)
        before = store.count()
        said = self.move("0-2000", "1")
        self.assertRegex(said, r"^2001 slots have moved; each took no writes for [0-9.]+ ms at most\n$")
        self.assertEqual({key: store[key] for key in keys}, keys)
        self.assertEqual(store.count(), before)
        self.assertEqual({key: value for key, value in store.scan(any_order=True) if key in keys}, keys)
        self.assertGreater(store.ttl("with ttl"), 3000)
        self.move("1000-3000,9000", self.address_of(2))
        self.assertEqual(store.get_many(list(keys)), list(keys.values()))
        for key in keys:
            store[key] = b"next"
        self.assertEqual(set(store.get_many(list(keys))), {b"next"})
        self.expect_one_owner_each()
        self.assertEqual(self.leftovers(), [])

    def test_records_move_and_clients_go_on(self):
        server = self.start()
        store = self.connect()
        self.expect_moves(store)
        owners = self.owners()
        self.assertEqual(server.stop()[0], 0)
        server = self.start()
        self.assertEqual(self.owners(), owners)
        self.expect_one_owner_each()
        with remora.ClusterClient(self.topology) as again:
            self.assertEqual(set(again.get_many([b"key %d" % i for i in range(3000)])), {b"next"})
        self.assertEqual(server.stop()[0], 0)

    def test_in_memory_alone(self):
        self.start_in_memory()
        self.expect_moves(self.connect())

    def test_synced(self):
        flags = [flag for flag in self.flags() if not flag.startswith("--durability")]
        self.addCleanup(harness.Server(*flags, "--durability=synced").close)
        self.expect_moves(self.connect())

    def test_addresses_may_change_behind_a_move(self):
        self.start().stop()
        server = self.start()
        self.move("0-99", "2")
        owners = self.owners()
        self.assertEqual(server.stop()[0], 0)
        server = self.start(address=f"local://{self.folder}/other")
        self.assertEqual(self.owners(), owners)
        self.expect_one_owner_each()

    def test_rebalance(self):
        self.start()
        store = self.connect()
        for i in range(1000):
            store[f"key {i}"] = f"{i}"
        self.move("100-8000", "2")
        code, said, _ = self.cluster("rebalance")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"^move \d+ slots \(.*\) from shard 2 to shard [01]\n")
        self.assertTrue(said.endswith("nothing was moved; --yes does it\n"), said)
        code, said, error = self.cluster("rebalance", "--yes", "--rate=64M")
        self.assertEqual((code, error), (0, ""), said)
        self.assertLessEqual({len(slots) for slots in self.owners().values()}, {SLOTS // SHARDS, SLOTS // SHARDS + 1})
        self.assertEqual(store.get_many([f"key {i}" for i in range(1000)]), [b"%d" % i for i in range(1000)])
        self.assertEqual(self.cluster("rebalance")[:2], (0, "the slots are in balance\n"))
        self.expect_one_owner_each()

    def test_a_scan_over_a_move_misses_nothing_in_silence(self):
        self.start()
        store = self.connect()
        keys = {b"key %05d" % i for i in range(4000)}
        store.put_many([(key, b"1") for key in keys])
        for options in ({}, {"any_order": True}):
            scan = iter(store.scan(**options))
            shown = [next(scan)]
            self.move("0-3000", "1")
            self.move("0-3000", "0")
            with self.assertRaisesRegex(remora.Error, "begin a new scan|begin anew"):
                shown.extend(scan)
        self.assertEqual({key for key, _ in store.items()}, keys)

    def test_one_sided_scans_over_moves(self):
        self.start_in_memory("--ordered=memory")
        store = self.connect()
        keys = [b"key %05d" % i for i in range(4000)]
        store.put_many([(key, b"1") for key in keys])
        scan = store.scan(one_sided=True, keys_only=True)
        shown = [next(scan)]
        self.move("0-3000", "1")
        self.move("0-3000", "0")
        with self.assertRaisesRegex(remora.Error, "begin a new scan|begin anew"):
            shown.extend(scan)
        self.assertEqual(list(store.scan(one_sided=True, keys_only=True)), keys)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            moves = beside.submit(lambda: [self.move("0-3000", str(1 - turn % 2)) for turn in range(6)])
            while not moves.done():
                with contextlib.suppress(remora.FailedPrecondition):
                    self.assertEqual(list(store.scan(one_sided=True, keys_only=True)), keys)
            moves.result()
        self.assertEqual(list(store.scan(one_sided=True, keys_only=True)), keys)


class BadInputTest(SlotMovesTestCase):
    def expect_rejected(self, code, why, action, *arguments):
        got, said, error = self.cluster(action, *arguments)
        self.assertEqual(got, code, error)
        self.assertEqual(said, "")
        self.assertRegex(error, why)

    def test_flags_that_make_no_sense(self):
        self.start()
        before = self.topology.read_text()
        self.expect_rejected(EX_USAGE, "--slots", "move", "--to=1")
        self.expect_rejected(EX_USAGE, "--to", "move", "--slots=0-9")
        self.expect_rejected(EX_USAGE, "no set of slots", "move", "--slots=9-0", "--to=1")
        self.expect_rejected(EX_USAGE, "no set of slots", "move", "--slots=16384", "--to=1")
        self.expect_rejected(EX_USAGE, "has no shard '7'", "move", "--slots=0-9", "--to=7")
        self.expect_rejected(EX_USAGE, "has no shard", "move", "--slots=0-9", "--to=local:///nowhere")
        self.expect_rejected(EX_USAGE, "--slots", "rebalance", "--slots=0-9")
        self.expect_rejected(EX_USAGE, "--yes", "move", "--slots=0-9", "--to=1", "--yes")
        self.assertEqual(self.cluster("move", "--slots=5461-5470", "--to=1")[:2], (0, "the shard has these slots already\n"))
        code, _, error = self.cluster("move", "--slots=0-5460", "--to=1")
        self.assertNotEqual(code, 0)
        self.assertIn("would have no slot left", error)
        run = harness.kvctl(None, "cluster", "move", "--slots=0-9", "--to=1")
        self.assertEqual(run.returncode, EX_USAGE)
        self.assertIn(b"--topology", run.stderr)
        self.assertEqual(re.sub(r"# revision \d+\n", "", self.topology.read_text()).split()[0:3], before.split()[0:3])
        self.expect_one_owner_each()

    def test_a_server_whose_slots_do_not_move(self):
        server = harness.Server(f"--listen={self.address}", f"--data_dir={self.data}", "--memory=64M")
        self.addCleanup(server.close)
        other = harness.Server(f"--listen={self.address}.b", f"--data_dir={self.data}b", "--memory=64M")
        self.addCleanup(other.close)
        run = harness.kvctl(None, "cluster", "init", self.address, f"{self.address}.b")
        self.topology = self.folder / "topology"
        self.topology.write_bytes(re.sub(rb"remora-topology 2", rb"remora-topology 1", re.sub(rb"cluster .*\n", b"", run.stdout)))
        self.expect_rejected(EX_CONFIG, "none of kvserver --shards", "move", "--slots=0-9", "--to=1")

    def test_a_destination_that_is_down(self):
        server = self.start()
        children = self.children(server)
        os.kill(children[1], signal.SIGSTOP)
        self.addCleanup(os.kill, children[1], signal.SIGCONT)
        got, _, error = self.cluster("move", "--slots=0-9", "--to=1", "--timeout=1000")
        self.assertEqual(got, EX_UNAVAILABLE, error)
        self.assertIn("shard 1", error)
        with remora.ClusterClient(self.topology, timeout=30) as store:
            key = next(f"key{i}" for i in range(100000) if Topology.slot_of(f"key{i}") < 10)
            store[key] = "1"
            self.assertEqual(store[key], b"1")
        self.assertEqual(self.topology.read_text().count("revision"), 0)

    def test_two_moves_at_once(self):
        self.start()
        store = self.connect()
        store.put_many([(f"key {i}", b"v" * 1000) for i in range(3000)])
        slow = begin_slow_move(self, self.topology, "50K")
        self.expect_rejected(EX_UNAVAILABLE, "another move is in progress", "move", "--slots=4000-4100", "--to=2")
        self.expect_rejected(EX_UNAVAILABLE, "another move is in progress", "move", "--slots=12000-12100", "--to=0")
        slow.kill()
        slow.communicate()
        # The servers end the move by themselves.
        harness.wait_until(lambda: self.cluster("move", "--slots=4000-4100", "--to=2")[0] == 0, "the next one is taken")
        self.expect_one_owner_each()


class LoadTest(SlotMovesTestCase):
    def choose(self):
        """Returns some slots of a shard, and another shard."""
        owners = self.owners()
        source = random.choice([shard for shard, slots in owners.items() if len(slots) > 100])
        destination = random.choice([shard for shard in range(SHARDS) if shard != source])
        slots = sorted(owners[source])
        first = random.randrange(len(slots) - 50)
        chosen = slots[first : first + random.randrange(1, min(3000, len(slots) - first))]
        return ",".join(map(str, chosen)) if len(chosen) < 200 else f"{chosen[0]}-{chosen[-1]}", source, destination

    def test_no_move_loses_a_write_or_shows_an_old_value(self):
        self.start()
        load = Load(self.topology)
        self.addCleanup(load.end)
        for _ in range(ROUNDS):
            slots, _, destination = self.choose()
            self.cluster("move", f"--slots={slots}", f"--to={destination}")
        load.end()
        self.assertEqual(load.faults, [])
        load.check(self.connect())
        self.assertEqual(load.faults, [])
        self.expect_one_owner_each()
        print(f"{ROUNDS} moves, {sum(load.writes)} writes, {load.reads} reads, the longest write took {load.longest * 1000:.1f} ms")

    def test_kills_lose_no_write_and_show_no_old_value(self):
        server = self.start()
        load = Load(self.topology)
        self.addCleanup(load.end)
        killed = moved = 0
        for number in range(ROUNDS):
            slots, source, destination = self.choose()
            run = subprocess.Popen([harness.program("kvctl"), "cluster", "move", f"--topology={self.topology}",
                                    f"--slots={slots}", f"--to={destination}", "--timeout=10000"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
            time.sleep(random.random() * 0.08)
            victim = ["source", "destination", "kvctl"][number % 3]
            if victim == "kvctl":
                run.kill()
            else:
                child = self.children(server).get(source if victim == "source" else destination)
                if child is not None:
                    os.kill(child, signal.SIGKILL)
            killed += 1
            _, error = run.communicate(timeout=harness.PATIENCE)
            moved += run.returncode == 0
            harness.wait_until(lambda: self.cluster("status")[0] == 0, f"all serve after {victim} was killed: {error}")
            self.expect_one_owner_each()
            self.assertEqual(load.faults, [], (number, victim))
        load.end()
        load.check(self.connect())
        self.assertEqual(load.faults, [])
        print(f"{killed} kills, {moved} moves were done, {sum(load.writes)} writes, {load.reads} reads")


if __name__ == "__main__":
    unittest.main()
