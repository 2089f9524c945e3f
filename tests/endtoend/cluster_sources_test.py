"""kvgate and remora.aio that know shards which fail over by cluster://HOST:PORT,...: with a real etcd, while slots move and
members are killed and replaced."""

import asyncio
import re
import select
import subprocess
import unittest

import harness
import redis_pair
from cluster_load import LOST, remora
from etcd_slots_test import EX_UNAVAILABLE, EX_USAGE, HALF, key_of
from shard_moves_test import ShardMovesCase

from remora import aio  # noqa: E402

EX_CANTCREAT = 73
ROUNDS = 20


class SourcesCase(ShardMovesCase):
    def replace_members(self, shard):
        """Gives a shard another member, and kills the others: all addresses of the start are gone."""
        name = shard + "c"
        self.addresses[name] = self.new_address(name)
        run = harness.kvctl(None, "cluster", "add", f"--etcd={self.etcd.url}", f"--shard={self.cluster}/{shard}",
                            f"--member={name}", f"--address={self.addresses[name]}")  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        self.start(name)
        self.await_in_sync(shard, 3)
        other = self.addresses[self.primary("1" if shard == "0" else "0")]
        harness.wait_until(lambda: self.addresses[name] in self.kvctl("cluster", "topology", source=f"cluster://{other}")[1],
                           "the servers of the other shard tell of the member")  # fmt: skip
        for member in ("a", "b"):
            self.servers[shard + member].kill()
        self.assertEqual(self.primary(shard), name)


class GateTest(SourcesCase):
    def gate(self, *flags, source=None, timeout=30_000):
        self.path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{self.path}", f"--topology={source or self.source}",
                               f"--timeout={timeout}", *flags)  # fmt: skip
        self.addCleanup(gate.close)
        return gate

    def wire(self):
        wire = redis_pair.Wire(self.path)
        self.addCleanup(wire.close)
        return wire

    def try_until(self, wire, reply, *words):
        """Repeats a command that changes nothing if it is done twice, while its server is gone."""
        replies = []

        def is_done():
            replies.append(wire.call(*words))
            if replies[-1] != reply:
                self.assertRegex(replies[-1], rb"^-ERR shard ")
            return replies[-1] == reply

        harness.wait_until(is_done, f"{words} is done")

    def test_commands_go_on_while_slots_move(self):
        self.start_all()
        self.gate("--threads=2")
        wires = [self.wire() for _ in range(2)]
        keys = [f"count {i}" for i in range(40)]
        for turn in range(ROUNDS):
            move = None
            if turn % 5 == 0:
                slots, to = ("0-3000", "1") if turn % 10 == 0 else ("0-3000", "0")
                move = subprocess.Popen([harness.program("kvctl"), "cluster", "move", f"--topology={self.source}", f"--slots={slots}",
                                         f"--to={to}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
                self.addCleanup(move.kill)
            sums = 0
            while move is not None and move.poll() is None or sums == 0:
                for wire in wires:
                    wire.send(b"".join(redis_pair.request("INCR", key) for key in keys))
                    for key in keys:
                        reply = wire.reply()
                        self.assertRegex(reply, rb"^:\d+\r\n$", key)
                        self.counts[key] = self.counts.get(key, 0) + 1
                        self.assertEqual(int(reply[1:]), self.counts[key], key)
                sums += 1
            if move is not None:
                self.assertEqual(move.wait(), 0, move.stderr.read())
                move.stderr.close()
        store = self.connect()
        self.assertEqual({key: int(store[key]) for key in keys}, self.counts)
        self.expect_one_owner_each()

    def test_commands_go_on_with_the_next_primary_and_with_members_that_came_later(self):
        self.start_all()
        gate = self.gate(timeout=5_000)
        wire = self.wire()
        key, other = key_of("0"), key_of("1")
        self.assertEqual(wire.call("SET", key, 1), b"+OK\r\n")
        killed = self.primary("0")
        self.servers[killed].kill()
        self.try_until(wire, b"+OK\r\n", "SET", key, 2)
        self.start_again(killed)
        self.replace_members("0")
        self.try_until(wire, b"$1\r\n2\r\n", "GET", key)
        self.try_until(wire, b"+OK\r\n", "SET", key, 3)
        self.assertEqual(wire.call("SET", other, 4), b"+OK\r\n")
        # Slots leave a shard whose addresses the gate did not know at its start.
        self.move("0-8190", "1")
        self.assertEqual(wire.call("GET", key), b"$1\r\n3\r\n")
        self.assertEqual(wire.call("SET", key, 5), b"+OK\r\n")
        self.assertEqual(harness.kvctl(self.list_of("1"), "get", key).stdout.strip(), b"5")
        # Calls for all keys have a client of their own.
        self.assertEqual(wire.call("DBSIZE"), b":2\r\n")
        self.assertEqual(gate.stop()[0], 0)

    def test_notifications_come_from_members_that_came_later(self):
        self.start_all()
        self.gate("--notify_keyspace_events=KA")
        key = key_of("0")
        listener = self.wire()
        listener.call("PSUBSCRIBE", "__keyspace@0__:*")
        self.replace_members("0")
        store = self.connect(f"cluster://{self.addresses['0c']}")
        numbers = iter(range(1_000_000))

        # The watch of the shard begins anew; writes before that are not shown.
        def is_shown():
            store[key] = b"%d" % next(numbers)
            readable, _, _ = select.select([listener.socket], [], [], 0.5)
            return bool(readable) and b"pmessage" in listener.reply()

        harness.wait_until(is_shown, "a notification comes")

    def test_faults_say_what_is_wrong(self):
        def fails(source, *flags):
            run = subprocess.run([harness.program("kvgate"), f"--listen=redis://{self.folder}/gate.sock", f"--topology={source}",
                                  "--timeout=2000", *flags], stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE)  # fmt: skip
            return run.returncode, run.stderr.decode()

        for source in ("cluster://", "cluster://host", "cluster://x:1,,y:2"):
            code, error = fails(source)
            self.assertEqual(code, EX_USAGE, error)
            self.assertIn("cluster://", error)
        gone = self.new_address("gone")
        code, error = fails(f"cluster://{gone}")
        self.assertEqual(code, EX_UNAVAILABLE, error)
        self.assertIn(f"topology of {gone}", error)
        address = self.new_address("alone")
        alone = harness.Server(f"--listen={address}", "--memory=32M", "--durability=memory")
        self.addCleanup(alone.close)
        code, error = fails(f"cluster://{address}")
        self.assertEqual(code, EX_CANTCREAT, error)
        code, error = fails(self.source, "--server=" + gone)
        self.assertEqual(code, EX_USAGE)
        self.assertIn("--topology names the servers already", error)

    def setUp(self):
        super().setUp()
        self.counts = {}


class AioTest(SourcesCase):
    def run_with(self, test, timeout=30, source=None):
        async def with_client():
            async with aio.ClusterClient(source or self.source, timeout=timeout) as store:
                await test(store)

        asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

    def test_operations_go_on_while_slots_move(self):
        self.start_all()
        keys = [f"count {i}" for i in range(40)]

        async def test(store):
            counts = dict.fromkeys(keys, 0)
            for slots, to in (("0-3000", "1"), ("0-3000", "0"), ("9000-12000", "0")):
                move = asyncio.ensure_future(asyncio.to_thread(self.move, slots, to))
                while True:
                    is_last = move.done()
                    for key, count in zip(keys, await asyncio.gather(*(store.increment(key) for key in keys)), strict=True):
                        counts[key] += 1
                        self.assertEqual(count, counts[key], key)
                    if is_last:
                        break
                await move
            self.assertEqual({key: int(await store.get(key)) for key in keys}, counts)
            self.assertEqual({key.decode(): int(value) async for key, value in store.scan(prefix="count ")}, counts)

        self.run_with(test)
        self.expect_one_owner_each()

    def test_operations_go_on_with_members_that_came_later(self):
        self.start_all()
        key = key_of("0")

        async def until(step):
            while True:
                try:
                    return await step()
                except LOST:
                    await asyncio.sleep(0.05)

        async def test(store):
            await store.put(key, "1")
            killed = await asyncio.to_thread(self.primary, "0")
            await asyncio.to_thread(self.servers[killed].kill)
            await until(lambda: store.put(key, "2"))
            await asyncio.to_thread(self.start_again, killed)
            await asyncio.to_thread(self.replace_members, "0")
            self.assertEqual(await until(lambda: store.get(key)), b"2")
            await until(lambda: store.put(key, "3"))
            await asyncio.to_thread(self.move, "0-8190", "1")
            self.assertEqual(await store.get(key), b"3")
            await store.put(key, "4")
            self.assertEqual(await store.count(), 1)

        self.run_with(test, timeout=5)

    def test_faults_say_what_is_wrong(self):
        async def connect(source):
            async with aio.ClusterClient(source, connect_timeout=2):
                self.fail("it is connected")

        for source in ("cluster://", "cluster://host", "cluster://x:1,,y:2"):
            with self.assertRaisesRegex(remora.InvalidArgument, "cluster://"):
                asyncio.run(connect(source))
        gone = self.new_address("gone")
        with self.assertRaisesRegex(remora.Error, "topology of " + re.escape(gone)):
            asyncio.run(connect(f"cluster://{gone}"))


if __name__ == "__main__":
    unittest.main()
