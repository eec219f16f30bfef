"""Writes events to a store until it is killed; prints each number once its event is safe."""

from __future__ import annotations

import asyncio
import sys

from pubsub.archive.store import GroupCommit, open_store
from tests.pubsub.archive.store.schedules import event


async def main(address: str) -> None:
    store = open_store(address)
    number = store.last_sequence("/soccer")
    print("open", number, flush=True)
    async with GroupCommit(store) as writer:
        waiting: list[tuple[int, asyncio.Future[None]]] = []
        while True:
            number += 1
            waiting.append((number, writer.submit([event(number, body=b"x" * 200)])))
            if len(waiting) == 20:
                for written, future in waiting:
                    await future
                    print(written, flush=True)
                waiting.clear()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
