"""The questions that the site asks the store, and the time that the answers take.

A page, an entry and a resolved reference are GETs, which the client reads in place. Lists are scans of an index's prefix.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from remora import aio

from pages import NAME, Entry, Key, Page, entry_of, fold, words_of

MOST_PER_WORD = 3000  # entries of the index that one word of a search looks at
MOST_RESULTS = 100
MOST_WORDS = 8
MOST_REFERENCES = 500
MOST_QUERY = 200  # characters
COMPLETIONS = 12

WITH_SECTION = re.compile(r"\s*([^\s()]+)\s?\(([1-9][a-z0-9]{0,15})\)\s*")


class Results(NamedTuple):
    entries: list[Entry]
    is_whole: bool  # no bound has left any out


class Found(NamedTuple):
    page: Page
    source: Page  # the one with the HTML: of an alias, another one
    source_key: Key
    get_seconds: float  # of the GET of `source`


def behind(prefix: str) -> str:
    """Returns the first key behind all that begin with `prefix`, which ends with a character below U+007F."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Catalogue:
    """One for each request: `seconds` is the time in which it waited for the store."""

    def __init__(self, store: aio.Client) -> None:
        self._store = store
        self.seconds = 0.0

    async def page(self, key: Key) -> Found | None:
        """Returns the page, or None."""
        begin = time.perf_counter()
        value = await self._store.get(str(key))
        took = time.perf_counter() - begin
        if value is None:
            return None
        page = Page.decode(value)
        if page.alias and (target := Key.parse(page.alias)):
            begin = time.perf_counter()
            value = await self._store.get(page.alias)
            took = time.perf_counter() - begin
            if value is not None:
                return Found(page, Page.decode(value), target, took)
        return Found(page, page, key, took)

    async def systems(self) -> dict[str, str]:
        """Returns the titles of all systems, by their names."""
        return {key.decode().split("/")[1]: title.decode() async for key, title in self._scan(prefix="~system/")}

    async def size(self, system: str) -> int:
        """Returns how many pages a system has."""
        return await self._count(f"{system}/")

    async def sections(self, system: str) -> dict[str, int]:
        """Returns the sections of a system, with the number of pages in each. One step of a scan finds each of them."""
        sections: dict[str, int] = {}
        begin, end = f"{system}/", behind(f"{system}/")
        while True:
            found = [key async for key in self._scan(begin=begin, end=end, limit=1, keys_only=True)]
            if not found:
                return sections
            section = found[0].decode().split("/")[1]
            sections[section] = await self._count(f"{system}/{section}/")
            begin = behind(f"{system}/{section}/")

    async def listing(self, system: str, section: str, after: str, limit: int) -> Results:
        """Returns the pages of a section behind a name, in order."""
        prefix = f"~list/{system}/{section}/"
        begin = f"{prefix}{after}\0" if after else prefix
        found = [entry_of(*pair) async for pair in self._scan(begin=begin, end=behind(prefix), limit=limit + 1)]
        return Results(found[:limit], len(found) <= limit)

    async def namesakes(self, name: str) -> list[Entry]:
        """Returns the pages of this name in all systems and sections."""
        return [entry_of(*pair) async for pair in self._scan(prefix=f"~name/{fold(name)}/", limit=MOST_RESULTS)]

    async def complete(self, text: str) -> list[Entry]:
        """Returns the pages whose names begin with a text, the first of each name."""
        text = fold(text.strip())
        entries: dict[str, Entry] = {}
        if NAME.fullmatch(text):
            async for pair in self._scan(prefix=f"~name/{text}", limit=20 * COMPLETIONS):
                entry = entry_of(*pair)
                entries.setdefault(entry.key.name, entry)
                if len(entries) == COMPLETIONS:
                    break
        return list(entries.values())

    async def search(self, text: str) -> Results:
        """Returns the pages that have all words, or words that begin with them; those of that name first."""
        section = ""
        if match := WITH_SECTION.fullmatch(text):
            text, section = match.groups()
        words = words_of(text)[:MOST_WORDS]
        found: dict[Key, Entry] | None = None
        is_whole = True
        for word in words:
            entries = [entry_of(*pair) async for pair in self._scan(prefix=f"~word/{word}", limit=MOST_PER_WORD)]
            is_whole &= len(entries) < MOST_PER_WORD
            with_word = {entry.key: entry for entry in entries if section in ("", entry.key.section)}
            found = with_word if found is None else {key: entry for key, entry in found.items() if key in with_word}
        name = fold(text.strip())

        def rank(entry: Entry) -> tuple:
            folded = fold(entry.key.name)
            return folded != name, not folded.startswith(name), folded, entry.key

        entries = sorted((found or {}).values(), key=rank)
        return Results(entries[:MOST_RESULTS], is_whole and len(entries) <= MOST_RESULTS)

    async def resolve(self, key: Key, references: list[str], systems: list[str]) -> dict[str, Key]:
        """Returns the page of each reference of a page: in its own system, else in the first that has it."""
        targets: dict[str, Key] = {}
        for system in [key.system, *(system for system in systems if system != key.system)]:
            candidates = {
                reference: candidate
                for reference in references[:MOST_REFERENCES]
                if reference not in targets and (candidate := Key.parse(f"{system}/{reference}"))
            }
            begin = time.perf_counter()
            exist = await asyncio.gather(*(self._store.exists(str(candidate)) for candidate in candidates.values()))
            self.seconds += time.perf_counter() - begin
            targets |= {reference: candidate for (reference, candidate), is_there in zip(candidates.items(), exist) if is_there}
        return targets

    async def _count(self, prefix: str) -> int:
        begin = time.perf_counter()
        count = await self._store.count(prefix=prefix)
        self.seconds += time.perf_counter() - begin
        return count

    async def _scan(self, **options) -> AsyncIterator:
        """As aio.Client.scan."""
        scan = self._store.scan(**options)
        while True:
            begin = time.perf_counter()
            try:
                item = await anext(scan)
            except StopAsyncIteration:
                return
            finally:
                self.seconds += time.perf_counter() - begin
            yield item
