"""Durable delivery by nodes around an archive, and best effort by the same nodes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from typing import Literal

from bench.systems.work import Effort, Tally, Work, orders, publish_all, report_is_due
from overlay import loops
from pubsub import Archive, Event, Node
from pubsub.publishing import Receipt

TOPIC = "/bench/durable"
Kind = Literal["best effort", "optimistic", "ordered"]
IN_FLIGHT = 2_000
"""Durable events that a publisher has on their way at full speed."""
SETTLING_SECONDS = 3.0


def archive(pipe: Connection, store: str) -> None:
    """Answers with its address, then with its processor seconds so far to every order."""
    loops.run(_archive(pipe, store))


async def _archive(pipe: Connection, store: str) -> None:
    async with Archive([TOPIC], store) as running:
        await running.ready(TOPIC)
        pipe.send(str(running.node.address))
        while await asyncio.to_thread(pipe.recv) is not None:
            pipe.send(time.process_time())


def subscriber(pipe: Connection, kind: Kind, name: str, first: str) -> None:
    """Answers with its address, then "ready" and a report for each work; it subscribes anew for each."""
    loops.run(_subscriber(pipe, kind, name, first))


async def _subscriber(pipe: Connection, kind: Kind, name: str, first: str) -> None:
    async with Node(bootstrap=[first]) as node:
        pipe.send(str(node.address))
        async for work in orders(pipe):
            tally = Tally(work)
            if kind == "best effort":
                async with node.subscribe(TOPIC, queue=1_000_000) as plain:
                    await receive_all(pipe, payloads(plain), tally)
            else:
                durable = node.subscribe(TOPIC, durable=name, since="now", delivery=kind)
                async with durable as events:
                    await receive_all(pipe, payloads(events), tally)


async def payloads(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """What the events carry, without the one with which a publisher joins."""
    async for event in events:
        if event.data:
            yield event.data


async def receive_all(pipe: Connection, events: AsyncIterator[bytes], tally: Tally) -> None:
    """Say "ready", then take the work's events and report; no more is taken than there is to do."""
    pipe.send("ready")

    async def receive() -> None:
        while not tally.is_complete:
            tally.add(await anext(events))

    await tally.kept_up(receive())
    await report_is_due(pipe)
    pipe.send(tally.report())


def publisher(pipe: Connection, kind: Kind, first: str) -> None:
    """Answers with its address, then with a report for each work when every event is sent or safe."""
    loops.run(_publisher(pipe, kind, first))


async def _publisher(pipe: Connection, kind: Kind, first: str) -> None:
    async with Node(bootstrap=[first]) as node:
        await node.publish(TOPIC, b"", durable=kind != "best effort")
        await asyncio.sleep(SETTLING_SECONDS)
        pipe.send(str(node.address))
        async for work in orders(pipe):
            effort = Effort(work)
            await _publish(node, kind, work)
            effort.end()
            await report_is_due(pipe)
            pipe.send(effort.report())


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
