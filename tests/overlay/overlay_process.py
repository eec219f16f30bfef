"""Several overlays in one process on real sockets, told by lines on standard input what to do.

    python -m tests.overlay.overlay_process COUNT TTL [BOOTSTRAP]

Each command is answered with one line of JSON. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys

from overlay import Overlay
from overlay.directory import DirectoryConfig
from overlay.loops import run

TOPIC = "/soccer/italy"


async def answer(overlays: list[Overlay], command: str) -> object:
    if command == "contacts":
        return [[overlay.contact.id.hex(), str(overlay.contact.address)] for overlay in overlays]
    if command == "announce":
        await asyncio.gather(*(overlay.announce(TOPIC) for overlay in overlays))
        return len(overlays)
    if command == "size":
        return (await overlays[0].size(TOPIC)).members
    sample = await overlays[0].sample(TOPIC, count=int(command))
    return [contact.id.hex() for contact in sample]


async def main(count: int, ttl: float, bootstrap: list[str]) -> None:
    overlays: list[Overlay] = []
    for _ in range(count):
        overlay = Overlay(bootstrap=bootstrap, directory=DirectoryConfig(ttl=ttl))
        overlays.append(await overlay.__aenter__())
        bootstrap = bootstrap or [str(overlay.contact.address)]
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await answer(overlays, line.strip())), flush=True)
    finally:
        await asyncio.gather(*(overlay.close() for overlay in overlays))


if __name__ == "__main__":
    run(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
