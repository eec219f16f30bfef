"""The processes of the measurement: an archive, a publisher, subscribers, each at the end of a pipe."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

from bench.fanout.work import Tally, Work, publish_all
from overlay import loops
from pubsub import Archive, Event, Node
from pubsub.receipt import Receipt

TOPIC = "/bench/durable"
Kind = Literal["best effort", "optimistic", "ordered"]
IN_FLIGHT = 2_000
"""Durable events that a publisher has on their way at full speed."""
SETTLING_SECONDS = 3.0


@dataclass(frozen=True)
class Published:
    """What a publisher reports: until every event was sent, or safe."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Received:
    """What a subscriber reports."""

    events: int
    asked_at: float
    """When it began to subscribe."""
    first_at: float
    last_at: float
    cpu: float
    latencies: tuple[float, ...]


def archive(pipe: Connection, store: str, first: str | None) -> None:
    loops.run(_archive(pipe, store, first))


async def _archive(pipe: Connection, store: str, first: str | None) -> None:
    async with Archive([TOPIC], store, bootstrap=[first] if first else []) as running:
        await running.ready(TOPIC)
        pipe.send(str(running.node.address))
        while await asyncio.to_thread(pipe.recv) is not None:
            pipe.send(time.process_time())


def subscriber(pipe: Connection, way: tuple[Kind, str], first: str | None) -> None:
    loops.run(_subscriber(pipe, *way, first))


async def _subscriber(pipe: Connection, kind: Kind, name: str, first: str | None) -> None:
    async with Node(bootstrap=[first] if first else []) as node:
        pipe.send(str(node.address))
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            asked_at = time.monotonic()
            if kind == "best effort":
                async with node.subscribe(TOPIC, queue=1_000_000) as plain:
                    await receive_all(pipe, payloads(plain), work, asked_at)
            else:
                durable = node.subscribe(TOPIC, durable=name, since="now", delivery=kind)
                async with durable as events:
                    await receive_all(pipe, payloads(events), work, asked_at)


async def payloads(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """What the events carry, without the one with which a publisher joins."""
    async for event in events:
        if event.data:
            yield event.data


async def receive_all(
    pipe: Connection, events: AsyncIterator[bytes], work: Work, asked_at: float
) -> None:
    """Say "ready", then take the work's events and report; no more is taken than there is to do."""
    pipe.send("ready")
    tally, cpu = Tally(work), time.process_time()

    async def receive() -> None:
        while not tally.is_complete:
            tally.add(await anext(events))

    await tally.kept_up(receive())
    last_at = time.monotonic()
    used = time.process_time() - cpu
    pipe.send(
        Received(tally.received, asked_at, tally.first_at, last_at, used, tuple(tally.latencies))
    )


def publisher(pipe: Connection, kind: Kind, first: str | None) -> None:
    loops.run(_publisher(pipe, kind, first))


async def _publisher(pipe: Connection, kind: Kind, first: str | None) -> None:
    async with Node(bootstrap=[first] if first else []) as node:
        await node.publish(TOPIC, b"", durable=kind != "best effort")
        await asyncio.sleep(SETTLING_SECONDS)
        pipe.send(str(node.address))
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            began, cpu = time.monotonic(), time.process_time()
            await _publish(node, kind, work)
            pipe.send(Published(time.monotonic() - began, time.process_time() - cpu))


async def _publish(node: Node, kind: Kind, work: Work) -> None:
    if kind == "best effort":
        await publish_all(work, lambda event: node.publish(TOPIC, event))
        return
    waiting: deque[Receipt] = deque()

    async def publish(event: bytes) -> None:
        waiting.append(await node.publish(TOPIC, event, durable=True, wait="sent"))
        while len(waiting) > IN_FLIGHT:
            await _safe(waiting.popleft())

    if work.rate is not None:
        await publish_all(work, lambda event: node.publish(TOPIC, event, durable=True))
        return
    await publish_all(work, publish)
    for receipt in waiting:
        await _safe(receipt)


async def _safe(receipt: Receipt) -> None:
    assert receipt.durable is not None
    await receipt.durable.wait_safe()
