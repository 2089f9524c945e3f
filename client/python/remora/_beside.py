"""Scans, watches and backups of remora.aio, which run step by step in a thread with a connection of its own."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Self, TypeVar

from remora import _remora
from remora._errors import Cancelled
from remora._types import Change

_T = TypeVar("_T")

# Limits of one step. They avoid a wakeup of the thread for each entry, and bound the entries that wait in memory.
_MOST_ENTRIES = 256
_MOST_BYTES = 1 << 20

# Pauses between two polls for changes, in seconds.
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.016


class Beside:
    """One thread, and what it is connected to from its first step on."""

    def __init__(self, address: str, options: dict[str, Any], kind: type = _remora.Client) -> None:
        self._address, self._options = address, options
        self._client = kind.__new__(kind)
        self._connected = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="remora")
        self._closed = False

    async def do(self, step: Callable[[_remora.Client], _T]) -> _T:
        if self._closed:
            raise RuntimeError("the client is not connected")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, step)

    def close(self) -> None:
        """Ends with Cancelled what waits: for the server, or for the step that is in progress."""
        self._closed = True
        self._client._stop()
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)

    def _run(self, step: Callable[[_remora.Client], _T]) -> _T:
        if self._closed:
            raise Cancelled("the client was closed")
        if not self._connected:
            self._client.__init__(self._address, **self._options)
            self._connected = True
        return step(self._client)

    def _end(self) -> None:
        self._client.close()


class _Steps(Generic[_T]):
    """An iterator that gets several items in a step. A task that is cancelled while it waits loses no item."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._ready: list[_T] = []  # the next one last
        self._in_flight: asyncio.Future[list[_T]] | None = None
        self._waits = False

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Of two tasks that wait at once, the second would take the end of what the first got for the end of all."""
        if self._waits:
            kind = type(self).__name__.lower()
            raise RuntimeError(f"another task waits for this {kind} already: give each task a {kind} of its own")
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    async def _fill(self) -> None:
        if self._in_flight is None:
            self._in_flight = asyncio.ensure_future(self._beside.do(self._step))
        step = self._in_flight
        await asyncio.wait([step])  # which does not cancel it
        if self._in_flight is step:
            self._in_flight = None
            self._ready = step.result()
            self._ready.reverse()

    def _step(self, client: _remora.Client) -> list[_T]:
        raise NotImplementedError


class Scan(_Steps[tuple[Any, str, int, float]], Generic[_T]):
    """Keys and values, in order as of the moment of its first step unless any_order or one_sided; by Client.scan."""

    def __init__(self, beside: Beside, options: dict[str, Any]) -> None:
        super().__init__(beside)
        self._options = options
        self._scan: _remora.Scan | None = None
        self._last: tuple[Any, str, int, float] | None = None

    def __aiter__(self) -> AsyncIterator[_T]:
        return self

    async def __anext__(self) -> _T:
        if not self._ready:
            with self._waiting():
                await self._fill()
        if not self._ready:
            raise StopAsyncIteration
        self._last = self._ready.pop()
        return self._last[0]

    def resume_token(self) -> str:
        """Returns the resume token behind the last entry, for Client.scan(resume_token=...)."""
        return self._of_last(1)

    def version(self) -> int:
        """Of the last entry."""
        return self._of_last(2)

    def expiry(self) -> float:
        """When the last entry expires, in seconds since 1970 by the server's clock; math.inf: never."""
        return self._of_last(3)

    def _of_last(self, field: int) -> Any:
        if self._last is None:
            raise RuntimeError("the scan has shown nothing yet")
        return self._last[field]

    def _step(self, client: _remora.Client) -> list[tuple[Any, str, int, float]]:
        if self._scan is None:
            self._scan = client.scan(**self._options)
        entries, size = [], 0
        for entry in itertools.islice(self._scan, _MOST_ENTRIES):
            entries.append((entry, self._scan.resume_token(), self._scan.version(), self._scan.expiry()))
            size += len(entry) if isinstance(entry, bytes) else len(entry[0]) + len(entry[1])
            if size > _MOST_BYTES:
                break
        return entries


def _check_patience(seconds: float | None) -> None:
    """As remora.Watch.next."""
    if isinstance(seconds, bool):
        raise TypeError("timeout: a bool is no number; pass a number")
    if seconds is not None and not seconds >= 0:  # nor is nan
        raise ValueError(f"timeout: {seconds!r} s are no span of time; pass 0 or more, or None")


class Watch(_Steps[tuple[Change, str]]):
    """The writes in their order, made by Client.watch. Iteration over it never ends."""

    def __init__(self, beside: Beside, watch: _remora.Watch, resume_token: str) -> None:
        super().__init__(beside)
        self._watch = watch
        self._resume_token = resume_token

    @classmethod
    async def begin(cls, beside: Beside, options: dict[str, Any]) -> Self:
        def step(client: _remora.Client) -> tuple[_remora.Watch, str]:
            watch = client.watch(**options)
            return watch, watch.resume_token()

        return cls(beside, *await beside.do(step))

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            change = await self.next()
            if change is not None:
                return change

    async def next(self, timeout: float | None = None) -> Change | None:
        """The next change, or None: none came in this time; without a timeout, it waits for ever."""
        _check_patience(timeout)
        if not self._ready:
            with self._waiting():
                await self._await_change(timeout)
        if not self._ready:
            return None
        change, self._resume_token = self._ready.pop()
        return change

    async def _await_change(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        due = None if timeout is None else loop.time() + timeout
        pause = _SHORTEST_PAUSE
        while True:
            await self._fill()
            if self._ready or (due is not None and loop.time() >= due):
                return
            await asyncio.sleep(pause if due is None else max(0, min(pause, due - loop.time())))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def resume_token(self) -> str:
        """Returns the resume token behind the last change, for Client.watch(resume_token=...)."""
        return self._resume_token

    def _step(self, _: _remora.Client) -> list[tuple[Change, str]]:
        changes: list[tuple[Change, str]] = []
        size = 0
        while len(changes) < _MOST_ENTRIES and size <= _MOST_BYTES:
            try:
                change = self._watch.next(0)
            except Exception:
                if changes:  # they come first; it is told of at the next step
                    break
                raise
            if change is None:
                break
            changes.append((change, self._watch.resume_token()))
            size += len(change.key) + len(change.value or b"")
        return changes
