"""Visits by remora.aio: in place where the client maps the server's memory, and of copies elsewhere."""

import asyncio
import gc
import os
import pathlib
import sys
import threading
import time
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402

IN_PLACE = os.environ.get("REMORA_TRANSPORT", "local") == "local"
VALUE = b"0123456789"


def in_loop(test):
    """Runs a test in an event loop of its own, with a client that knows the server's index."""

    def run(self):
        async def with_client():
            async with aio.Client(self.address, timeout=harness.PATIENCE) as self.store:
                await self.store.put("key", VALUE)
                self.assertEqual(await self.store.get("key"), VALUE)
                await test(self)

        asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

    return run


class VisitTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.memory_server()

    @in_loop
    async def test_values_of_each_size(self):
        for size in (0, 1, 100, 5000, 262144, 262145, (3 << 20) + 7):
            value = os.urandom(size)
            version = await self.store.put("sized", value)
            calls = []
            self.assertEqual(await self.store.visit("sized", lambda view: calls.append(1) or bytes(view)), value)  # noqa: B023
            self.assertEqual(len(calls), 1)
            self.assertEqual(await self.store.visit_versioned("sized", len), (size, version))

    @in_loop
    async def test_in_place_it_waits_for_nothing(self):
        threads = []
        visit = self.store.visit("key", lambda view: threads.append(threading.current_thread()) or bytes(view))
        self.assertEqual(len(threads), 1 if IN_PLACE else 0)
        self.assertEqual(await visit, VALUE)
        self.assertEqual(threads, [threading.current_thread()])

    @in_loop
    async def test_many_that_wait_for_their_turn(self):
        async with aio.Client(self.address, depth=2) as store:
            visits = [store.visit("key", lambda view, i=i: (i, bytes(view))) for i in range(100)]
            visits.append(store.visit("none", len))
            visits.append(store.visit("key", "no function"))
            ended = await asyncio.gather(*visits, return_exceptions=True)
        self.assertEqual(ended[:100], [(i, VALUE) for i in range(100)])
        self.assertIsInstance(ended[100], remora.NotFound)
        self.assertIsInstance(ended[101], TypeError)

    @in_loop
    async def test_nothing_is_read_behind_the_end(self):
        kept = []
        shown = await self.store.visit("key", lambda view: kept.extend([view, view[2:5]]) or view)
        self.assertIs(shown, kept[0])
        for view in kept:
            for use in (bytes, memoryview, lambda view: view[0], lambda view: view[:1]):
                with self.assertRaisesRegex(ValueError, "is over"):
                    use(view)

    @in_loop
    async def test_exceptions_of_the_function(self):
        def fail(view):
            memory = memoryview(view)[2:]  # which the exception's traceback holds
            raise LookupError(bytes(memory))

        with self.assertRaises(LookupError) as raised:
            await self.store.visit("key", fail)
        self.assertEqual(raised.exception.args, (b"23456789",))
        with self.assertRaises(RuntimeError) as raised:
            await self.store.visit("key", lambda _: next(iter(())))
        self.assertIsInstance(raised.exception.__cause__, StopIteration)
        with self.assertRaises(asyncio.CancelledError):
            await self.store.visit("key", lambda _: (_ for _ in ()).throw(asyncio.CancelledError))
        for kind in (KeyboardInterrupt, SystemExit):
            visit = self.store.visit("key", lambda _: (_ for _ in ()).throw(kind))  # noqa: B023
            await asyncio.wait([visit])
            self.assertIsInstance(visit.exception(), kind)
        self.assertEqual(await self.store.get("key"), VALUE)

    @in_loop
    async def test_what_cannot_be(self):
        calls = []
        with self.assertRaises(remora.NotFound):
            await self.store.visit("none", calls.append)
        for key, kind in (("", remora.InvalidArgument), ("k" * 4097, remora.InvalidArgument), (5, TypeError)):
            with self.assertRaises(kind):
                await self.store.visit(key, calls.append)
        for arguments in ((), ("key",), ("key", 5), ("key", None), ("key", len, 5)):
            with self.assertRaises(TypeError):
                await self.store.visit(*arguments)

        async def look(view):
            calls.append(view)

        with self.assertRaisesRegex(TypeError, "coroutine function"):
            await self.store.visit("key", look)
        self.assertEqual(await self.store.visit(key="key", function=len), 10)
        self.store.close()
        with self.assertRaisesRegex(RuntimeError, "not connected"):
            self.store.visit("key", calls.append)
        self.assertEqual(calls, [])

    @in_loop
    async def test_the_client_is_in_use(self):
        other = self.store.ping()

        def use_it(_):
            for use in (lambda: self.store.get("key"), lambda: self.store.put("key", b""), self.store.close,
                        lambda: self.store.visit("key", len), lambda: self.store.register(bytearray(5))):  # fmt: skip
                with self.assertRaisesRegex(RuntimeError, "in a visit"):
                    use()
            self.assertTrue(other.cancel() or not IN_PLACE)
            return 7

        self.assertEqual(await self.store.visit("key", use_it), 7)
        self.assertEqual(await self.store.get("key"), VALUE)

    @in_loop
    async def test_a_visit_within_a_visit_of_another_client(self):
        with remora.Client(self.address) as other:
            other["other"] = b"abc"

            def both(view):
                return bytes(view) + other.visit("other", bytes) + bytes(view[:2])

            self.assertEqual(await self.store.visit("key", both), b"0123456789abc01")

    @in_loop
    async def test_buffers_that_are_released_meanwhile(self):
        memory = bytearray(10)
        buffers = [self.store.register(memory)]
        await self.store.visit("key", lambda _: buffers.clear())
        gc.collect()
        memory.append(1)  # nobody holds it
        await self.store.ping()

    @in_loop
    async def test_a_visit_that_is_cancelled(self):
        calls = []
        visit = self.store.visit("key", calls.append)
        visit.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await visit
        await self.store.ping()
        self.assertEqual(len(calls), 1 if IN_PLACE else 0)

    @in_loop
    async def test_a_forked_child(self):
        child = os.fork()
        if child == 0:
            try:
                self.store.visit("key", bytes)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(await self.store.visit("key", bytes), VALUE)

    @in_loop
    async def test_the_server_is_gone(self):
        async with aio.Client(self.address, reconnect=False) as store:
            self.assertEqual(await store.get("key"), VALUE)
            if IN_PLACE:
                # The last bytes that the function saw may have been of a server that was gone.
                with self.assertRaises(remora.Unavailable):
                    await store.visit("key", lambda _: self.kvserver.kill())
            else:
                self.assertIsNone(await store.visit("key", lambda _: self.kvserver.kill()))
            with self.assertRaises(remora.Unavailable):
                await store.visit("key", len)


class HeldBuffersTest(harness.TestCase):
    """A buffer of a view is not the package's to end: the visit says that there is one."""

    def setUp(self):
        super().setUp()
        self.kvserver = self.memory_server()

    @in_loop
    async def test_what_is_returned(self):
        for returned in (memoryview, lambda view: [memoryview(view)[2:5]]):
            with self.assertRaisesRegex(BufferError, "returned a buffer"):
                await self.store.visit("key", returned)
        self.assertEqual(await self.store.get("key"), VALUE)

    async def check_kept(self, store, kept, visit, others):
        with self.assertRaisesRegex(BufferError, "closed" if IN_PLACE else "still held"):
            await visit
        for other in others:
            if IN_PLACE:
                with self.assertRaises(remora.Cancelled):
                    await other
            else:
                await other
        if IN_PLACE:
            with self.assertRaisesRegex(RuntimeError, "not connected"):
                store.get("key")
        with remora.Client(self.address) as writer:
            for i in range(300):
                writer["key"] = os.urandom(5000 + i)
        self.assertEqual([bytes(memory) for memory in kept], [bytes(10) if IN_PLACE else VALUE])
        kept.pop().release()

    @in_loop
    async def test_what_is_kept(self):
        kept = []
        other = self.store.ping()
        visit = self.store.visit("key", lambda view: kept.append(memoryview(view)))
        await self.check_kept(self.store, kept, visit, [other])

    @in_loop
    async def test_what_is_kept_by_a_visit_that_waited_for_its_turn(self):
        async with aio.Client(self.address, depth=1) as store:
            self.assertEqual(await store.get("key"), VALUE)
            kept = []
            before = store.ping()
            visit = store.visit("key", lambda view: kept.append(memoryview(view)))
            others = [store.ping() for _ in range(3)]
            self.assertEqual(kept, [])
            await before
            await self.check_kept(store, kept, visit, others)

    @in_loop
    async def test_what_is_kept_and_an_exception(self):
        kept = []

        def keep(view):
            kept.append(memoryview(view))
            raise LookupError("own")

        with self.assertRaises(BufferError) as raised:
            await self.store.visit("key", keep)
        self.assertIsInstance(raised.exception.__context__, LookupError)
        kept.pop().release()


class OverwrittenTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server(memory="20M")

    @in_loop
    async def test_the_function_is_called_again(self):
        seen = []
        with remora.Client(self.address) as other:

            def overwrite(view):
                seen.append(bytes(view))
                if len(seen) == 1:
                    other["key"] = b"9876543210"
                    for _ in range(640):
                        other.put("filling", bytes(100_000))
                    time.sleep(0.5)  # longer than the grace period
                if not bytes(view).isdigit():  # the filling, which is not the value of the key
                    raise ValueError("no digits")
                return bytes(view)

            self.assertEqual(await self.store.visit("key", overwrite), b"9876543210" if IN_PLACE else VALUE)
        self.assertEqual(seen, [VALUE, b"9876543210"] if IN_PLACE else [VALUE])


if __name__ == "__main__":
    unittest.main()
