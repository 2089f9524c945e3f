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
        harness.freeze(self.kvserver.process)
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
            harness.freeze(self.kvserver.process)
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


if __name__ == "__main__":
    unittest.main()
