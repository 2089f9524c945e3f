"""remora.aio.ClusterClient: asyncio over several real servers."""

import asyncio
import contextlib
import math
import os
import pathlib
import signal
import sys
import unittest

import harness
from python_cluster_test import PACKAGE, SHARDS, ClusterTestCase

sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402

OF_ONE_SERVER = {"register", "get_into", "put_from", "ping", "metrics", "backup"}


def in_loop(test):
    """Runs a test in an event loop of its own, with a client."""

    def run(self):
        async def with_client():
            async with aio.ClusterClient(self.topology, timeout=harness.PATIENCE) as self.store:
                await test(self)

        asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

    return run


class AioClusterTest(ClusterTestCase):
    async def keys_of_both(self):
        """Some keys of each shard, without values."""
        with remora.ClusterClient(self.topology) as store:
            for i in range(100):
                store[f"of {i}"] = b""
            keys = []
            for address in self.addresses:
                with remora.Client(address) as server:
                    keys.append(sorted(server))
            store.delete_all()
        return keys

    @in_loop
    async def test_each_call(self):
        for key in (keys[0] for keys in await self.keys_of_both()):
            self.assertIsNone(await self.store.get(key))
            self.assertEqual(await self.store.get(key, 5), 5)
            version = await self.store.put(key, b"1", condition=remora.ABSENT, ttl=60)
            self.assertEqual(await self.store.get_versioned(key), (b"1", version))
            with self.assertRaisesRegex(remora.AlreadyExists, "^(?!shard)"):
                await self.store.put(key, b"2", condition=remora.ABSENT)
            self.assertLessEqual(await self.store.ttl(key), 60)
            await self.store.persist(key)
            self.assertEqual(await self.store.ttl(key), math.inf)
            self.assertEqual(await self.store.increment(key, 41), 42)
            self.assertEqual(await self.store.append(key, b"!"), 3)
            await self.store.touch(key, 60)
            self.assertTrue(await self.store.exists(key))
            self.assertEqual(await self.store.visit(key, bytes), b"42!")
            self.assertEqual((await self.store.visit_versioned(key, len))[0], 3)
            await self.store.delete(key)
            self.assertFalse(await self.store.exists(key))
            with self.assertRaises(remora.NotFound):
                await self.store.visit(key, bytes)
        for bad, kind in (("", remora.InvalidArgument), (5, TypeError), (None, TypeError)):
            with self.assertRaises(kind):
                await self.store.get(bad)

    @in_loop
    async def test_many_keys(self):
        pairs = {b"key %d" % i: b"value %d" % i for i in range(1000)}
        await asyncio.gather(*(self.store.put(key, value) for key, value in pairs.items()))
        self.assertEqual(await self.store.get_many([*pairs, "none"]), [*pairs.values(), None])
        with remora.ClusterClient(self.topology) as blocking:
            self.assertEqual(dict(blocking.items()), pairs)
        self.assertEqual([pair async for pair in self.store.scan()], sorted(pairs.items()))
        self.assertEqual([key async for key in self.store.scan(keys_only=True, limit=2)], sorted(pairs)[:2])
        self.assertEqual((await self.store.count(), await self.store.count(prefix="key 99")), (1000, 11))
        self.assertEqual(await self.store.delete_range(prefix="key 99"), 11)
        self.assertEqual(await self.store.delete_all(), 989)

    @in_loop
    async def test_batches(self):
        batch = remora.Batch()
        await self.store.apply(batch)
        batch.put("user:{42}:name", b"Ada")
        batch.put("user:{42}:changes", b"1")
        version = await self.store.apply(batch)
        self.assertEqual(await self.store.get_versioned("user:{42}:changes"), (b"1", version + 1))
        batch.put("user:{43}:name", b"Bob")
        with self.assertRaisesRegex(remora.InvalidArgument, "different slots"):
            await self.store.apply(batch)
        self.assertIsNone(await self.store.get("user:{43}:name"))
        with self.assertRaises(TypeError):
            await self.store.apply({"a": "b"})

    @in_loop
    async def test_watches(self):
        watch = await self.store.watch(prefix="key")
        await asyncio.gather(*(self.store.put(f"key {i}", str(i)) for i in range(20)))
        seen = {}
        while len(seen) < 20:
            change = await watch.next()
            seen[change.key] = change.value
        self.assertEqual(seen, {f"key {i}".encode(): str(i).encode() for i in range(20)})
        again = await self.store.watch(resume_token=watch.resume_token())
        await self.store.put("last", b"")
        self.assertEqual((await again.next()).key, b"last")

    def test_calls_of_one_server_are_those_of_its_client(self):
        def public(kind):
            return {name for name in dir(kind) if not name.startswith("_")}

        self.assertEqual(public(aio.Client) - public(aio.ClusterClient), OF_ONE_SERVER)
        self.assertEqual(public(aio.ClusterClient) - public(aio.Client), set())

    @in_loop
    async def test_a_shard_that_goes_concerns_its_keys_alone(self):
        here, there = await self.keys_of_both()
        await asyncio.gather(*(self.store.put(key, b"a") for key in here + there))
        async with aio.ClusterClient(self.topology, timeout=harness.PATIENCE, reconnect=False) as store:
            self.servers[1].kill()
            self.assertEqual(await store.get(here[0]), b"a")
            with self.assertRaisesRegex(remora.Unavailable, rf"shard 1 \({self.addresses[1]}\)"):
                await store.get(there[0])
            with self.assertRaisesRegex(remora.Unavailable, "shard 1") as raised:
                await store.get_many([here[0], there[0], here[1]])
            kinds = [type(outcome) for outcome in raised.exception.outcomes]
            self.assertEqual(kinds, [bytes, remora.Unavailable, bytes])
            with self.assertRaisesRegex(remora.Unavailable, "shard 1") as raised:
                await store.put_many([(here[0], b"a"), (there[0], b"a"), (here[1], b"a")])
            kinds = [type(outcome) for outcome in raised.exception.outcomes]
            self.assertEqual(kinds, [int, remora.Unavailable, int])
            with self.assertRaisesRegex(remora.Unavailable, "shard 1"):
                await store.count()
            self.start(1)
        self.assertEqual(await self.store.get(there[0]), b"a")

    @in_loop
    async def test_a_shard_that_comes_later(self):
        here, there = await self.keys_of_both()
        self.servers[1].kill()
        async with aio.ClusterClient(self.topology, timeout=harness.PATIENCE) as store:
            await store.put(here[0], b"a")
            failed = await asyncio.gather(*(store.put(key, b"b") for key in there[:5]), return_exceptions=True)
            self.assertEqual([type(error) for error in failed], [remora.Unavailable] * 5)
            self.assertRegex(str(failed[0]), rf"shard 1 \({self.addresses[1]}\)")
            self.assertEqual(len(set(map(id, failed))), 5)
            self.start(1)
            # Those that begin without a connection keep their order, also with those that begin behind them.
            sums = [store.increment(there[0]) for _ in range(5)]
            self.assertEqual(await sums[0], 1)
            sums += [store.increment(there[0]) for _ in range(5)]
            self.assertEqual(await asyncio.gather(*sums[1:]), list(range(2, 11)))
            self.assertEqual(await store.get_many([here[0], there[0]]), [b"a", b"10"])

    @in_loop
    async def test_closing_ends_what_waits(self):
        here, there = await self.keys_of_both()
        self.servers[1].kill()
        store = await aio.ClusterClient(self.topology, timeout=harness.PATIENCE).connect()
        waiting = [store.put(there[0], b"b"), store.get(there[1]), store.get(here[0])]
        cancelled = store.get(there[0])
        await asyncio.sleep(0)
        cancelled.cancel()
        store.close()
        store.close()
        for ended in await asyncio.gather(*waiting, return_exceptions=True):
            self.assertIsInstance(ended, remora.Cancelled)
        with self.assertRaises(asyncio.CancelledError):
            await cancelled
        for call in (lambda: store.get(here[0]), store.count, store.scan):
            with self.assertRaisesRegex(RuntimeError, "not connected"):
                made = call()
                if asyncio.iscoroutine(made):
                    await made
        await store.connect()
        self.assertIsNone(await store.get(here[0]))
        with self.assertRaisesRegex(RuntimeError, "already"):
            await store.connect()
        store.close()

    @in_loop
    async def test_a_server_that_hangs_does_not_hold_up_the_others(self):
        here, there = await self.keys_of_both()
        process = self.servers[1].process
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)

        def is_stopped():
            threads = pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")
            return all(thread.read_text().rsplit(")", 1)[1].split()[0] == "T" for thread in threads)

        harness.wait_until(is_stopped, "the server has stopped")
        waiting = self.store.put(there[0], b"b")
        for i in range(100):
            await self.store.put(here[0], b"%d" % i)
        self.assertFalse(waiting.done())
        process.send_signal(signal.SIGCONT)
        await waiting
        self.assertEqual(await self.store.get_many([here[0], there[0]]), [b"99", b"b"])

    @in_loop
    async def test_a_buffer_that_a_visit_leaves(self):
        here, there = await self.keys_of_both()
        await asyncio.gather(self.store.put(here[0], b"0123456789"), self.store.put(there[0], b"other"))
        self.assertEqual(await self.store.get(here[0]), b"0123456789")
        kept = []
        with self.assertRaisesRegex(BufferError, "held"):
            await self.store.visit(here[0], lambda view: kept.append(memoryview(view)))
        if os.environ.get("REMORA_TRANSPORT", "local") == "local":
            self.assertEqual(bytes(kept[0]), bytes(10))
            with self.assertRaisesRegex(RuntimeError, "not connected"):
                self.store.get(there[0])
        kept.pop().release()

    @in_loop
    async def test_a_forked_child(self):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(RuntimeError):
                self.store.get("key")
                os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNone(await self.store.get("key"))


class ConnectTest(ClusterTestCase):
    def connect(self, topology=None, **options):
        async def connect():
            async with aio.ClusterClient(topology or self.topology, **options) as store:
                await store.put("key", b"value")
                return await store.get("key")

        return asyncio.run(asyncio.wait_for(connect(), harness.PATIENCE))

    def test_kinds_of_paths(self):
        for topology in (self.topology, str(self.topology), os.fsencode(self.topology)):
            self.assertEqual(self.connect(topology, depth=1, reconnect=False), b"value")

    def test_what_cannot_be(self):
        none = self.folder / "none"
        with self.assertRaisesRegex(remora.NotFound, str(none)):
            self.connect(none)
        for bad, kind in ((5, TypeError), ("a\0b", ValueError), (self.folder, remora.InvalidArgument)):
            with self.assertRaises(kind):
                self.connect(bad)
        for bad in ({"timeout": 0}, {"location_cache_bytes": -1}, {"depth": 0}):
            with self.assertRaises((ValueError, OverflowError)):
                self.connect(**bad)
        with self.assertRaisesRegex(remora.InvalidArgument, "/bad:1: "):
            self.connect(self.write("bad", "no topology\n"))

    def test_servers_of_other_shards(self):
        text = self.topology.read_text()
        for old, new in zip(self.addresses, reversed(self.addresses)):
            text = text.replace(f" {old}\n", f" <{new}>\n")
        swapped = self.write("swapped", text.replace("<", "").replace(">", ""))
        with self.assertRaisesRegex(remora.FailedPrecondition, "shard 0 .*the server there is shard 1"):
            self.connect(swapped)

    def test_two_shards_of_one_server(self):
        for server in self.servers:
            server.stop()
        second = self.new_address("second")
        server = harness.Server(
            f"--listen={self.addresses[0]}", f"--listen={second}", "--durability=memory", "--memory=64M"
        )
        self.addCleanup(server.close)
        same = f"remora-topology 1\nshard a 0-8191 {self.addresses[0]}\nshard b 8192-16383 {second}\n"
        with self.assertRaisesRegex(remora.FailedPrecondition, "the server there is that of shard"):
            self.connect(self.write("same", same))

    def test_no_server_at_all(self):
        for server in self.servers:
            server.kill()
        with self.assertRaisesRegex(remora.Unavailable, "shard 0"):
            self.connect()

    def test_a_token(self):
        made = self.make_token("reader", "read-only")
        tokens = self.write("tokens", made)
        for server in self.servers:
            server.stop()
        for shard in range(SHARDS):
            server = harness.Server(
                f"--listen={self.addresses[shard]}", "--durability=memory", "--memory=64M", f"--tokens={tokens}",
                f"--shard={self.cluster_id}/{shard}",
            )  # fmt: skip
            self.addCleanup(server.close)
        with self.assertRaisesRegex(remora.PermissionDenied, "shard 0"):
            self.connect()
        with self.assertRaisesRegex(remora.PermissionDenied, "shard"):
            self.connect(token=made)  # which may not write


if __name__ == "__main__":
    unittest.main()
