"""The keys and values of the manual pages in the store. Everything that reads or writes them uses this file.

   SYSTEM/SECTION/NAME                   a page, see Page.encode
   ~system/SYSTEM                        the title of a system that has pages
   ~list/SYSTEM/SECTION/NAME             a page's description in one line: the directory
   ~name/FOLDED NAME/SYSTEM/SECTION/NAME the same: pages by name, for completion and other systems
   ~word/WORD/SYSTEM/SECTION/NAME        the same: pages by the words of name and description

Numbered invariants:

1. A page is stored before its index entries, in one batch where the batch can hold it. So an entry leads to a page.
2. A part of a key matches its pattern below. So no part has a slash, and none is "." or "..": keys are also paths.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Self

SYSTEM = re.compile(r"[a-z][a-z0-9-]{0,31}")
SECTION = re.compile(r"[1-9][a-z0-9]{0,15}")
NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.+:@~\[\]-]{1,128}")

TITLES = {"linux": "Linux", "freebsd": "FreeBSD", "rdma": "rdma-core", "remora": "Remora"}

MOST_WORDS = 64  # of a page
LONGEST_WORD = 64


class Key(NamedTuple):
    """The three parts of a page's key."""

    system: str
    section: str
    name: str

    @classmethod
    def make(cls, system: str, section: str, name: str) -> Self | None:
        """Returns the key, or None if a part does not match its pattern (invariant 2)."""
        is_good = SYSTEM.fullmatch(system) and SECTION.fullmatch(section) and NAME.fullmatch(name)
        return cls(system, section, name) if is_good else None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Returns the key that `text` spells, or None."""
        parts = text.split("/")
        return cls.make(*parts) if len(parts) == 3 else None

    def __str__(self) -> str:
        return "/".join(self)


class Entry(NamedTuple):
    """A page in a list: its key and its description in one line."""

    key: Key
    about: str


@dataclass
class Page:
    """A page as it is stored.

    The value is a line of JSON with all fields but the HTML, a newline, and the HTML as it is. So the HTML needs no
    escapes, and a reader that needs only the fields stops at the first newline.
    """

    about: str  # the description in one line
    package: str
    version: str  # of the package
    file: str  # the path of the source in the package
    alias: str = ""  # the key of the page that this is another name of; then there is no HTML
    references: list[str] = field(default_factory=list)  # SECTION/NAME of each page that the HTML mentions
    html: str = ""

    def encode(self) -> bytes:
        fields = asdict(self)
        html = fields.pop("html")
        return f"{json.dumps(fields, ensure_ascii=False)}\n{html}".encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        head, _, html = value.partition(b"\n")
        return cls(html=html.decode(), **json.loads(head))


def fold(name: str) -> str:
    """Returns a name as the index has it: in lower case."""
    return name.lower()


def words_of(text: str) -> list[str]:
    """Returns the words of a text as the index has them, each once, in their order."""
    found = re.findall(r"[a-z0-9][a-z0-9_.+-]*", text.lower())
    return list(dict.fromkeys(word.rstrip(".-")[:LONGEST_WORD] for word in found))


def index_entries(key: Key, about: str) -> dict[str, str]:
    """Returns the keys and values of a page's index entries."""
    parts = [part for part in re.split(r"[^a-z0-9]+", fold(key.name)) if len(part) > 1]
    words = [*words_of(key.name), *parts, *(word for word in words_of(about) if len(word) > 1)]
    entries = {f"~list/{key}": about, f"~name/{fold(key.name)}/{key}": about}
    for word in list(dict.fromkeys(words))[:MOST_WORDS]:
        entries[f"~word/{word}/{key}"] = about
    return entries


def entry_of(index_key: bytes, value: bytes) -> Entry:
    """Returns the page of an entry of an index, whose last three parts are the page's key."""
    return Entry(Key(*index_key.decode().split("/")[-3:]), value.decode())
