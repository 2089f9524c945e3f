"""The futures of remora.aio."""

import asyncio
from collections.abc import Callable
from typing import Any

from remora._errors import Error
from remora._remora import Async


class Operation(asyncio.Future):
    """Cancels what it stands for when it is cancelled itself."""

    core: Async
    name: int | None = None  # None: not begun
    call: tuple = ()  # its name, arguments and options, if it may begin again

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.name is not None:
            self.core.cancel(self.name)
        return cancelled

    def end_moved(self, error: Error) -> None:
        """Takes the end by an answer that the key's slot is another server's, and that nothing was done."""
        self.set_exception(error)


class Many(asyncio.Future):
    """The results of many operations, which are cancelled when it is. An Error of one has the outcomes of all. One that
    `keeps` returns True for is a result."""

    def __init__(
        self,
        operations: list[asyncio.Future[Any]],
        loop: asyncio.AbstractEventLoop,
        keeps: Callable[[Error], bool] = lambda error: False,
    ) -> None:
        super().__init__(loop=loop)
        self._keeps = keeps
        self._all = asyncio.gather(*operations, return_exceptions=True)
        self._all.add_done_callback(self._end)

    def cancel(self, msg: Any = None) -> bool:
        self._all.cancel(msg)
        return super().cancel(msg)

    def _end(self, ended: asyncio.Future[list[Any]]) -> None:
        if self.done():  # cancelled
            ended.exception()  # else asyncio would log that nobody asked for it
            return
        outcomes = ended.result()
        failed = next((outcome for outcome in outcomes if self._is_failure(outcome)), None)
        if failed is None:
            self.set_result(outcomes)
            return
        if isinstance(failed, Error):
            failed = type(failed)(*failed.args)  # else it would be one of its own outcomes
            failed.outcomes = outcomes
            failed.add_note(f"The attribute outcomes has what became of each of {len(outcomes)} keys.")
        self.set_exception(failed)

    def _is_failure(self, outcome: Any) -> bool:
        return isinstance(outcome, BaseException) and not (isinstance(outcome, Error) and self._keeps(outcome))


def settle(ended: list[tuple[Operation, bool | None, Any]]) -> None:
    """Gives the futures the outcomes of their operations: a result, an exception or, with None, one of a moved slot."""
    for operation, is_good, result in ended:
        if operation.done():  # cancelled
            continue
        if is_good is None:
            operation.end_moved(result)
            continue
        operation.call = ()  # a program may keep the future for long
        if is_good:
            operation.set_result(result)
        elif isinstance(result, StopIteration):  # of a visit's function; no future takes it
            error = RuntimeError("visit: the function raised StopIteration")
            error.__cause__ = result
            operation.set_exception(error)
        else:
            operation.set_exception(result)
