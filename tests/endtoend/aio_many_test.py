"""Calls of remora.aio over many keys, into memory, scans and watches, against a real server."""

import asyncio
import math
import os
import unittest

import harness
from aio_test import aio, in_loop, remora


class AioManyTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server(f"--backup_dir={self.folder}/backups")

    @in_loop
    async def test_get_many(self):
        await asyncio.gather(*(self.store.put(f"key {i}", str(i)) for i in range(200)))
        values = await self.store.get_many(f"key {i}" for i in range(201))
        self.assertEqual(values, [str(i).encode() for i in range(200)] + [None])
        self.assertEqual(await self.store.get_many([]), [])
        for key in ("key", b"key", bytearray(b"key")):
            with self.subTest(key), self.assertRaisesRegex(TypeError, "one key"):
                await self.store.get_many(key)
        for keys in (5, None, ["key", 5], [None]):
            with self.subTest(keys), self.assertRaises(TypeError):
                await self.store.get_many(keys)
        self.assertEqual(await self.store.get_many(["key 1"]), [b"1"])
        cancelled = self.store.get_many(["key 1", "key 2"])
        cancelled.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await cancelled

    @in_loop
    async def test_put_many(self):
        versions = await self.store.put_many((f"key {i}", str(i)) for i in range(200))
        self.assertEqual(versions, sorted(set(versions)))
        self.assertEqual(await self.store.get_versioned("key 199"), (b"199", versions[199]))
        self.assertEqual(await self.store.put_many({}), [])
        mixed = await self.store.put_many(
            [("key 1", b"x"), ("", b"x"), ["new", b"x"]], condition=remora.ABSENT, ttl=60, durability="logged"
        )
        self.assertEqual([type(outcome) for outcome in mixed], [remora.AlreadyExists, remora.InvalidArgument, int])
        self.assertEqual(await self.store.get_versioned("new"), (b"x", mixed[2]))
        self.assertLessEqual(await self.store.ttl("new"), 60)
        self.assertEqual(len(await self.store.put_many({"key 1": "last", "key 2": bytearray(b"x")})), 2)
        # Writes of one key keep their order.
        versions = await self.store.put_many([("key 1", "a"), ("key 1", "b"), ("key 1", "c")])
        self.assertEqual(await self.store.get_versioned("key 1"), (b"c", versions[2]))
        before = await self.store.get_versioned("new")
        for bad in (5, "ab", ["ab"], [{"new", "b"}], [("new", "b", "c")], [("new", 5)], [("new", b""), 5]):
            with self.subTest(bad), self.assertRaises((TypeError, ValueError)):
                await self.store.put_many(bad)
        self.assertEqual(await self.store.get_versioned("new"), before)

    @in_loop
    async def test_get_into(self):
        memory = bytearray(b"-" * 600_000)
        for size in (0, 1, 100, 5000, 500_000):
            value = os.urandom(size)
            await self.store.put("key", value)
            self.assertEqual(await self.store.get_into("key", memory), size)
            self.assertEqual(memory[:size], value)
        before = bytes(memory)
        with self.assertRaisesRegex(remora.OutOfRange, "500000 bytes"):
            await self.store.get_into("key", memoryview(memory)[:100])
        self.assertEqual(memory, before)
        with self.assertRaises(remora.NotFound):
            await self.store.get_into("none", memory)
        for wrong in (b"read only", 5, "text"):
            with self.subTest(wrong), self.assertRaises((TypeError, BufferError)):
                await self.store.get_into("key", wrong)
        memory.clear()  # nobody holds it

    @in_loop
    async def test_a_buffer_is_read_into_and_put_from(self):
        memory = bytearray(b"-" * 600_000)
        buffer = self.store.register(memory)
        self.assertEqual(len(buffer), len(memory))
        for size in (0, 1, 100, 5000, 500_000):
            value = os.urandom(size)
            await self.store.put("key", value)
            self.assertEqual(await self.store.get_into("key", buffer), size)
            self.assertEqual(memory[:size], value)
            memory[:size] = other = os.urandom(size)
            version = await self.store.put_from("other", buffer, size, ttl=60)
            self.assertEqual(await self.store.get_versioned("other"), (other, version))
        await self.store.put("key", os.urandom(600_001))
        with self.assertRaisesRegex(remora.OutOfRange, "600001 bytes"):
            await self.store.get_into("key", buffer)
        with self.assertRaises(remora.NotFound):
            await self.store.get_into("none", buffer)
        with self.assertRaises(remora.AlreadyExists):
            await self.store.put_from("key", buffer, 10, condition=remora.ABSENT)
        for wrong, error in (((memory, 5), TypeError), ((buffer, 600_001), ValueError), ((buffer, -1), ValueError)):
            with self.subTest(wrong[1]), self.assertRaises(error):
                await self.store.put_from("key", *wrong)
        getting = self.store.get_into("other", buffer)
        with self.assertRaisesRegex(RuntimeError, "await them"):
            buffer.release()
        await getting
        with self.assertRaises(BufferError):
            memory.append(1)
        async with aio.Client(self.address) as another:
            with self.assertRaisesRegex(remora.InvalidArgument, "another client"):
                await another.get_into("key", buffer)
        cancelled = self.store.get_into("key", buffer)
        cancelled.cancel()
        while True:  # until the device is done with it
            try:
                buffer.release()
                break
            except RuntimeError:
                await asyncio.sleep(0)
        memory.append(1)
        with self.assertRaisesRegex(RuntimeError, "released"):
            await self.store.get_into("key", buffer)
        with self.assertRaises(BufferError):
            self.store.register(b"read only")
        with self.store.register(memory) as kept:
            self.assertEqual(await self.store.get_into("other", kept), 500_000)
        last = self.store.register(memory)
        getting = self.store.get_into("other", last)
        self.store.close()
        with self.assertRaises(remora.Cancelled):
            await getting
        last.release()
        memory.clear()

    @in_loop
    async def test_large_values(self):
        values = [os.urandom(300_000 + i) for i in range(10)]
        await asyncio.gather(*(self.store.put(f"{i}", value) for i, value in enumerate(values)))
        self.assertEqual(await self.store.get_many(f"{i}" for i in range(10)), values)

    @in_loop
    async def test_scans(self):
        await asyncio.gather(*(self.store.put(f"key {i:04}", str(i)) for i in range(1000)))
        pairs = [(f"key {i:04}".encode(), str(i).encode()) for i in range(1000)]
        self.assertEqual([pair async for pair in self.store.scan()], pairs)
        self.assertEqual([key async for key in self.store.scan(keys_only=True, limit=3)], [k for k, _ in pairs[:3]])
        first, second = self.store.scan(prefix="key 00"), self.store.scan(reverse=True)
        self.assertEqual([await anext(first), await anext(second)], [pairs[0], pairs[-1]])
        token = first.resume_token()
        self.assertEqual((first.version() > 0, first.expiry()), (True, math.inf))
        self.assertEqual([pair async for pair in self.store.scan(resume_token=token)], pairs[1:100])
        self.assertEqual([pair async for pair in first], pairs[1:100])
        self.assertEqual((await self.store.count(prefix="key 00"), await self.store.count()), (100, 1000))
        self.assertEqual(await self.store.delete_range(prefix="key 00"), 100)
        self.assertEqual(await self.store.delete_all(), 900)
        with self.assertRaises(TypeError):
            await anext(self.store.scan(bogus=1))

    @in_loop
    async def test_watches(self):
        watch = await self.store.watch(prefix="key")
        self.assertIsNone(await watch.next(0))
        kept = watch.resume_token()
        seen = []

        async def follow():
            async for change in watch:
                seen.append((change.kind, change.key, change.value))
                if change.key == b"key last":
                    return

        following = asyncio.create_task(follow())
        for i in range(600):
            await self.store.put(f"key {i}", str(i))
        await self.store.delete("key 0")
        await self.store.put("other", "not asked for")
        await self.store.put("key last", "")
        await following
        wanted = [("put", f"key {i}".encode(), str(i).encode()) for i in range(600)]
        wanted += [("delete", b"key 0", None), ("put", b"key last", b"")]
        self.assertEqual(seen, wanted)
        again = await self.store.watch(prefix="key", resume_token=kept)
        self.assertEqual((await again.next()).key, b"key 0")
        self.assertEqual((await (await self.store.watch(resume_token=again.resume_token())).next()).key, b"key 1")
        with self.assertRaises(remora.InvalidArgument):
            await self.store.watch(resume_token="no token")

    @in_loop
    async def test_tokens_and_spans_that_are_none(self):
        with self.assertRaisesRegex(remora.InvalidArgument, "the resume token is empty"):
            await self.store.watch(resume_token="")
        with self.assertRaisesRegex(remora.InvalidArgument, "the resume token is empty"):
            await anext(self.store.scan(resume_token=""))
        watch = await self.store.watch()
        for wrong, kind in ((-1, ValueError), (math.nan, ValueError), (True, TypeError), ("5", TypeError)):
            with self.subTest(wrong), self.assertRaises(kind):
                await watch.next(wrong)
        with self.assertRaises(TypeError):
            await self.store.increment("sum", True)

    @in_loop
    async def test_two_tasks_that_wait_for_one_scan_or_watch(self):
        await asyncio.gather(*(self.store.put(f"key {i:04}", str(i)) for i in range(1000)))
        scan = self.store.scan(keys_only=True)
        first, second = await asyncio.gather(anext(scan), anext(scan), return_exceptions=True)
        self.assertEqual(first, b"key 0000")
        self.assertIsInstance(second, RuntimeError)
        self.assertRegex(str(second), "another task waits for this scan")
        self.assertEqual(len([key async for key in scan]), 999)
        watch = await self.store.watch()
        waiting = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0)
        with self.assertRaisesRegex(RuntimeError, "another task waits for this watch"):
            await watch.next(0)
        await self.store.put("key", "value")
        self.assertEqual((await waiting).key, b"key")
        waiting = asyncio.ensure_future(watch.next())  # one that is cancelled leaves it to others
        await asyncio.sleep(0)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        self.assertIsNone(await watch.next(0))

    @in_loop
    async def test_a_watch_shows_what_expires_while_nothing_is_written(self):
        watch = await self.store.watch()
        await self.store.put("key", "value", ttl=0.001)
        changes = [await watch.next(harness.PATIENCE) for _ in range(2)]
        self.assertEqual([change and change.kind for change in changes], ["put", "delete"])

    @in_loop
    async def test_who_is_cancelled_loses_no_change(self):
        watch = await self.store.watch()
        seen = []
        for i in range(300):
            putting = self.store.put(str(i), "")
            waiting = asyncio.ensure_future(watch.next())
            for _ in range(i % 7):
                await asyncio.sleep(0)
            waiting.cancel()
            try:
                seen.append((await waiting).key)
            except asyncio.CancelledError:
                pass
            await putting
        while len(seen) < 300:
            seen.append((await watch.next()).key)
        self.assertIsNone(await watch.next(0))
        self.assertEqual(seen, [str(i).encode() for i in range(300)])

    @in_loop
    async def test_backups(self):
        await self.store.put("key", "value")
        made = await self.store.backup(5)
        self.assertEqual(await self.store.backup(5), made)

    @in_loop
    async def test_closing_ends_what_is_beside(self):
        watch, scan = await self.store.watch(), self.store.scan()
        waiting = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0)
        self.store.close()
        with self.assertRaises((RuntimeError, remora.Cancelled)):
            await waiting
        with self.assertRaises(RuntimeError):
            await anext(scan)
        with self.assertRaises(RuntimeError):
            await self.store.count()

if __name__ == "__main__":
    unittest.main()
