"""Types of the arguments and results of calls."""

import json
from typing import Literal, NamedTuple, Protocol, Union

from remora._errors import DataLoss


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


class Setting(NamedTuple):
    """A flag of the server. One that may be repeated has a Setting for each of its values."""

    key: str
    value: str
    """As it stands in the server's file of settings; "": none."""
    source: Literal["default", "file", "command line"]


def _settings_of(text: str) -> list[Setting]:
    try:
        return [Setting(one["key"], one["value"], one["source"]) for one in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        raise DataLoss(f"settings: the server's answer is no list of settings ({error}); is it kvserver?") from error
