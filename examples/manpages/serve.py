"""The site: serves the manual pages of a store to browsers.

    serve.py [--listen=HOST:PORT] [--host=NAME]... [--rendered=FOLDER] SERVER

   --listen    where (default: 127.0.0.1:8080; port 0: any)
   --host      a name of this server, beside localhost and IP addresses, under which browsers may ask for it
   --rendered  the pages as load.py wrote them to files, which the footer compares with the store

Prints the address when it serves. Exit status: 0 SIGINT or SIGTERM, 64 wrong usage, 69 no store, 71 no such address.
"""

import argparse
import asyncio
import json
import os
import pathlib
import signal
import sys
import time

import remora
from remora import aio

import render
import views
from catalogue import MOST_QUERY, Catalogue, Found
from http_server import Rejection, Request, Response, listen
from live import Live
from pages import SECTION, SYSTEM, Key
from views import Times

LISTED = 300  # pages of a section in one list
ASSETS = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}


def time_of_file(path: pathlib.Path) -> tuple[float, float] | None:
    """Returns the seconds in which a file is read after the kernel dropped it, and once more; None: it cannot be read."""

    def read() -> float:
        begin = time.perf_counter()
        path.read_bytes()
        return time.perf_counter() - begin

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        return read(), read()
    except OSError:
        return None


def query_of(request: Request, *names: str) -> list[str]:
    """Returns these fields of the query; rejects others, and texts that are too long."""
    if unknown := set(request.query) - set(names):
        raise Rejection(400, f"the query has a field {sorted(unknown)[0][:40]!r}; this page takes {', '.join(names) or 'none'}")
    texts = [request.query.get(name, "") for name in names]
    if any(len(text) > MOST_QUERY for text in texts):
        raise Rejection(400, f"a field of the query has more than {MOST_QUERY} characters; send fewer")
    return texts


class Site:
    """The handler of all requests."""

    def __init__(self, store: aio.Client, rendered: pathlib.Path | None) -> None:
        folder = pathlib.Path(__file__).parent / "assets"
        self._assets = {f"/assets/{name}": ((folder / name).read_bytes(), kind) for name, kind in ASSETS.items()}
        self._store, self._rendered = store, rendered
        self.live = Live(store)
        self._routes = {"/": self._home, "/search": self._search, "/complete": self._complete,
                        "/compare": self._compare, "/live": self._listen}  # fmt: skip

    async def handle(self, request: Request) -> Response:
        if asset := self._assets.get(request.path):
            return Response(asset[0], f"{asset[1]}; charset=utf-8", headers={"Cache-Control": "no-cache"})
        catalogue = Catalogue(self._store)
        try:
            if route := self._routes.get(request.path):
                return await route(request, catalogue)
            if request.path.startswith("/man/"):
                return await self._manual(request, catalogue)
            return await self._missing(catalogue, "There is nothing at this address. Search, or begin at the directory.")
        except (remora.Unavailable, remora.DeadlineExceeded) as error:
            return Response(views.error_page(503, "The store does not answer", f"{error}; try again soon", [], {}), status=503)

    async def _home(self, request: Request, catalogue: Catalogue) -> Response:
        query_of(request)
        systems = {name: (title, await catalogue.sections(name)) for name, title in (await catalogue.systems()).items()}
        return Response(views.home(systems, catalogue.seconds))

    async def _search(self, request: Request, catalogue: Catalogue) -> Response:
        (query,) = query_of(request, "q")
        results = await catalogue.search(query)
        titles = await catalogue.systems()
        return Response(views.search_page(query, results.entries, results.is_whole, titles, catalogue.seconds))

    async def _complete(self, request: Request, catalogue: Catalogue) -> Response:
        (query,) = query_of(request, "q")
        found = [
            {"url": views.url_of(key), "label": views.label_of(key), "about": about} for key, about in await catalogue.complete(query)
        ]
        return Response(json.dumps(found).encode(), "application/json")

    async def _listen(self, request: Request, catalogue: Catalogue) -> Response:
        query_of(request)
        if not self.live.has_space():
            raise Rejection(503, "too many pages listen already; open fewer")
        return Response(self.live.events(), "text/event-stream")

    async def _manual(self, request: Request, catalogue: Catalogue) -> Response:
        parts = request.path.removeprefix("/man/").split("/")
        titles = await catalogue.systems()
        if parts[0] not in titles or not SYSTEM.fullmatch(parts[0]) or len(parts) > 3:
            return await self._missing(catalogue, "There is no such system. The directory has all.")
        if len(parts) == 1:
            query_of(request)
            return Response(views.system_page(parts[0], titles[parts[0]], await catalogue.sections(parts[0]), catalogue.seconds))
        if len(parts) == 2:
            return await self._section(request, catalogue, *parts, titles)
        query_of(request)
        key = Key.make(*parts)
        found = await catalogue.page(key) if key else None
        if found is None:
            return await self._missing(catalogue, "This system has no such page in this section.", parts[2])
        html = await self._linked(catalogue, found, titles)
        namesakes = await catalogue.namesakes(key.name)
        alias = found.source_key if found.source_key != key else None
        times = await self._times(found)
        return Response(views.manual_page(key, found.page, html, alias, namesakes, titles, times))

    async def _section(self, request: Request, catalogue: Catalogue, system: str, section: str, titles: dict[str, str]) -> Response:
        (after,) = query_of(request, "after")
        if after and not Key.make(system, "1", after):
            raise Rejection(400, "the field after is no name of a page")
        results = await catalogue.listing(system, section, after, LISTED) if SECTION.fullmatch(section) else None
        if results is None or not (results.entries or after):
            return await self._missing(catalogue, "This system has no such section.")
        return Response(
            views.section_page(system, titles[system], section, results.entries, results.is_whole, after, catalogue.seconds)
        )

    async def _compare(self, request: Request, catalogue: Catalogue) -> Response:
        keys = [Key.parse(text) for text in query_of(request, "left", "right")]
        if None in keys:
            raise Rejection(400, "left and right are not SYSTEM/SECTION/NAME, as linux/7/tcp")
        titles = await catalogue.systems()
        sides, seconds = [], 0.0
        for key in keys:
            found = await catalogue.page(key)
            if found is None:
                return await self._missing(catalogue, f"There is no page {key}.", key.name)
            seconds += found.get_seconds
            # Each id once: the second page may have the same.
            html = await self._linked(catalogue, found, titles)
            html = render.rename_ids(html, f"s{len(sides)}")
            sides.append(views.Side(key, titles.get(key.system, key.system), found.page, html, render.headings_of(html)))
        return Response(views.compare_page(*sides, seconds + catalogue.seconds))

    async def _linked(self, catalogue: Catalogue, found: Found, titles: dict[str, str]) -> str:
        """Returns the HTML of a page with links to the pages that it mentions, and that are there."""
        targets = await catalogue.resolve(found.source_key, found.source.references, list(titles))
        urls = {reference: views.url_of(target) for reference, target in targets.items()}
        return render.resolve_references(found.source.html, urls)

    async def _times(self, found: Found) -> Times:
        path = self._rendered / str(found.source_key) if self._rendered else None
        loop = asyncio.get_running_loop()
        times = await loop.run_in_executor(None, time_of_file, path) if path else None
        return Times(found.get_seconds, *(times or (None, None)))

    async def _missing(self, catalogue: Catalogue, text: str, name: str = "") -> Response:
        entries = await catalogue.namesakes(name) if Key.make("linux", "1", name) else []
        return Response(views.error_page(404, "Not found", text, entries, await catalogue.systems()), status=404)


async def serve(address: str, host: str, port: int, names: list[str], rendered: pathlib.Path | None) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with aio.Client(address) as store:
        site = Site(store, rendered)
        try:
            server = await listen(site.handle, host, port, frozenset(name.lower() for name in names))
        except OSError as error:
            print(f"serve: cannot listen at {host}:{port}: {error.strerror}; choose another with --listen", file=sys.stderr)
            return 71
        follower = asyncio.ensure_future(site.live.follow())
        follower.add_done_callback(lambda _: stop.set())
        bound = server.sockets[0].getsockname()[1]
        print(f"http://{f'[{host}]' if ':' in host else host}:{bound}/", flush=True)
        await stop.wait()
        server.close()
        if follower.done():
            follower.result()  # a fault, which is told as such
        follower.cancel()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Serves the manual pages of a store to browsers.", allow_abbrev=False)
    parser.exit_on_error = False
    parser.add_argument("server", help="the store: local:///PATH, tcp://HOST:PORT, ...")
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT", help="where (default: %(default)s; port 0: any)")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="a name of this server, beside localhost and IP addresses")
    parser.add_argument("--rendered", type=pathlib.Path, metavar="FOLDER", help="files for the footer's comparison with the store")
    try:
        arguments = parser.parse_args()
        host, colon, port = arguments.listen.rpartition(":")
        if not (colon and host and port.isdigit() and int(port) < 65536):
            raise argparse.ArgumentError(None, f"--listen: {arguments.listen!r} is not HOST:PORT, as 127.0.0.1:8080")
    except argparse.ArgumentError as error:
        print(f"serve: {error}; see --help", file=sys.stderr)
        return 64
    except SystemExit as end:  # --help, or a mistake that argparse tells by itself
        return 64 if end.code else 0
    try:
        return asyncio.run(serve(arguments.server, host.strip("[]"), int(port), arguments.host, arguments.rendered))
    except remora.Error as error:
        print(f"serve: {error}", file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main())
