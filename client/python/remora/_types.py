"""What is given to calls."""

from typing import Literal, Protocol, Union


class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


Bytes = Union[str, bytes, bytearray, memoryview, _Buffer]
Durability = Literal["memory", "logged", "synced"]
