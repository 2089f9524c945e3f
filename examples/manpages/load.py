"""Renders the manual pages of a folder, and stores them.

    load.py SERVER FOLDER

FOLDER/pages/SYSTEM/PACKAGE/ has a file `version`, and below `man` what a package has in /usr/share/man; `fetch` makes
it. Each stored value is also written to FOLDER/rendered/SYSTEM/SECTION/NAME, for comparison with the store. Pages that
the store has, and that the packages lack now, are deleted.

Exit status: 0 all is stored, 1 some pages were left out, 64 wrong usage, 65 there are no pages, 69 no server.
"""

import asyncio
import gzip
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import remora
from remora import aio

import pages
import render
from pages import Key, Page

MOST_SOURCE = 4 << 20  # bytes
MOST_BATCH = 192 << 10  # the store takes 256 KiB
FILE = re.compile(r"(?P<name>.+)\.(?P<section>[1-9][a-z0-9]*?)(?P<system>freebsd)?(?:\.gz)?")
INCLUDE = re.compile(rb"\A(?:\.\\\"[^\n]*\n)*\.so\s+(?:man\w+/)?(\S+)\s*\Z")


class Source(NamedTuple):
    """A file of a package."""

    key: Key
    package: str
    version: str
    path: pathlib.Path
    file: str  # its name in the package


def key_of(system: str, file_name: str) -> Key | None:
    """Returns the key of the page in a file of this name: `null.4freebsd.gz` is null in section 4."""
    match = FILE.fullmatch(file_name)
    return Key.make(system, match["section"], match["name"]) if match else None


def sources_of(package: pathlib.Path) -> Iterator[Source]:
    """Yields the pages of a package in English, in the order of their names."""
    version = (package / "version").read_text(encoding="utf-8").strip()
    for path in sorted((package / "man").glob("man*/*")):
        key = key_of(package.parent.name, path.name)
        file = f"/usr/share/man/{path.parent.name}/{path.name}"
        if key is None:
            print(f"load: {path} is left out: its name is not NAME.SECTION", file=sys.stderr)
        else:
            yield Source(key, package.name, version, path, file)


def read(path: pathlib.Path) -> bytes:
    """Returns the source of a page, which may be compressed."""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        source = file.read(MOST_SOURCE + 1)
    if len(source) > MOST_SOURCE:
        raise render.RenderError(f"it has more than {MOST_SOURCE} bytes")
    return source


def make_page(source: Source) -> Page:
    """Renders a page, or makes an alias of one that only includes another."""
    page = Page("", source.package, source.version, source.file)
    text = read(source.path)
    if include := INCLUDE.match(text):
        page.alias = str(key_of(source.key.system, include[1].decode(errors="replace")) or "")
        return page
    html = render.sanitize(render.mandoc(text, pages.TITLES.get(source.key.system, source.key.system)))
    page.about = render.about_of(html)
    page.html, page.references = render.mark_references(html)
    return page


def split_aliases(sources: list[Source]) -> tuple[list[Source], list[tuple[Source, Key]]]:
    """Returns the files, and the other names of files (by symbolic or hard links) with the keys that they stand for."""
    first: dict[tuple[int, int], Key] = {}
    files, aliases = [], []
    for source in sorted(sources, key=lambda source: source.path.is_symlink()):
        try:
            status = source.path.stat()
        except FileNotFoundError:  # a link to a page of another package
            target = key_of(source.key.system, os.path.basename(os.readlink(source.path)))
            if target:
                aliases.append((source, target))
            continue
        key = first.setdefault((status.st_dev, status.st_ino), source.key)
        if key == source.key:
            files.append(source)
        else:
            aliases.append((source, key))
    return files, aliases


class Loader:
    """Stores pages with their index entries."""

    def __init__(self, store: aio.Client, rendered: pathlib.Path) -> None:
        self.store, self.rendered = store, rendered
        self.about: dict[Key, str] = {}
        self.left_out = 0

    async def store_page(self, key: Key, page: Page) -> None:
        value = page.encode()
        path = self.rendered / str(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
        await self._forget(key)
        batch = remora.Batch()
        if len(value) <= MOST_BATCH:
            batch.put(str(key), value)
        else:
            await self.store.put(str(key), value)
        for index_key, about in pages.index_entries(key, page.about).items():
            batch.put(index_key, about)
        await self.store.apply(batch)
        self.about[key] = page.about

    async def delete_page(self, key: Key) -> None:
        await self._forget(key)
        await self.store.delete(str(key))
        (self.rendered / str(key)).unlink(missing_ok=True)

    async def _forget(self, key: Key) -> None:
        """Deletes the index entries of the page as the store has it, if it has it."""
        about = await self.store.get(f"~list/{key}")
        if about is not None:
            entries = pages.index_entries(key, about.decode())
            await asyncio.gather(*(self.store.delete(entry) for entry in entries), return_exceptions=True)

    async def load_files(self, files: list[Source]) -> None:
        """Renders some pages at a time, and stores them as they come; last those that only include another one."""
        loop = asyncio.get_running_loop()
        waiting = iter(files)
        including: list[tuple[Source, Page]] = []

        async def work() -> None:
            for source in waiting:
                try:
                    page = await loop.run_in_executor(threads, make_page, source)
                except (OSError, EOFError, render.RenderError) as error:
                    print(f"load: {source.file} of {source.package} is left out: {error}", file=sys.stderr)
                    self.left_out += 1
                    continue
                if page.alias:
                    including.append((source, page))
                else:
                    await self.store_page(source.key, page)

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            await asyncio.gather(*(work() for _ in range(os.cpu_count() or 1)))
        for source, page in including:
            page.about = self.about.get(Key.parse(page.alias), "")
            await self.store_page(source.key, page)

    async def load_system(self, system: str, sources: list[Source]) -> None:
        title = pages.TITLES.get(system, system)
        await self.store.put(f"~system/{system}", title)
        files, aliases = split_aliases(sources)
        await self.load_files(files)
        for source, target in aliases:
            about = self.about.get(target, "")
            await self.store_page(source.key, Page(about, source.package, source.version, source.file, str(target)))
        loaded = {str(source.key).encode() for source in sources}
        gone = [key async for key in self.store.scan(prefix=f"{system}/", keys_only=True) if key not in loaded]
        for key in gone:
            await self.delete_page(Key(*key.decode().split("/")))
        print(f"load: {title}: {len(files)} pages, {len(aliases)} other names", flush=True)


async def load(address: str, folder: pathlib.Path) -> int:
    systems: dict[str, list[Source]] = {}
    for version in sorted((folder / "pages").glob("*/*/version")):
        systems.setdefault(version.parent.parent.name, []).extend(sources_of(version.parent))
    systems = {system: sources for system, sources in systems.items() if sources and pages.SYSTEM.fullmatch(system)}
    if not systems:
        print(f"load: {folder}/pages has no pages; examples/manpages/fetch {folder} gets some", file=sys.stderr)
        return 65
    async with aio.Client(address) as store:
        loader = Loader(store, folder / "rendered")
        for system in sorted(systems, key=lambda system: len(systems[system])):
            await loader.load_system(system, systems[system])
    return 1 if loader.left_out else 0


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print("usage: load.py SERVER FOLDER", file=sys.stderr)
        return 64
    try:
        return asyncio.run(load(sys.argv[1], pathlib.Path(sys.argv[2])))
    except remora.Error as error:
        print(f"load: {error}", file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main())
