"""The client for asyncio: many operations in flight over one connection.

    import asyncio
    from remora import aio

    async def main():
        async with aio.Client("local:///run/remora.sock") as store:
            await store.put("key", "value")
            values = await asyncio.gather(*(store.get(f"key {i}") for i in range(1000)))
            values = await store.get_many(f"key {i}" for i in range(1000))
            async for key, value in store.scan(prefix="key "): ...
            async for change in await store.watch(prefix="key "): ...

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

The client takes keys and values of every kind that remora.Client takes, and copies them when the operation begins. Do
not change a buffer before you have awaited the call that got it. A client belongs to the loop and thread in which it
was connected, and not to a forked child.
"""

import asyncio
import collections
import copy
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from remora._beside import Beside, Scan, Watch
from remora._errors import Cancelled, ResourceExhausted
from remora._remora import Async, Batch
from remora._remora import AsyncBuffer as Buffer
from remora._types import Backup, Bytes, Durability, Memory, Until

__all__ = ["Buffer", "Client", "Scan", "Watch"]

_T = TypeVar("_T")


class _Operation(asyncio.Future):
    """Cancels what it stands for when it is cancelled itself."""

    core: Async
    name: int | None = None  # None: not begun

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.name is not None:
            self.core.cancel(self.name)
        return cancelled


class Client:
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
        self._options = {
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
        self._waiting: collections.deque[tuple[_Operation, Callable[..., int], tuple, dict]] = collections.deque()

    # --- Connecting and closing

    async def connect(self) -> Self:
        """Connects; the loop goes on meanwhile. As entering the client."""
        if self._core is not None:
            raise RuntimeError("the client is connected already")
        loop = asyncio.get_running_loop()
        core = Async.__new__(Async)
        try:
            await loop.run_in_executor(None, lambda: core.__init__(self._address, self._depth, **self._options))
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
        core, self._core = self._core, None
        self._loop.remove_reader(core.fileno())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._other is not None:
            self._other.close()
            self._other = None
        _settle(core.close())
        while self._waiting:
            operation = self._waiting.popleft()[0]
            if not operation.done():
                operation.set_exception(Cancelled("the client was closed"))

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- Reading

    @overload
    def get(self, key: Bytes) -> asyncio.Future[bytes | None]: ...
    @overload
    def get(self, key: Bytes, default: _T) -> asyncio.Future[bytes | _T]: ...
    def get(self, key, default=None):
        """The value, or default."""
        return self._begin("get", (key, default), {})

    def get_versioned(self, key: Bytes) -> asyncio.Future[tuple[bytes, int]]:
        """The value and its version; NotFound."""
        return self._begin("get_versioned", (key,), {})

    def get_many(self, keys: Iterable[Bytes]) -> asyncio.Future[list[bytes | None]]:
        """The values of these keys, side by side, or None."""
        if isinstance(keys, (str, bytes, bytearray)):
            raise TypeError(f"get_many: a {type(keys)} is one key, not many; pass a list of keys")
        operations: list[asyncio.Future[bytes | None]] = []
        try:
            operations.extend(self.get(key) for key in keys)
        except BaseException:
            for operation in operations:
                operation.cancel()
            raise
        return asyncio.gather(*operations)

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

    def exists(self, key: Bytes) -> asyncio.Future[bool]:
        """Returns whether the key exists."""
        return self._begin("exists", (key,), {})

    def ttl(self, key: Bytes) -> asyncio.Future[float]:
        """Seconds that are left; math.inf: for ever; NotFound."""
        return self._begin("ttl", (key,), {})

    # --- Writing

    def put(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: float | Until | None = None,
        condition: int | None = None,
        durability: Durability | None = None,
    ) -> asyncio.Future[int]:
        """Stores, or replaces; the version."""
        return self._begin("put", (key, value), {"ttl": ttl, "condition": condition, "durability": durability})

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

    def append(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: float | Until | None = None,
        condition: int | None = None,
        durability: Durability | None = None,
    ) -> asyncio.Future[int]:
        """Puts bytes behind the value; its size."""
        return self._begin("append", (key, value), {"ttl": ttl, "condition": condition, "durability": durability})

    def increment(
        self,
        key: Bytes,
        delta: int = 1,
        *,
        ttl: float | Until | None = None,
        condition: int | None = None,
        durability: Durability | None = None,
    ) -> asyncio.Future[int]:
        """Adds to the number that the value spells; the sum."""
        return self._begin("increment", (key, delta), {"ttl": ttl, "condition": condition, "durability": durability})

    def delete(
        self, key: Bytes, *, condition: int | None = None, durability: Durability | None = None
    ) -> asyncio.Future[int]:
        """Removes; the version; NotFound."""
        return self._begin("delete", (key,), {"condition": condition, "durability": durability})

    def touch(
        self, key: Bytes, ttl: float | Until, *, condition: int | None = None, durability: Durability | None = None
    ) -> asyncio.Future[int]:
        """Gives the key this ttl from now on, or Until; the version; NotFound."""
        return self._begin("touch", (key, ttl), {"condition": condition, "durability": durability})

    def persist(
        self, key: Bytes, *, condition: int | None = None, durability: Durability | None = None
    ) -> asyncio.Future[int]:
        """Lets the key be there for ever; the version; NotFound."""
        return self._begin("persist", (key,), {"condition": condition, "durability": durability})

    def apply(self, batch: Batch, *, durability: Durability | None = None) -> asyncio.Future[int]:
        """Does all writes that the batch has now, or none; the version of the first."""
        return self._begin("apply", (copy.copy(batch),), {"durability": durability})

    def ping(self) -> asyncio.Future[None]:
        """One round trip."""
        return self._begin("ping", (), {})

    def metrics(self) -> dict[str, int]:
        """Counts of this client, by the names of remora.Client.metrics; with metrics=True, also the times of its operations.
        Scans, counts, deletions of ranges, watches and backups are no part of it."""
        if self._core is None:
            raise RuntimeError("the client is not connected")
        return self._core.metrics()

    # --- Many keys in order, changes, backups: over a connection of their own, which is made for the first of them, and
    # in a thread that waits for it.

    @overload
    def scan(
        self,
        *,
        prefix: Bytes | None = None,
        begin: Bytes | None = None,
        end: Bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        keys_only: Literal[False] = False,
        one_moment: bool = False,
        resume_token: str | None = None,
        any_order: bool = False,
    ) -> Scan[tuple[bytes, bytes]]: ...
    @overload
    def scan(
        self,
        *,
        prefix: Bytes | None = None,
        begin: Bytes | None = None,
        end: Bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        keys_only: Literal[True],
        one_moment: bool = False,
        resume_token: str | None = None,
        any_order: bool = False,
    ) -> Scan[bytes]: ...
    def scan(self, **options):
        """For `async for`: pairs of key and value, in order, as of the moment of the first step; or in any_order."""
        return Scan(self._beside(), options)

    async def count(
        self, *, prefix: Bytes | None = None, begin: Bytes | None = None, end: Bytes | None = None
    ) -> int:
        """How many keys there are."""
        return await self._beside().do(lambda client: client.count(prefix=prefix, begin=begin, end=end))

    async def delete_range(
        self, *, prefix: Bytes | None = None, begin: Bytes | None = None, end: Bytes | None = None
    ) -> int:
        """Deletes what is there; how many keys that were."""
        return await self._beside().do(lambda client: client.delete_range(prefix=prefix, begin=begin, end=end))

    async def delete_all(self) -> int:
        """Deletes all keys, and returns how many they were."""
        return await self._beside().do(lambda client: client.delete_all())

    async def watch(self, *, prefix: Bytes | None = None, resume_token: str | None = None) -> Watch:
        """Returns an iterator for `async for` over the writes in their order, from now on or from a resume token on."""
        return await Watch.begin(self._beside(), {"prefix": prefix, "resume_token": resume_token})

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

    def _begin(self, name: str, args: tuple, options: dict) -> _Operation:
        if self._core is None:
            raise RuntimeError("the client is not connected")
        begin = getattr(self._core, name)
        operation = _Operation(loop=self._loop)
        operation.core = self._core
        try:
            if not self._waiting and self._core.free_slots() > 0:
                operation.name = begin(operation, args, options)
                return operation
        except ResourceExhausted:
            if self._core is not None and self._core.free_slots() > 0:
                raise
            # A finalizer has taken the last place meanwhile.
        self._waiting.append((operation, begin, args, options))
        return operation

    def _drive(self) -> None:
        core = self._core
        if core is None:
            return
        _settle(core.poll())
        if core is not self._core:  # a finalizer has closed it meanwhile
            return
        self._connect_anew(core)
        while self._waiting and core.free_slots() > 0:
            operation, begin, args, options = self._waiting.popleft()
            if operation.done():
                continue
            try:
                operation.name = begin(operation, args, options)
            except Exception as error:  # the awaiting task gets the error
                if isinstance(error, ResourceExhausted) and core is self._core and core.free_slots() == 0:  # as in _begin
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


def _settle(ended: list[tuple[_Operation, bool, Any]]) -> None:
    for operation, is_good, result in ended:
        if operation.done():  # cancelled
            continue
        if is_good:
            operation.set_result(result)
        else:
            operation.set_exception(result)
