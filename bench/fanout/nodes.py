"""The fan-out by nodes of this project."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Any

from bench.fanout.result import PublisherReport, SubscriberReport
from bench.fanout.way import Way
from bench.fanout.where import sampled
from bench.fanout.work import Tally, Work, publish_all
from overlay import loops
from pubsub import Node, Subscription

TOPIC = "/bench/fanout"
QUEUE = 2_000_000
SETTLING_SECONDS = 5.0
"""Until every topic table is complete."""


def _node(way: Way, first: str | None) -> Node:
    settings: dict[str, Any] = {"mode": way.mode, "dissemination": way.dissemination}
    if way.mode == "unstructured":
        return Node(gateways={TOPIC: [first]} if first else {}, **settings)
    return Node(bootstrap=[first] if first else [], **settings)


def subscriber(pipe: Connection, way: Way, first: str | None) -> None:
    loops.run(_subscribe(pipe, way, first))


async def _subscribe(pipe: Connection, way: Way, first: str | None) -> None:
    async with _node(way, first) as node, node.subscribe(TOPIC, queue=QUEUE) as events:
        pipe.send(str(node.address))
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            pipe.send("ready")
            pipe.send(await _receive(node, events, work))


async def _receive(node: Node, events: Subscription, work: Work) -> SubscriberReport:
    counters = node.metrics.as_dict
    before, cpu = counters(), time.process_time()
    tally = Tally(work)

    async def receive() -> None:
        async for event in events:
            tally.add(event.data)
            if tally.is_complete:
                return

    samples: dict[str, int] = {}
    with sampled(samples) if work.sampled else nullcontext():
        await tally.kept_up(receive())  # the rest, if any, is lost, and counted as such
    after = counters()
    return SubscriberReport(
        tally.received,
        tally.first_at,
        tally.last_at,
        time.process_time() - cpu,
        int(after["bytes_sent"]) - int(before["bytes_sent"]),  # type: ignore[arg-type]
        int(after["events_received"]) - int(before["events_received"]),  # type: ignore[arg-type]
        tuple(tally.latencies),
        samples,
    )


def publisher(pipe: Connection, way: Way, first: str | None) -> None:
    loops.run(_publish(pipe, way, first))


async def _publish(pipe: Connection, way: Way, first: str | None) -> None:
    async with _node(way, first) as node:
        await node.publish(TOPIC, b"")
        await asyncio.sleep(SETTLING_SECONDS)
        pipe.send("ready")
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            before, cpu, began = node.metrics.as_dict(), time.process_time(), time.monotonic()
            samples: dict[str, int] = {}
            with sampled(samples) if work.sampled else nullcontext():
                await publish_all(work, lambda event: node.publish(TOPIC, event))
            cpu = time.process_time() - cpu
            sent = int(node.metrics.as_dict()["bytes_sent"]) - int(before["bytes_sent"])  # type: ignore[arg-type]
            pipe.send(PublisherReport(work.events, began, cpu, sent, samples))
