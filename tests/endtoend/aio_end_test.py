"""remora.aio where the server is gone, or does not answer: the loop goes on."""

import asyncio
import gc
import math
import os
import pathlib
import signal
import socket
import sys
import threading
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402


class SilentServer:
    """Takes connections at a server's socket, and never says anything."""

    def __init__(self, path):
        pathlib.Path(path).unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(path)
        self.socket.listen()
        self.socket.setblocking(False)
        self.connections = []

    async def accept(self):
        """Returns the next connection, when its client has asked and waits; and the bytes of its request."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self.socket)
        self.connections.append(connection)
        connection.setblocking(False)
        return connection, await loop.sock_recv(connection, 4096)

    def close(self):
        for each in (self.socket, *self.connections):
            each.close()


def is_waited_for(connection):
    """Whether its client has not hung up yet."""
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    return False


class AioEndTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.kvserver = self.logged_server()

    def fall_silent(self):
        self.kvserver.kill()
        server = SilentServer(self.address.removeprefix("local://"))
        self.addCleanup(server.close)
        return server

    def speak_again(self, server):
        server.close()
        pathlib.Path(self.address.removeprefix("local://")).unlink()
        self.kvserver = self.logged_server()

    def test_the_outcome_of_each_key(self):
        async def test(other):
            await other.put("key", b"value")
            async with aio.Client(self.address, reconnect=False) as store:
                many = store.get_many(["key", "none", "key"])
                self.kvserver.kill()
                with self.assertRaises(remora.Unavailable) as raised:
                    await many
                self.assertEqual([type(outcome) for outcome in raised.exception.outcomes], [remora.Unavailable] * 3)
                self.assertNotIn(raised.exception, raised.exception.outcomes)
                self.assertIn("3 keys", raised.exception.__notes__[0])
                with self.assertRaises(remora.Unavailable) as raised:
                    await store.get_many(["key", ""])
                kinds = [type(outcome) for outcome in raised.exception.outcomes]
                self.assertEqual(kinds, [remora.Unavailable, remora.InvalidArgument])
                with self.assertRaises(remora.Unavailable) as raised:
                    await store.put_many({"": b"", "key": b""})
                kinds = [type(outcome) for outcome in raised.exception.outcomes]
                self.assertEqual(kinds, [remora.InvalidArgument, remora.Unavailable])

        self.in_loop(test)

    def in_loop(self, test):
        async def with_client():
            # Attempts take no longer than that, and the operations are patient.
            async with aio.Client(self.address, timeout=harness.PATIENCE) as store:
                await test(store)

        asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

    def test_the_loop_goes_on_while_it_connects_anew(self):
        # The client waits for the loop itself, which passes on the answer of another server.
        other = self.address + "2"
        self.memory_server(f"--tokens={self.write('tokens', self.make_token('somebody'))}", address=other)

        async def answer(server):
            while True:
                connection, asked = await server.accept()
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
                    there.connect(other.removeprefix("local://"))
                    there.send(asked)
                    connection.send(there.recv(4096))

        async def test(store):
            answering = asyncio.create_task(answer(self.fall_silent()))
            with self.assertRaisesRegex(remora.PermissionDenied, "has none"):
                await store.get("key")
            answering.cancel()

        self.in_loop(test)

    def test_what_is_begun_while_it_connects_anew_comes_in_order(self):
        async def test(store):
            await store.put("key", b"value")
            server = self.fall_silent()
            asked = store.get("key")
            sums = [store.increment("sum") for _ in range(100)]  # more than there is space for
            for _ in range(3):
                connection, _ = await server.accept()
                self.assertTrue(is_waited_for(connection))
                began_meanwhile = store.increment("sum")
                for _ in range(100):
                    await asyncio.sleep(0)
                self.assertTrue(is_waited_for(connection))
                self.assertFalse(began_meanwhile.done())
                sums.append(began_meanwhile)
                connection.close()
            self.speak_again(server)
            self.assertEqual(await asked, b"value")
            self.assertEqual(await asyncio.gather(*sums), list(range(1, 104)))
            self.assertEqual(await store.get("sum"), b"103")

        self.in_loop(test)

    def test_what_is_cancelled_meanwhile_ends_at_once(self):
        async def test(store):
            server = self.fall_silent()
            asked = store.get("key")
            connection, _ = await server.accept()
            asked.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asked
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(store.get("key"), 0.01)
            self.assertTrue(is_waited_for(connection))
            self.speak_again(server)
            self.assertIsNone(await store.get("key"))

        self.in_loop(test)

    def test_what_is_late_ends_meanwhile(self):
        async def test():
            async with aio.Client(self.address, timeout=0.2) as store:
                server = self.fall_silent()
                with self.assertRaises(remora.Unavailable):
                    await store.get("key")
                with self.assertRaises(remora.Unavailable):
                    await store.put("key", b"value")
                self.speak_again(server)
                while True:
                    try:
                        await store.put("key", b"value")
                        return
                    except (remora.Unavailable, remora.Unknown, remora.DeadlineExceeded):
                        pass  # on a busy machine, it may take longer than that

        asyncio.run(asyncio.wait_for(test(), harness.PATIENCE))

    def test_closing_ends_the_attempt(self):
        async def test(store):
            server = self.fall_silent()
            asked = [store.get("key") for _ in range(100)]
            connection, _ = await server.accept()
            store.close()
            for operation in asked:
                with self.assertRaises(remora.Cancelled):
                    await operation
            self.assertFalse(is_waited_for(connection))
            self.speak_again(server)
            await store.connect()
            self.assertIsNone(await store.get("key"))

        self.in_loop(test)

    def test_a_connect_that_is_cancelled_leaves_nobody_waiting(self):
        server = self.fall_silent()

        async def test():
            connecting = asyncio.create_task(aio.Client(self.address, connect_timeout=math.inf).connect())
            await server.accept()
            connecting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await connecting

        asyncio.run(test())  # it waits for its threads

    def test_closing_ends_what_waits_beside(self):
        async def test():
            for connects_first in (True, False):
                async with aio.Client(self.address, timeout=math.inf, connect_timeout=math.inf) as store:
                    if connects_first:
                        await store.count()
                    harness.freeze(self.kvserver.process)
                    counting = asyncio.create_task(store.count(prefix="key"))
                    await asyncio.sleep(0)
                    store.close()
                    with self.assertRaises(remora.Cancelled):
                        await counting
                    self.kvserver.process.send_signal(signal.SIGCONT)

        asyncio.run(test())
        harness.wait_until(
            lambda: not any(thread.name.startswith("remora") for thread in threading.enumerate()),
            "its threads have ended",
        )

    def test_memory_is_given_back_behind_the_attempt(self):
        async def test(store):
            memories = [bytearray(10) for _ in range(3)]
            released, dropped, kept = (store.register(memory) for memory in memories)
            server = self.fall_silent()
            asked = store.get_into("key", kept)
            connection, _ = await server.accept()
            with self.assertRaisesRegex(remora.Unavailable, "connecting anew"):
                store.register(bytearray(10))
            released.release()
            del dropped
            for memory in memories:
                with self.assertRaises(BufferError):
                    memory.append(1)
            with self.assertRaisesRegex(RuntimeError, "released"):
                store.get_into("key", released)
            connection.close()
            self.speak_again(server)
            with self.assertRaises(remora.NotFound):
                await asked
            for memory in memories[:2]:
                memory.append(1)
            await store.put("key", b"value")
            self.assertEqual(await store.get_into("key", kept), 5)
            self.assertEqual(await store.get_into("key", store.register(bytearray(10))), 5)

        self.in_loop(test)

    def test_a_forked_child_does_not_wait_for_the_attempt(self):
        async def test(store):
            server = self.fall_silent()
            asked = store.get("key")
            await server.accept()
            child = os.fork()
            if child == 0:
                store._core.close()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.speak_again(server)
            self.assertIsNone(await asked)

        self.in_loop(test)

    def test_a_finalizer_that_uses_the_client_while_results_are_made(self):
        class Garbage:
            def __init__(self, act):
                self.act, self.itself = act, self

            def __del__(self):
                self.act()

        async def test(store):
            await asyncio.gather(*(store.put(f"key {i}", str(i)) for i in range(100)))
            acted = []

            def use():
                acted.append(store.get("key 1"))
                if len(acted) < 50:
                    Garbage(use)

            before = gc.get_threshold()
            for act in (use, store.close):
                reading = [store.get(f"key {i}") for i in range(100)]
                Garbage(act)
                gc.set_threshold(1)
                try:
                    results = await asyncio.gather(*reading, return_exceptions=True)
                finally:
                    gc.set_threshold(*before)
                if act is use:
                    self.assertEqual(results, [str(i).encode() for i in range(100)])
                    self.assertEqual(await asyncio.gather(*acted), [b"1"] * len(acted))
                else:
                    for i, result in enumerate(results):
                        self.assertTrue(result == str(i).encode() or isinstance(result, remora.Cancelled), result)

        self.in_loop(test)


if __name__ == "__main__":
    unittest.main()
