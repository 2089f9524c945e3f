"""The calls of remora.aio that a client of one server and one of several have."""

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from remora._beside import Beside, Scan, Watch
from remora._errors import Cancelled, DeadlineExceeded, Error, Unavailable, Unknown
from remora._futures import Many
from remora._remora import Batch, View
from remora._types import Bytes, Durability, Until

_T = TypeVar("_T")


class Calls:
    """Each begins an operation by _begin, or makes a step by _beside."""

    _loop: asyncio.AbstractEventLoop | None

    def _begin(self, name: str, args: tuple, options: dict) -> Any:
        raise NotImplementedError

    def _beside(self) -> Beside:
        raise NotImplementedError

    async def connect(self) -> Self:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

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
        """The values of these keys, side by side, or None. An Error has the outcomes of all keys."""
        if isinstance(keys, (str, bytes, bytearray)):
            raise TypeError(f"get_many: a {type(keys)} is one key, not many; pass a list of keys")
        return Many(self._begin_each(lambda key=key: self.get(key) for key in keys), self._loop)

    def _begin_each(self, calls: Iterable[Callable[[], asyncio.Future[_T]]]) -> list[asyncio.Future[_T]]:
        """Begins the operations of one call. If one cannot begin with an Error, that is its outcome, and the others go on."""
        operations: list[asyncio.Future[_T]] = []
        try:
            for call in calls:
                try:
                    operations.append(call())
                except Error as error:
                    operations.append(self._loop.create_future())
                    operations[-1].set_exception(error)
        except BaseException:
            for operation in operations:
                operation.cancel()
            raise
        return operations

    def visit(self, key: Bytes, function: Callable[[View], _T]) -> asyncio.Future[_T]:
        """Calls the function with a View of the value, where it is, and returns its result; NotFound."""
        return self._begin("visit", (key, _checked(function)), {})

    def visit_versioned(self, key: Bytes, function: Callable[[View], _T]) -> asyncio.Future[tuple[_T, int]]:
        """As visit; the function's result, and the version of the value."""
        return self._begin("visit_versioned", (key, _checked(function)), {})

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

    def put_many(
        self,
        pairs: Mapping[Bytes, Bytes] | Iterable[tuple[Bytes, Bytes]],
        *,
        ttl: float | Until | None = None,
        condition: int | None = None,
        durability: Durability | None = None,
    ) -> asyncio.Future[list[int | Error]]:
        """Stores pairs side by side; of each the version, or the Error of one that was not done. If it is unknown of one
        whether it was done, the call raises its Error, which has the outcomes of all pairs."""
        if isinstance(pairs, (str, bytes, bytearray)):
            raise TypeError(
                f"put_many: a {type(pairs)} is no list of pairs; pass tuples of key and value, or a mapping"
            )
        options = {"ttl": ttl, "condition": condition, "durability": durability}
        # All pairs are looked at before the first one is sent.
        each = [_pair(pair) for pair in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
        operations = self._begin_each(lambda key=key, value=value: self.put(key, value, **options) for key, value in each)
        return Many(operations, self._loop, keeps=_is_not_done)

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

    # --- Many keys in order, and changes. These calls share a connection of their own, which the first of them makes. A
    # thread waits for it.

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
        one_sided: bool = False,
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
        one_sided: bool = False,
    ) -> Scan[bytes]: ...
    def scan(self, **options):
        """For `async for`: pairs of key and value, in order, as of the moment of the first step; or any_order, one_sided."""
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


def _pair(pair: Any) -> tuple[Bytes, Bytes]:
    if not isinstance(pair, (tuple, list)):
        raise TypeError(f"put_many: a {type(pair)} is no pair; pass tuples of key and value, or a mapping")
    if len(pair) != 2:
        raise ValueError(f"put_many: a sequence of {len(pair)} is no pair; pass tuples of key and value")
    for part in pair:
        if not isinstance(part, str):
            memoryview(part)  # TypeError: it has no bytes
    return pair[0], pair[1]


def _is_not_done(error: Error) -> bool:
    return not isinstance(error, (Unavailable, DeadlineExceeded, Unknown, Cancelled))


def _checked(function: Callable[[View], _T]) -> Callable[[View], _T]:
    if inspect.iscoroutinefunction(function):
        raise TypeError("visit: a coroutine function would see the view when it is over; pass one that returns")
    return function
