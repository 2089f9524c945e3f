"""remora.aio against a real server."""

import asyncio
import math
import os
import pathlib
import signal
import sys
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402


def in_loop(test):
    """Runs a test in an event loop of its own, with a client."""

    def run(self):
        async def with_client():
            async with aio.Client(self.address) as self.store:
                await test(self)

        asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

    return run


class AioTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.memory_server()

    def test_a_token(self):
        made, stranger = self.make_token("reader", "read-only"), self.make_token("reader")
        address = self.new_address("other")
        self.memory_server(f"--tokens={self.write('tokens', made)}", address=address)

        async def test():
            for token in (made, made.split()[2]):
                async with aio.Client(address, token=token) as store:
                    self.assertIsNone(await store.get("none"))
                    self.assertEqual(await store.count(), 0)  # over the other connection
                    with self.assertRaisesRegex(remora.PermissionDenied, "for reading alone"):
                        await store.put("key", "value")
            for token, error, why in (
                (None, remora.PermissionDenied, "has none"),
                (stranger, remora.PermissionDenied, "does not accept"),
                ("short", remora.InvalidArgument, ""),
            ):
                with self.subTest(why), self.assertRaisesRegex(error, why):
                    await aio.Client(address, token=token).connect()

        asyncio.run(asyncio.wait_for(test(), harness.PATIENCE))

    @in_loop
    async def test_every_operation(self):
        store = self.store
        self.assertIsNone(await store.get("key"))
        self.assertEqual(await store.get("key", 5), 5)
        version = await store.put("key", "value")
        self.assertEqual(await store.get("key"), b"value")
        self.assertEqual(await store.get_versioned("key"), (b"value", version))
        self.assertEqual((await store.exists("key"), await store.exists("none")), (True, False))
        self.assertEqual(await store.ttl("key"), math.inf)
        await store.touch("key", 60)
        self.assertTrue(0 < await store.ttl("key") <= 60)
        await store.persist("key")
        self.assertEqual(await store.ttl("key"), math.inf)
        self.assertEqual(await store.increment("n"), 1)
        self.assertEqual(await store.increment("n", -3, ttl=60), -2)
        self.assertEqual(await store.append("n", bytearray(b"0")), 3)
        self.assertGreater(await store.delete("n"), version)
        batch = remora.Batch()
        batch.put("a", b"1")
        batch.put("b", b"2")
        version = await store.apply(batch, durability="memory")
        self.assertEqual(await store.get_versioned("b"), (b"2", version + 1))
        self.assertIsNone(await store.ping())

    @in_loop
    async def test_failures_are_those_of_the_client(self):
        store = self.store
        for missing in (store.get_versioned("n"), store.ttl("n"), store.delete("n"), store.touch("n", 1)):
            with self.assertRaisesRegex(remora.NotFound, "no such key"):
                await missing
        await store.put("key", b"a", condition=remora.ABSENT)
        with self.assertRaises(remora.AlreadyExists):
            await store.put("key", b"b", condition=remora.ABSENT)
        with self.assertRaises(remora.InvalidArgument):
            await store.put("key", b"b", durability="synced")
        with self.assertRaises(remora.FailedPrecondition):
            await store.increment("key")
        for wrong, kind in (
            (lambda: store.get(""), ValueError),
            (lambda: store.get(5), TypeError),
            (lambda: store.put("key", 5), TypeError),
            (lambda: store.put("key", b"", ttl=0), ValueError),
            (lambda: store.put("key", b"", durability="fast"), ValueError),
            (lambda: store.put("key", bytes((64 << 20) + 1)), ValueError),
            (lambda: store.increment("n", 1 << 63), OverflowError),
            (lambda: store.apply([]), TypeError),
        ):
            with self.assertRaises(kind):
                wrong()
        self.assertEqual(await store.get("key"), b"a")

    @in_loop
    async def test_many_in_flight_begin_in_order(self):
        sums = await asyncio.gather(*(self.store.increment("n") for _ in range(1000)))
        self.assertEqual(sums, list(range(1, 1001)))
        await asyncio.gather(*(self.store.put(f"key {i}", str(i)) for i in range(1000)))
        values = await asyncio.gather(*(self.store.get(f"key {i}") for i in range(2000)))
        self.assertEqual(values, [str(i).encode() if i < 1000 else None for i in range(2000)])

    @in_loop
    async def test_tasks_share_a_client(self):
        async def transfer(number):
            for _ in range(20):
                value, version = await self.store.get_versioned("sum")
                try:
                    await self.store.put("sum", str(int(value) + number), condition=version)
                except remora.FailedPrecondition:
                    continue
                return number
            return 0

        await self.store.put("sum", "0")
        added = await asyncio.gather(*(asyncio.create_task(transfer(i)) for i in range(20)))
        self.assertGreater(sum(added), 0)
        self.assertEqual(int(await self.store.get("sum")), sum(added))

    @in_loop
    async def test_a_batch_is_applied_as_it_was(self):
        """Also one that waits for its turn while its program fills it anew."""
        batch, applied = remora.Batch(), []
        async with aio.Client(self.address, depth=4) as store:
            for i in range(100):
                batch.clear()
                batch.put(f"account/{i}", b"1")
                applied.append(store.apply(batch))
            batch.clear()
            await asyncio.gather(*applied)
            self.assertEqual([await store.get(f"account/{i}") for i in range(100)], [b"1"] * 100)
            with self.assertRaises(TypeError):
                await store.apply([("key", b"value")])

    @in_loop
    async def test_what_waits_for_its_turn_is_told_of_its_faults(self):
        async with aio.Client(self.address, depth=1) as store:
            first = store.put("key", b"value")
            wrong, missing, right = store.get(""), store.get_versioned("none"), store.get("key")
            cancelled = store.increment("n")
            cancelled.cancel()
            await first
            with self.assertRaises(remora.InvalidArgument):
                await wrong
            with self.assertRaises(remora.NotFound):
                await missing
            self.assertEqual(await right, b"value")
            self.assertIsNone(await store.get("n"))

    @in_loop
    async def test_cancelling_a_task_cancels_the_operation(self):
        if self.address.startswith("tcp:"):
            self.skipTest("over tcp, a stopped server answers no READ either")
        # A stopped server answers no write; READs do not need it.
        await self.store.put("key", b"before")
        self.kvserver.process.send_signal(signal.SIGSTOP)
        try:
            task = asyncio.create_task(self.wait_for(self.store.put("key", b"after")))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.store.ping(), 0.05)
            self.assertEqual(await self.store.get("key"), b"before")
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            # More than there is space for: all of those before have left their places.
            for _ in range(100):
                self.store.ping().cancel()
            self.assertEqual(await self.store.get("key"), b"before")
        finally:
            self.kvserver.process.send_signal(signal.SIGCONT)
        await self.store.ping()

    async def wait_for(self, future):
        return await future

    @in_loop
    async def test_what_is_late_ends_so(self):
        async with aio.Client(self.address, timeout=0.05) as store:
            self.kvserver.process.send_signal(signal.SIGSTOP)
            try:
                with self.assertRaises(remora.DeadlineExceeded):
                    await store.ping()
            finally:
                self.kvserver.process.send_signal(signal.SIGCONT)
            with self.assertRaises(remora.NotFound):
                await self.store.get_versioned("key")

    @in_loop
    async def test_it_reconnects_unless_told_not_to(self):
        async with aio.Client(self.address, reconnect=False) as only_one:
            await self.store.put("key", b"value")
            self.kvserver.kill()
            self.memory_server("--quiet")
            self.assertIsNone(await self.store.get("key"))
            sums = await asyncio.gather(*(self.store.increment("sum") for _ in range(100)))
            self.assertEqual(sums, list(range(1, 101)))
            with self.assertRaises(remora.Unavailable):
                await only_one.get("key")
            with self.assertRaises(remora.Unavailable):
                await only_one.get("key")

    @in_loop
    async def test_closing_ends_what_is_in_flight(self):
        store = await aio.Client(self.address, depth=2).connect()
        in_flight = [store.put(f"key {i}", b"") for i in range(5)]
        in_flight[1].cancel()
        store.close()
        store.close()
        for i, operation in enumerate(in_flight):
            with self.assertRaises(asyncio.CancelledError if i == 1 else remora.Cancelled):
                await operation
        with self.assertRaisesRegex(RuntimeError, "not connected"):
            store.get("key")
        await store.connect()
        await store.put("again", b"")
        with self.assertRaises(RuntimeError):
            await store.connect()
        store.close()

    def test_connecting_says_why_it_fails(self):
        async def connect(address, **options):
            async with aio.Client(address, **options):
                pass

        for address, options, kind in (
            ("nowhere", {}, remora.InvalidArgument),
            ("local:///none/such", {}, remora.Unavailable),
            (self.address, {"depth": 0}, ValueError),
            (self.address, {"depth": 1025}, remora.InvalidArgument),
            (self.address, {"timeout": 0}, ValueError),
        ):
            with self.subTest(address=address, **options), self.assertRaises(kind):
                asyncio.run(connect(address, **options))

    @in_loop
    async def test_a_forked_child_is_rejected(self):
        child = os.fork()
        if child == 0:
            try:
                self.store.get("key")
            except RuntimeError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        await self.store.put("key", b"value")
        self.assertEqual(await self.store.get("key"), b"value")


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
