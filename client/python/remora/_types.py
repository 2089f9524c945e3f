"""Types of the arguments and results of calls."""

from typing import Literal, NamedTuple, Protocol, Union


class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


Bytes = Union[str, bytes, bytearray, memoryview, _Buffer]
Memory = Union[bytearray, memoryview, _Buffer]
Durability = Literal["memory", "logged", "synced"]


class Until(NamedTuple):
    """Instead of a ttl: the moment at which the key expires, for one that comes along with its expiry."""

    expiry: float
    """Seconds since 1970, by the server's clock, as Scan.expiry and Change.expiry say it; math.inf: never."""


class Change(NamedTuple):
    """One write, as a watch shows it."""

    kind: Literal["put", "delete"]
    key: bytes
    value: bytes | None
    """None: of a deletion, which is also of what has expired and is removed."""
    version: int
    """Of a deletion: 0."""
    expiry: float
    """Seconds since 1970, by the server's clock; math.inf: never."""
    sequence: int
    """Goes up from one change to the next."""


class Backup(NamedTuple):
    """A backup that is done."""

    id: int
    """In the server's directory."""
    version: int
    """All writes up to this one are in it, and perhaps some later ones."""
    bytes: int
    """Of all its files."""
    new_bytes: int
    """Of those that no earlier one has."""
