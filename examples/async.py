"""Many operations at once, with asyncio: fills a table, adds its numbers up, and shows the sum.

It needs a server:  kvserver --listen=local:///tmp/remora.sock --durability=memory"""

import asyncio
import sys

from remora import aio

ITEMS = 40


async def add(store: aio.Client, number: int) -> None:
    """One thing after the other, while others do theirs."""
    value = await store.get(f"item/{number}")
    await store.increment("total", int(value))


async def main(address: str) -> None:
    async with aio.Client(address) as store:
        await asyncio.gather(*(store.put(f"item/{number}", str(number)) for number in range(ITEMS)))
        await asyncio.gather(*(add(store, number) for number in range(ITEMS)))
        print((await store.get("total")).decode())
        await store.delete("total")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "local:///tmp/remora.sock"))
