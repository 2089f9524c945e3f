"""remora.aio.ClusterClient over servers whose slots move: it reads its topology file anew, and begins again."""

import asyncio
import os
import pathlib
import sys
import unittest

import harness
import moved_slots
from moved_slots import HALVES

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora import aio  # noqa: E402
from remora._owners import Owners  # noqa: E402
from remora._remora import Topology  # noqa: E402

SWAPPED = HALVES[::-1]


def in_loop(timeout=20):
    """Runs a test in an event loop of its own, with a client."""

    def decorate(test):
        def run(self):
            async def with_client():
                async with aio.ClusterClient(self.topology, timeout=timeout) as self.store:
                    await test(self)

            asyncio.run(asyncio.wait_for(with_client(), harness.PATIENCE))

        return run

    return decorate


class AioMovedTest(moved_slots.TestCase):
    async def move(self, slots, replace=True):
        """The loop goes on meanwhile, and so finds the servers again."""
        await asyncio.to_thread(self.give, slots)
        if replace:
            self.replace_file(slots)

    async def requests(self):
        return await asyncio.to_thread(self.moved_requests)

    def value_at(self, shard, key):
        with remora.Client(self.addresses[shard]) as server:
            return server[key]

    @in_loop()
    async def test_each_operation_is_done_once_at_the_owner(self):
        keys = [await asyncio.to_thread(self.keys_of, shard, 3) for shard in range(2)]
        await self.move(SWAPPED)
        new = [f"{{{key}}}new" for key in keys[0] + keys[1]]
        sums = [self.store.increment(key) for _ in range(50) for key in new]
        self.assertEqual(await asyncio.gather(*sums), [i // len(new) + 1 for i in range(len(sums))])
        for shard in range(2):
            for key in keys[1 - shard]:
                self.assertEqual(self.value_at(shard, f"{{{key}}}new"), b"50")

    @in_loop()
    async def test_each_kind_of_operation(self):
        key = (await asyncio.to_thread(self.keys_of, 0, 1))[0]
        batch = remora.Batch()
        batch.put(f"{{{key}}}b", b"1")
        batch.put(f"{{{key}}}c", b"2")
        kinds = [
            (lambda: self.store.put(f"{{{key}}}a", "x" * 300_000), f"{{{key}}}a", b"x" * 300_000),
            (lambda: self.store.apply(batch), f"{{{key}}}c", b"2"),
            (lambda: self.store.append(f"{{{key}}}d", "abc"), f"{{{key}}}d", b"abc"),
            (lambda: self.store.put_many({f"{{{key}}}e": b"1", f"{{{key}}}f": b"2"}), f"{{{key}}}f", b"2"),
        ]
        for i, (write, written, value) in enumerate(kinds):
            slots = SWAPPED if i % 2 == 0 else HALVES
            await self.move(slots)
            await write()
            self.assertEqual(await asyncio.to_thread(self.value_at, 1 - i % 2, written), value)

    @in_loop()
    async def test_each_kind_of_read(self):
        key = (await asyncio.to_thread(self.keys_of, 0, 1))[0]
        none = f"{{{key}}}none"
        seen = []
        kinds = [
            (lambda: self.store.get(key), b"value 0"),
            (lambda: self.store.get(none), None),
            (lambda: self.store.get_many([key]), [b"value 2"]),
            (lambda: self.store.exists(key), True),
            (lambda: self.store.exists(none), False),
            (lambda: self.store.visit(key, lambda value: seen.append(bytes(value))), None),
        ]
        for i, (read, result) in enumerate(kinds):
            await self.move(SWAPPED if i % 2 == 0 else HALVES)
            # The former owner has another value on its disk.
            run = await asyncio.to_thread(harness.kvctl, self.addresses[1 - i % 2], "put", key, f"value {i}")
            self.assertEqual(run.returncode, 0, run.stderr)
            found = await read()
            self.assertEqual(seen[-1:] if seen else found, [b"value 5"] if seen else result, i)

    @in_loop()
    async def test_operations_wait_for_the_file_and_others_do_not(self):
        parts = ["0-4095", "4096-16383"]
        keys = await asyncio.to_thread(self.keys_of, 0, 20)
        await self.move(parts, replace=False)
        stays = (await asyncio.to_thread(self.keys_of, 0, 1))[0]

        def moves():
            return next(key for key in keys if harness.kvctl(self.addresses[1], "put", f"{{{key}}}probe", "1").returncode == 0)

        moved = f"{{{await asyncio.to_thread(moves)}}}new"
        before = await self.requests()
        waiting = [self.store.increment(moved) for _ in range(10)]
        while await self.requests() < before + 30:
            pass
        waiting += [self.store.increment(moved) for _ in range(10)]
        cancelled = self.store.increment(moved)
        for i in range(100):
            self.assertEqual(await self.store.increment(f"{{{stays}}}new"), i + 1)
        self.assertFalse(any(one.done() for one in waiting))
        cancelled.cancel()
        self.replace_file(parts)
        self.assertEqual(await asyncio.gather(*waiting), list(range(1, 21)))
        with self.assertRaises(asyncio.CancelledError):
            await cancelled
        self.assertEqual(await asyncio.to_thread(self.value_at, 1, moved), b"20")

    @in_loop(timeout=0.3)
    async def test_without_an_owner_an_operation_ends(self):
        key = (await asyncio.to_thread(self.keys_of, 0, 1))[0]
        await self.move(SWAPPED, replace=False)
        with self.assertRaisesRegex(remora.FailedPrecondition, "^shard 0 .* is another server's, and nothing was done"):
            await self.store.increment(f"{{{key}}}new")
        self.replace_file(SWAPPED)
        self.assertEqual(await self.store.increment(f"{{{key}}}new"), 1)

    @in_loop()
    async def test_a_file_with_other_shards_is_not_taken(self):
        key = (await asyncio.to_thread(self.keys_of, 0, 1))[0]
        await self.move(SWAPPED, replace=False)
        self.topology.write_text(f"remora-topology 2\ncluster {self.cluster}\nshard a 0-16383 {self.addresses[1]}\n")
        with self.assertRaisesRegex(remora.FailedPrecondition, "is another server's"):
            await self.store.put(f"{{{key}}}new", b"1")

    @in_loop()
    async def test_closing_ends_what_waits(self):
        key = (await asyncio.to_thread(self.keys_of, 0, 1))[0]
        await self.move(SWAPPED, replace=False)
        waiting = [self.store.increment(f"{{{key}}}new") for _ in range(3)]
        before = await self.requests()
        while await self.requests() < before + 6:
            pass
        waiting.append(self.store.increment(f"{{{key}}}new"))
        self.store.close()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        self.assertTrue(all(isinstance(error, (remora.Cancelled, remora.FailedPrecondition)) for error in ended), ended)

    def test_a_client_of_one_server_does_not_follow(self):
        foreign = self.keys_of(1, 1)[0]

        async def put():
            async with aio.Client(self.addresses[0]) as store:
                with self.assertRaisesRegex(remora.FailedPrecondition, "is another server's, and nothing was done"):
                    await store.put(foreign, b"1")

        asyncio.run(put())


class OrderTest(moved_slots.TestCase):
    """Operations whose answers the test gives, so that it decides their order."""

    def run_with(self, test):
        async def run():
            self.begun = []
            self.owners = Owners(
                Topology(self.topology), harness.PATIENCE, asyncio.get_running_loop(),
                [lambda operation, shard=shard: self.begun.append((operation.number, shard)) for shard in range(2)],
            )  # fmt: skip
            await test()
            self.owners.close()

        asyncio.run(asyncio.wait_for(run(), harness.PATIENCE))

    def begin(self, key):
        return self.owners.begin("put", (key, b"value"), {})

    async def until_begun(self, count):
        while len(self.begun) < count:
            await asyncio.sleep(0.001)

    def lower_keys(self):
        return [f"key{i}" for i in range(100) if Topology.slot_of(f"key{i}") < 8192]

    def test_operations_of_a_slot_keep_their_order(self):
        async def test():
            key = self.lower_keys()[0]
            first, second = self.begin(key), self.begin(key)
            self.replace_file(SWAPPED)
            self.owners.end_moved(second, remora.FailedPrecondition())
            other = self.begin("{" + self.lower_keys()[1] + "}")
            self.owners.end_moved(other, remora.FailedPrecondition())
            await self.until_begun(4)  # so the file was read
            self.begin(key)
            await asyncio.sleep(0)
            self.assertEqual(self.begun, [(1, 0), (2, 0), (3, 0), (3, 1)])
            self.owners.end_moved(first, remora.FailedPrecondition())
            await self.until_begun(7)
            self.assertEqual(self.begun[4:], [(1, 1), (2, 1), (4, 1)])

        self.run_with(test)

    def test_a_slot_that_moved_with_another_one_keeps_the_order(self):
        async def test():
            first, second = (self.begin(key) for key in self.lower_keys()[:2])
            self.replace_file(SWAPPED)
            self.owners.end_moved(first, remora.FailedPrecondition())
            await self.until_begun(3)
            self.begin(self.lower_keys()[1])
            self.assertEqual(self.begun, [(1, 0), (2, 0), (1, 1)])
            self.owners.end_moved(second, remora.FailedPrecondition())
            await self.until_begun(5)
            self.assertEqual(self.begun[3:], [(2, 1), (3, 1)])

        self.run_with(test)


if __name__ == "__main__":
    unittest.main()
