"""Processes to be killed: `python -m tests.pubsub.archive.workers ROLE BOOTSTRAP ...`.

What a publisher has published and heard to be safe, and what a subscriber is done with, goes to a file by one
`write` each: a killed process leaves whole lines, and at most one that is not."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from overlay import loops
from overlay.identity import Identity
from pubsub import Archive, Node
from pubsub.archive.protocol.config import DurableConfig

TOPIC = "/kill"
QUICK = DurableConfig(patience=1.5, heartbeat=0.4)
"""A killed archive is given up soon, so that a short run sees many kills."""


def lines(path: Path) -> list[Any]:
    """The whole lines of a file."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Journal:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR)
        end = os.lseek(self._file, 0, os.SEEK_END)
        if end and os.pread(self._file, 1, end - 1) != b"\n":
            whole = os.pread(self._file, end, 0).rfind(b"\n") + 1
            os.ftruncate(self._file, whole)

    def write(self, *what: Any) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")


async def boot() -> None:
    async with Node() as node:
        print(node.address, flush=True)
        await asyncio.Event().wait()


async def archive(bootstrap: str, store: str, identity: str) -> None:
    settings = {"bootstrap": [bootstrap], "identity": Identity.load_or_create(identity)}
    async with Archive([TOPIC], store, durability=QUICK, **settings) as running:
        print("ready", flush=True)
        await running.failed()


async def publisher(bootstrap: str, path: str) -> None:
    journal = Journal(path)
    async with Node(bootstrap=[bootstrap], durability=QUICK) as node:
        print("ready", flush=True)
        number = 0
        while True:
            batch = []
            for _ in range(10):
                number += 1
                receipt = await node.publish(TOPIC, number, durable=True, wait="sent", deadline=600)
                journal.write("published", receipt.id.hex(), number)
                batch.append(receipt)
            for receipt in batch:
                assert receipt.durable is not None
                await receipt.durable.wait_safe()
                journal.write("safe", receipt.id.hex())
            await asyncio.sleep(0.02)


async def subscriber(bootstrap: str, path: str) -> None:
    before = lines(Path(path))
    journal = Journal(path)
    resume = bytes.fromhex(before[-1][2]) if before else None
    async with Node(bootstrap=[bootstrap], durability=QUICK) as node:
        events = node.subscribe(
            TOPIC, durable="reader", since="beginning", resume=resume, within=600
        )
        async with events:
            print("ready", flush=True)
            async for event in events:
                journal.write("done", event.id.hex(), events.position.hex())


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    work = {"boot": boot, "archive": archive, "publisher": publisher, "subscriber": subscriber}
    loops.run(work[role](*arguments))
