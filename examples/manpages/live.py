"""New pages as they are stored: one watch of the store, and any number of browsers that listen to it."""

import asyncio
import json
import sys
from collections import deque
from collections.abc import AsyncIterator

import remora
from remora import aio

from catalogue import Catalogue
from pages import Entry, entry_of
from views import label_of, url_of

MOST_LISTENERS = 64
NEWEST = 12  # pages that one event shows
PAUSE_SECONDS = 0.5  # between two events: a load stores hundreds of pages a second
HEARTBEAT_SECONDS = 15  # an empty line, by which a connection that is dead shows
RETRY_SECONDS = 1


class Live:
    """The newest pages. A listener gets the same events as all others, and none queues up for a slow one."""

    def __init__(self, store: aio.Client) -> None:
        self._store = store
        self._newest: deque[Entry] = deque(maxlen=NEWEST)
        self._count = 0  # pages so far
        self._changed = asyncio.Event()
        self._listeners = 0

    async def follow(self) -> None:
        """Watches for ever. Where the server forgot where this watch was, the changes in between are lost."""
        token = None
        while True:
            try:
                watch = await self._store.watch(prefix="~list/", resume_token=token)
                while True:
                    change = await anext(watch)
                    token = watch.resume_token()
                    if change.value is not None:
                        self._add(entry_of(change.key, change.value))
            except remora.Error as error:
                print(f"live: {error}; watching again in {RETRY_SECONDS} s", file=sys.stderr, flush=True)
                token = token if isinstance(error, remora.Unavailable) else None
                await asyncio.sleep(RETRY_SECONDS)

    def has_space(self) -> bool:
        return self._listeners < MOST_LISTENERS

    async def events(self) -> AsyncIterator[bytes]:
        """Yields events for a browser (text/event-stream): the newest pages, and the size of each system."""
        self._listeners += 1
        try:
            seen = self._count
            yield b": the newest pages follow\n\n"
            while True:
                if seen == self._count and not await self._is_changed():
                    yield b": nothing new\n\n"
                    continue
                seen = self._count
                yield await self._event()
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._listeners -= 1

    async def _is_changed(self) -> bool:
        """Waits for the next page, until a heartbeat is due."""
        try:
            await asyncio.wait_for(self._changed.wait(), HEARTBEAT_SECONDS)
        except asyncio.TimeoutError:
            return False
        return True

    def _add(self, entry: Entry) -> None:
        self._newest.append(entry)
        self._count += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _event(self) -> bytes:
        catalogue = Catalogue(self._store)
        titles = await catalogue.systems()
        newest = [
            {"url": url_of(key), "label": label_of(key), "system": titles.get(key.system, key.system), "about": about}
            for key, about in reversed(self._newest)
        ]
        counts = {system: await catalogue.size(system) for system in titles}
        return f"event: pages\ndata: {json.dumps({'newest': newest, 'counts': counts})}\n\n".encode()
