"""The shards that have the slots, and operations of remora.aio.ClusterClient whose slot has another shard.

Where a server answers that a slot is another one's, and that it did nothing, the operations of the slot wait. The topology
is read anew, and they begin again in their order, at most for the timeout. Those that wait begin once no other one of
the slot is in flight: else a later write could overtake an earlier one that the server has not answered yet.
"""

import asyncio
import random
import weakref
from collections.abc import Callable
from os import PathLike
from typing import Any

from remora._errors import Cancelled, Error, FailedPrecondition
from remora._futures import Operation
from remora._remora import Topology

# Seconds before an operation begins again, from the second time on.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.064
SILENCE_PAUSE = 1.0
SLOTS = 16384
# Weak references to operations that have ended, above which they are dropped.
MOST_ENDED = 1024


class ClusterOperation(Operation):
    """An operation that begins again where its slot has another shard."""

    owners: "Owners"
    slot: int
    number: int  # in the order in which operations were made
    moves = 0  # answers that the slot is another server's
    deadline = 0.0  # since the first of them
    error: Error | None = None  # of the last one

    def end_moved(self, error: Error) -> None:
        self.owners.end_moved(self, error)


async def read_topology(source: str | PathLike[str], options: dict[str, Any], loop: asyncio.AbstractEventLoop) -> Topology:
    """Reads a topology for the first time, of a file or of servers, with the options of a client."""
    topology = Topology.__new__(Topology)
    names = ("connect_timeout", "timeout", "token", "tls_ca", "tls_cert", "tls_key")
    chosen = {name: options[name] for name in names}
    try:
        await loop.run_in_executor(None, lambda: topology.__init__(source, **chosen))
    except asyncio.CancelledError:
        topology.stop()  # else the thread would wait on, and so would the end of the program
        raise
    return topology


class _Waits:
    """Operations of a slot that wait, by their numbers."""

    def __init__(self) -> None:
        self.operations: dict[int, ClusterOperation] = {}
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Owners:
    """Knows the shard of each slot. `begin` has the function of each shard that begins an operation there.

    In the usual case an operation costs a weak reference more. Those that have not ended are counted by their slots only
    while some wait."""

    def __init__(
        self,
        topology: Topology,
        timeout: float,
        loop: asyncio.AbstractEventLoop,
        begin: list[Callable[[ClusterOperation], None]],
        changed: Callable[[Topology], None] = lambda topology: None,
    ) -> None:
        """`changed` gets each topology that is read anew: the addresses of servers may differ in it."""
        self._topology = topology
        self._changed = changed
        self._shard_of = _shards_of(topology)
        self._timeout = timeout
        self._loop = loop
        self._begin = begin
        self._follows = len(topology) > 1
        self._is_closed = False
        self._made = 0
        self._recent: list[weakref.ref[ClusterOperation]] = []  # those that have not ended, and some others
        self._most_recent = MOST_ENDED
        self._waits: dict[int, _Waits] = {}
        self._unended: dict[int, set[int]] = {}  # while some wait: the numbers of all that have not ended, by slot
        self._reads = 0  # of the topology
        self._next_question = 0.0  # note_silence asks no earlier
        self._question: asyncio.Task[None] | None = None
        self._is_reading = False
        self._has_other_shards = False  # in the last read
        self._order = asyncio.Lock()  # of reads

    def begin(self, name: str, args: tuple, options: dict) -> ClusterOperation:
        """Begins an operation, or has it wait."""
        slot = Topology.slot_of_batch(args[0]) if name == "apply" else Topology.slot_of(args[0])
        operation = ClusterOperation(loop=self._loop)
        operation.owners = self
        operation.slot = slot
        operation.call = (name, args, options)
        self._made += 1
        operation.number = self._made
        if self._waits:
            self._begin_beside_waits(operation)
        else:
            self._begin[self._shard_of[slot]](operation)
        self._recent.append(weakref.ref(operation))
        if len(self._recent) > self._most_recent:
            self._recent = [weakref.ref(one) for one in self._all_unended()]
            self._most_recent = 2 * len(self._recent) + MOST_ENDED
        return operation

    def _all_unended(self) -> list[ClusterOperation]:
        return [one for ref in self._recent if (one := ref()) is not None and not one.done()]

    def _begin_beside_waits(self, operation: ClusterOperation) -> None:
        waits = self._waits.get(operation.slot)
        if waits is None:
            self._begin[self._shard_of[operation.slot]](operation)
        else:
            waits.operations[operation.number] = operation
        self._count(operation)

    def _count(self, operation: ClusterOperation) -> None:
        self._unended.setdefault(operation.slot, set()).add(operation.number)
        operation.add_done_callback(self._end)

    def _end(self, operation: Any) -> None:
        if operation.slot in self._unended:
            self._unended[operation.slot].discard(operation.number)
        waits = self._waits.get(operation.slot)
        if waits is not None:
            waits.operations.pop(operation.number, None)
            waits.changed.set()

    def end_moved(self, operation: ClusterOperation, error: Error) -> None:
        """Takes the end of an operation whose slot is another server's: it waits, or has failed."""
        operation.name = None
        pause = 0.0
        operation.moves += 1
        if operation.moves == 1:
            operation.deadline = self._loop.time() + self._timeout
        else:
            pause = min(SHORTEST_PAUSE * 2 ** min(operation.moves, 8), LONGEST_PAUSE) * random.uniform(0.5, 1)
        if not self._follows or self._is_closed or self._loop.time() + pause >= operation.deadline:
            operation.set_exception(error)
            return
        operation.error = error
        waits = self._waits.get(operation.slot) or self._wait(operation.slot, pause)
        waits.operations[operation.number] = operation
        waits.changed.set()

    def _wait(self, slot: int, pause: float | None) -> _Waits:
        """Has operations of the slot wait. A pause of None: until none is in flight, and not for the topology."""
        if not self._waits:
            self._unended = {}
            for operation in self._all_unended():
                self._count(operation)
        waits = self._waits[slot] = _Waits()
        waits.task = asyncio.ensure_future(self._go_on(slot, waits, pause))
        return waits

    async def _go_on(self, slot: int, waits: _Waits, pause: float | None) -> None:
        fails = False
        if pause is not None:
            await asyncio.sleep(pause)
            await self._read()
            fails = self._has_other_shards
        while len(self._unended.get(slot, ())) > len(waits.operations):
            waits.changed.clear()
            await waits.changed.wait()
        while waits.operations:  # a finalizer may add others meanwhile
            waiting, waits.operations = waits.operations, {}
            for number in sorted(waiting):
                self._begin_again(waiting[number], fails)
        self._waits.pop(slot, None)

    def _begin_again(self, operation: ClusterOperation, fails: bool) -> None:
        if operation.done():
            return
        if self._is_closed:  # by the function of a visit that began before
            operation.set_exception(_closed())
        elif operation.error is not None and (fails or self._loop.time() >= operation.deadline):
            operation.set_exception(operation.error)
        else:
            try:
                self._begin[self._shard_of[operation.slot]](operation)
            except Exception as error:  # the awaiting task gets the error
                if not operation.done():
                    operation.set_exception(error)

    async def _read(self) -> None:
        """Returns behind a read of the topology that began after the call. Many calls share it."""
        enough = self._reads + (2 if self._is_reading else 1)
        async with self._order:
            if self._reads >= enough:
                return
            self._is_reading = True
            try:
                self._take(await self._loop.run_in_executor(None, self._topology.read_anew))
            except Error as error:  # perhaps a file is being replaced, or a server is
                self._has_other_shards = isinstance(error, FailedPrecondition)
            finally:
                self._is_reading = False
                self._reads += 1

    def _take(self, fresh: Topology) -> None:
        self._has_other_shards = False
        if self._is_closed:
            return
        shard_of = _shards_of(fresh)
        for slot, numbers in self._unended.items():
            if numbers and shard_of[slot] != self._shard_of[slot] and slot not in self._waits:
                self._wait(slot, None)
        self._shard_of = shard_of
        self._changed(fresh)

    def note_silence(self) -> None:
        """Reads the topology anew, because a server cannot be reached: its shard may have other members. Not for a file,
        and not more often than once a second."""
        now = self._loop.time()
        if self._is_closed or not self._topology.is_of_servers() or now < self._next_question:
            return
        self._next_question = now + SILENCE_PAUSE
        self._question = asyncio.ensure_future(self._read())

    def close(self) -> None:
        """Ends operations that wait with Cancelled. None waits any more."""
        self._is_closed = True
        self._topology.stop()
        if self._question is not None:
            self._question.cancel()
        waiting, self._waits = self._waits, {}
        for waits in waiting.values():
            if waits.task is not None:
                waits.task.cancel()
            for operation in waits.operations.values():
                if not operation.done():
                    operation.set_exception(_closed())


def _shards_of(topology: Topology) -> list[int]:
    return [topology.shard_of_slot(slot) for slot in range(SLOTS)]


def _closed() -> Cancelled:
    return Cancelled("the client was closed")
