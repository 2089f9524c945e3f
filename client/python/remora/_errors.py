"""How calls fail. Each is also what Python's own mappings and sockets would raise."""

from typing import Any


class Error(Exception):
    """The server, the connection or the stored data made a call fail. A mistake of the program raises one of Python's own
    exceptions, such as TypeError (see the package)."""

    outcomes: list[Any] | None = None
    """Of get_many and put_many: what became of each key, in their order. That is a value or None, or a version; or the
    Error of this key. None: another call failed, or this one before it began."""


class NotFound(Error, KeyError):
    """No such key."""

    __str__ = Exception.__str__  # KeyError's would put quotes around it


class InvalidArgument(Error, ValueError):
    """A key, value, span or address out of bounds; nothing was sent."""


class Unavailable(Error, ConnectionError):
    """The server is gone, or its disk failed. Of a write that was in flight it is not known whether it was done."""


class DeadlineExceeded(Error, TimeoutError):
    """No answer in time; then as Unavailable."""


class ResourceExhausted(Error):
    """No space; nothing was done."""


class OutOfRange(Error):
    """The value does not fit into the buffer."""


class PermissionDenied(Error, PermissionError):
    """The server is another user's."""


class FailedPrecondition(Error):
    """A condition does not hold; the value is no number. Connecting: no RDMA device, or the server rejected it."""


class AlreadyExists(Error):
    """The key is there."""


class DataLoss(Error):
    """The payload arrived damaged, or the server's record on its disk is damaged. The call did nothing."""


class Unimplemented(Error, NotImplementedError):
    """This version does not have the feature."""


class Internal(Error):
    """A fault of Remora's own."""


class Aborted(Error):
    """A scan of one moment that the server has given up."""


class Cancelled(Error):
    """Of remora.aio: the client was closed. Of a write that was in flight it is not known whether it was done. Of a scan:
    a signal ended one of its steps."""


class Unknown(Error):
    """Of a write: its answer was lost, and the server cannot tell any more whether it was done, once, or not."""
