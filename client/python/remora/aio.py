"""The client for asyncio: many operations in flight over one connection.

    import asyncio
    from remora import aio

    async def main():
        async with aio.Client("local:///run/remora.sock") as store:
            await store.put("key", "value")
            values = await asyncio.gather(*(store.get(f"key {i}") for i in range(1000)))
            values = await store.get_many(f"key {i}" for i in range(1000))
            checksum = await store.visit("image", zlib.crc32)
            async for key, value in store.scan(prefix="key "): ...
            async for change in await store.watch(prefix="key "): ...

        async with aio.ClusterClient("/var/lib/remora/topology") as store: ...  # or "cluster://kv1:7401,kv2:7401"

Each call begins its operation at once, and returns a future. The server does writes in the order in which they began.
A get that begins after a put of the same key began, and before the put has ended, may find the value before it. At most
`depth` operations are in flight; more of them wait for their turn, in order.

Cancelling the future, or a task that awaits it, cancels the operation. A write may or may not have been done then. When
the connection breaks, the client makes another one while the loop continues, and no write is done twice. An operation
without an answer in time ends with DeadlineExceeded. The other exceptions are those of remora.Client. Values of more
than 262144 bytes go in pieces, and the timeout applies to each piece. The client sends writes that began after such a
put when it has sent all of that value.

Scans, counts, deletions, watches and backups use a second connection, in a thread of this client. The client makes it for
the first of them. So the loop does not wait for them, and they take turns step by step. A task that is cancelled while
it waits for the next entry or change loses none.

A visit calls a function with a View of a value, as that of remora.Client, in the thread of the loop. Where the client
maps the server's memory (local://), the value is shown where it is. That needs no wait, so the function has run when
visit returns its future. Else it runs when a copy of the value has come. The loop waits while it runs, and the function
must not use the client. A buffer of a View that was shown in place, and is held when the function has returned, closes
the client.

The client takes keys and values of every kind that remora.Client takes, and copies them when the operation begins. Do
not change a buffer before you have awaited the call that got it. A client belongs to the loop and thread in which it
was connected, and not to a forked child.
"""

import asyncio
import collections
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from os import PathLike
from typing import Any, Self

from remora._beside import Beside, Scan, Watch
from remora._calls import Calls
from remora._errors import Cancelled, DeadlineExceeded, Error, FailedPrecondition, ResourceExhausted, Unavailable
from remora._futures import Operation, settle
from remora._owners import ClusterOperation, Owners, read_topology
from remora._remora import Async, ClusterClient as _Blocking, Topology
from remora._remora import AsyncBuffer as Buffer
from remora._types import Backup, Bytes, Durability, Memory, Until

__all__ = ["Buffer", "Client", "ClusterClient", "Scan", "Watch"]


class Client(Calls):
    """One server, and a connection to it, for one event loop."""

    def __init__(
        self,
        address: str,
        *,
        depth: int = 64,
        connect_timeout: float = 5.0,
        timeout: float = 5.0,
        location_cache_bytes: int | None = None,
        reconnect: bool = True,
        token: str | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        metrics: bool = False,
        index_mirror_bytes: int = 0,
    ) -> None:
        self._address = address
        self._depth = depth
        self._options: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "location_cache_bytes": location_cache_bytes,
            "reconnect": reconnect,
            "token": token,
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "metrics": metrics,
            "index_mirror_bytes": index_mirror_bytes,
        }
        self._core: Async | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._other: Beside | None = None
        # Of operations that have no place yet: (operation, what begins it, its arguments).
        self._waiting: collections.deque[tuple[Operation, Callable[..., int | None], tuple, dict]] = collections.deque()

    # --- Connecting and closing

    async def connect(self) -> Self:
        """Connects; the loop goes on meanwhile. As entering the client."""
        return await self._connect_in(None)

    async def _connect_in(self, threads: Executor | None) -> Self:
        if self._core is not None:
            raise RuntimeError("the client is connected already")
        loop = asyncio.get_running_loop()
        core = Async.__new__(Async)
        try:
            await loop.run_in_executor(threads, lambda: core.__init__(self._address, self._depth, **self._options))
        except asyncio.CancelledError:
            core.stop()  # else the thread would wait on, and so would the end of the program
            raise
        if self._core is not None:
            core.close()
            raise RuntimeError("the client is connected already")
        self._core, self._loop = core, loop
        loop.add_reader(core.fileno(), self._drive)
        self._drive()
        return self

    def close(self) -> None:
        """Disconnects. Operations in flight end with Cancelled."""
        if self._core is None:
            return
        self._loop.remove_reader(self._core.fileno())  # RuntimeError in the function of a visit
        core, self._core = self._core, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._other is not None:
            self._other.close()
            self._other = None
        settle(core.close())
        while self._waiting:
            operation = self._waiting.popleft()[0]
            if not operation.done():
                operation.set_exception(Cancelled("the client was closed"))

    # --- Reading

    def register(self, memory: Memory) -> Buffer:
        """Makes memory known to the transport, so that values can be read into it, and put from it, without a copy.
        Costs some 20 us: do it once, for many values. It stays usable as before, but cannot be resized; release gives
        it back. Unavailable: the client is connecting anew."""
        if self._core is None:
            raise RuntimeError("the client is not connected")
        return self._core.register(memory)

    def get_into(self, key: Bytes, memory: Memory | Buffer) -> asyncio.Future[int]:
        """Reads the value to the beginning of `memory`, which the program must not touch meanwhile. Returns its size.

        Raises NotFound, or OutOfRange: the value is larger than `memory`. The client reads into a Buffer of its own
        without a copy. Unless the call succeeds, the contents of that buffer are unspecified; so are always the bytes
        behind the value. The buffer cannot be released before the future is done or, if the future was cancelled,
        before the device has completed its work.
        """
        return self._begin("get_into", (key, memory), {})

    # --- Writing

    def put_from(
        self,
        key: Bytes,
        buffer: Buffer,
        size: int,
        *,
        ttl: float | Until | None = None,
        condition: int | None = None,
        durability: Durability | None = None,
    ) -> asyncio.Future[int]:
        """Stores the first bytes of a Buffer of this client, without a copy; the version. They must not be changed
        meanwhile: DataLoss, and nothing is stored."""
        options = {"ttl": ttl, "condition": condition, "durability": durability}
        return self._begin("put_from", (buffer, key, size), options)

    def ping(self) -> asyncio.Future[None]:
        """One round trip."""
        return self._begin("ping", (), {})

    def metrics(self) -> dict[str, int]:
        """Counts of this client, by the names of remora.Client.metrics; with metrics=True, also the times of its operations.
        Scans, counts, deletions of ranges, watches and backups are no part of it."""
        if self._core is None:
            raise RuntimeError("the client is not connected")
        return self._core.metrics()

    # --- Backups: as scans

    async def backup(self, name: int) -> Backup:
        """Has the server make a backup, and returns it when it is done, as remora.Client does."""
        beside = self._beside()
        while (made := await beside.do(lambda client: client.backup(name, wait=False))) is None:
            await asyncio.sleep(0.01)
        return made

    def _beside(self) -> Beside:
        if self._core is None:
            raise RuntimeError("the client is not connected")
        if self._other is None:
            options = {**self._options, "location_cache_bytes": 0, "index_mirror_bytes": 0, "metrics": False}
            self._other = Beside(self._address, options)
        return self._other

    # --- Driving

    def _begin(self, name: str, args: tuple, options: dict) -> Operation:
        if self._core is None:
            raise RuntimeError("the client is not connected")
        operation = Operation(loop=self._loop)
        self._begin_as(operation, name, args, options)
        return operation

    def _begin_as(self, operation: Operation, name: str, args: tuple, options: dict) -> None:
        if self._core is None:
            raise RuntimeError("the client is not connected")
        begin = getattr(self._core, name)
        operation.core = self._core
        try:
            if not self._waiting and self._core.free_slots() > 0:
                self._start(operation, begin, args, options)
                return
        except ResourceExhausted:
            if self._core is not None and self._core.free_slots() > 0:
                raise
            # A finalizer has taken the last place meanwhile.
        self._waiting.append((operation, begin, args, options))

    def _start(self, operation: Operation, begin: Callable[..., int | None], args: tuple, options: dict) -> None:
        operation.name = begin(operation, args, options)
        if operation.name is None:  # a visit's function has left a buffer of the server's memory
            self._end_escaped()

    def _end_escaped(self) -> None:
        self.close()

    def _drive(self) -> None:
        core = self._core
        if core is None:
            return
        settle(core.poll())
        if core is not self._core:  # a finalizer has closed it meanwhile
            return
        self._connect_anew(core)
        while self._waiting and core is self._core and core.free_slots() > 0:
            operation, begin, args, options = self._waiting.popleft()
            if operation.done():
                continue
            try:
                self._start(operation, begin, args, options)
            except Exception as error:  # the awaiting task gets the error
                if isinstance(error, ResourceExhausted) and core is self._core and core.free_slots() == 0:  # as in _begin_as
                    self._waiting.appendleft((operation, begin, args, options))
                    break
                operation.set_exception(error)
        if core is self._core:
            self._set_timer(core.wait_seconds())

    def _connect_anew(self, core: Async) -> None:
        """Where the connection broke, makes another, in a thread, for it may have to wait for the server."""
        if core.begin_reconnect():
            attempt = self._loop.run_in_executor(None, core.reconnect)
            attempt.add_done_callback(lambda _: self._attempted(core))

    def _attempted(self, core: Async) -> None:
        core.end_reconnect()
        if core is self._core:
            self._drive()

    def _set_timer(self, seconds: float | None) -> None:
        if seconds is None:
            return
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._overdue)

    def _overdue(self) -> None:
        self._timer = None
        self._drive()


class _Shard(Client):
    """The client of one server of a cluster, which connects when it is wanted."""

    def __init__(self, cluster: "ClusterClient", topology: Topology, index: int, depth: int, options: dict[str, Any]):
        super().__init__("", depth=depth, **options)
        self._options |= {"topology": topology, "shard": index}
        self._cluster = cluster
        self._index = index
        self.name = topology.name(index)
        self.incarnation = 0
        self._attempt: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[None]] = set()  # begin operations when there is a connection
        self._order = asyncio.Lock()  # in which they begin

    def begin(self, operation: ClusterOperation) -> None:
        if self._core is not None and not self._late:
            self._begin_as(operation, *operation.call)
            return
        if self._core is None and (self._attempt is None or self._attempt.done()):
            self._attempt = asyncio.ensure_future(self.join(None))
            self._attempt.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        late = asyncio.ensure_future(self._begin_late(self._attempt, operation))
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def _begin_late(self, attempt: asyncio.Task[None], operation: ClusterOperation) -> None:
        async with self._order:
            try:
                await self._await_end(attempt)
                if not operation.done():
                    self._begin_as(operation, *operation.call)
            except Exception as error:  # the awaiting task gets the error
                if isinstance(error, (Unavailable, DeadlineExceeded)):
                    self._cluster._owners.note_silence()
                if not operation.done():
                    operation.set_exception(error)

    async def _await_end(self, attempt: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(attempt)
        except Error as error:
            raise type(error)(*error.args) from None  # each operation has one of its own
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise Cancelled("the client was closed") from None
            raise

    async def join(self, threads: Executor | None) -> None:
        """Connects, and checks that no other shard has the same server."""
        self.name = self._options["topology"].name(self._index)
        await self._connect_in(threads)
        self._place()
        self.incarnation = self._core.incarnation()
        same = self._cluster._shard_with(self.incarnation, self)
        if same is not None:
            self.close()
            raise FailedPrecondition(
                f"{self.name}: connect: the server there is that of {same.name}; correct the address of one of them in "
                "the topology"
            )

    def take_place(self, topology: Topology) -> None:
        """Has the next connection go where the shard is in this topology."""
        self._options["topology"] = topology
        self._place()

    def _place(self) -> None:
        topology = self._options["topology"]
        name = topology.name(self._index)
        # Not for the same addresses: it would begin with the first of them again.
        if self._core is not None and name != self.name and self._core.place(topology, self._index):
            self.name = name

    def _attempted(self, core: Async) -> None:
        super()._attempted(core)
        if core is self._core:
            self._place()
            if core.incarnation() == 0:
                self._cluster._owners.note_silence()

    def be_as_patient_as_calls(self) -> None:
        """Lets a later connection take as long as a call."""
        self._options["connect_timeout"] = self._options["timeout"]

    def check_use(self) -> None:
        """RuntimeError: in the function of a visit."""
        if self._core is not None:
            self._core.fileno()

    def close(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        super().close()
        self.incarnation = 0

    def _end_escaped(self) -> None:
        self._cluster.close()


class ClusterClient(Calls):
    """The servers of a topology file, or of cluster://HOST:PORT,... with some members of shards that fail over, and a
    connection to each, for one event loop. It has the calls of Client, but for those of one server: register, get_into,
    put_from, ping, metrics and backup. `depth` is for each server.

    A server that is gone concerns its keys alone: operations with others do not wait for it. An error that may come from
    a server names its shard. All keys of a batch must have one slot (remora.ClusterClient). Where a server says that a
    slot is another one's, the client reads the topology anew, and begins the operation again, at most for `timeout`. For a
    shard of which no member can be reached, it asks the other servers for the present ones."""

    def __init__(
        self,
        topology: str | PathLike[str],
        *,
        depth: int = 64,
        connect_timeout: float = 5.0,
        timeout: float = 5.0,
        location_cache_bytes: int | None = None,
        reconnect: bool = True,
        token: str | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        index_mirror_bytes: int = 0,
    ) -> None:
        self._path = topology
        self._depth = depth
        self._options: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "location_cache_bytes": location_cache_bytes,
            "reconnect": reconnect,
            "token": token,
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "index_mirror_bytes": index_mirror_bytes,
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owners: Owners | None = None
        self._shards: list[_Shard] = []
        self._other: Beside | None = None

    async def connect(self) -> Self:
        """Connects, if one server at least can be reached. Operations for the others try again."""
        if self._shards:
            raise RuntimeError("the client is connected already")
        loop = asyncio.get_running_loop()
        topology = await read_topology(self._path, self._options, loop)
        if self._shards:
            topology.stop()
            raise RuntimeError("the client is connected already")
        self._loop = loop
        self._shards = [
            _Shard(self, topology, index, self._depth, self._options) for index in range(len(topology))
        ]
        begin = [shard.begin for shard in self._shards]
        self._owners = Owners(topology, self._options["timeout"], loop, begin, self._take_places)
        try:
            await self._connect_all()
        except BaseException:
            self.close()
            raise
        return self

    def _take_places(self, topology: Topology) -> None:
        for shard in self._shards:
            shard.take_place(topology)

    async def _connect_all(self) -> None:
        # One thread for each server, so that none waits for another one that is gone.
        threads = ThreadPoolExecutor(min(len(self._shards), 64), thread_name_prefix="remora")
        try:
            ended = await asyncio.gather(*(shard.join(threads) for shard in self._shards), return_exceptions=True)
        finally:
            threads.shutdown(wait=False)
        failed = [error for error in ended if error is not None]
        for error in failed:
            if not isinstance(error, (Unavailable, DeadlineExceeded)):
                raise error
        if len(failed) == len(ended):
            raise failed[0]
        for shard in self._shards:
            shard.be_as_patient_as_calls()

    def close(self) -> None:
        """Disconnects. Operations in flight end with Cancelled."""
        for shard in self._shards:
            shard.check_use()
        if self._owners is not None:
            self._owners.close()
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.close()
        if self._other is not None:
            self._other.close()
            self._other = None

    def _shard_with(self, incarnation: int, but: _Shard) -> _Shard | None:
        """A shard other than `but` whose server has this incarnation."""
        others = (shard for shard in self._shards if shard is not but)
        return next((shard for shard in others if incarnation != 0 and shard.incarnation == incarnation), None)

    def _begin(self, name: str, args: tuple, options: dict) -> asyncio.Future:
        if not self._shards:
            raise RuntimeError("the client is not connected")
        return self._owners.begin(name, args, options)

    def _beside(self) -> Beside:
        if not self._shards:
            raise RuntimeError("the client is not connected")
        if self._other is None:
            self._other = Beside(self._path, {**self._options, "location_cache_bytes": 0, "index_mirror_bytes": 0}, _Blocking)
        return self._other
