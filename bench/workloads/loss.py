"""A fan-out on the virtual network that loses datagrams: what arrives, and what it costs in bytes.

Part of the fan-out's measurement: `camcast bench fanout --loss`. Nodes on hosts of their own, 5 to 50 ms
apart. The bytes that idle nodes send in as much time are measured first, and not counted."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.systems.nodes import TOPIC
from bench.workloads.workload import Row, RowTable, column
from overlay.errors import UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node, Subscription
from pubsub.config import DisseminationKind

USUAL_DATAGRAM = 1_400
SETTLING_SECONDS = 30.0
DRAIN_SECONDS = 30.0
RATE = 100.0
"""Events a second of virtual time."""


@dataclass(frozen=True)
class LossyFanout:
    """What a lossy fan-out is done with."""

    loss: float
    """Share of the datagrams that the network loses."""
    dissemination: DisseminationKind
    subscribers: int
    bytes: int
    events: int
    latency: tuple[float, float] = (5.0, 50.0)
    """Milliseconds that a datagram takes at least and at most."""
    datagram_size: int = USUAL_DATAGRAM


@dataclass(frozen=True)
class LossOutcome:
    reliability: float
    """Share of the deliveries that were due."""
    bytes_sent: float
    """Bytes that all nodes sent, for each byte of data delivered."""


def lossy_fanout(setting: LossyFanout, seed: int) -> LossOutcome:
    """One run; the same seed gives the same figures on any machine."""
    least, most = (bound / 1000 for bound in setting.latency)
    network = Network(seed, latency=Latency.uniform(least, most), loss=setting.loss)
    return network.run(_fan_out(network, setting))


async def _fan_out(network: Network, setting: LossyFanout) -> LossOutcome:
    async with AsyncExitStack() as stack:
        received = [0] * setting.subscribers
        tasks = []
        for number in range(setting.subscribers):
            node = await stack.enter_async_context(_node(setting, number))
            events = await stack.enter_async_context(
                node.subscribe(TOPIC, queue=setting.events + 1)
            )
            tasks.append(asyncio.create_task(_count(events, received, number)))
        source = await stack.enter_async_context(_node(setting, setting.subscribers))
        await source.publish(TOPIC, b"")
        await asyncio.sleep(SETTLING_SECONDS)
        busy = setting.events / RATE + DRAIN_SECONDS
        began = network.stats.sent_bytes
        await asyncio.sleep(busy)
        idle = network.stats.sent_bytes - began
        before, began = sum(received), network.stats.sent_bytes
        for _ in range(setting.events):
            await source.publish(TOPIC, bytes(setting.bytes))
            await asyncio.sleep(1 / RATE)
        await asyncio.sleep(DRAIN_SECONDS)
        sent = network.stats.sent_bytes - began - idle
        delivered = sum(received) - before
        for task in tasks:
            task.cancel()
    due = setting.events * setting.subscribers
    return LossOutcome(delivered / due, sent / max(delivered * setting.bytes, 1))


def _node(setting: LossyFanout, number: int) -> Node:
    return Node(
        listen=f"{nth_host(number)}:4000",
        bootstrap=[f"{nth_host(0)}:4000"] if number else [],
        dissemination=setting.dissemination,
        datagram_size=setting.datagram_size,
    )


async def _count(events: Subscription, received: list[int], number: int) -> None:
    async for _ in events:
        received[number] += 1


def _bounds(latency: list[float]) -> tuple[float, float]:
    if not 1 <= len(latency) <= 2 or not min(latency) > 0:
        raise UsageError("a latency is one number of milliseconds, or the least and the most")
    return min(latency), max(latency)


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Rows of each share of losses and way of dissemination; a seed for each run."""
    for loss in options.losses:
        for dissemination in options.dissemination:
            for number in range(options.runs):
                setting = LossyFanout(
                    loss,
                    dissemination,
                    options.loss_subscribers,
                    options.loss_bytes,
                    options.loss_events,
                    _bounds(options.loss_latency),
                )
                outcome = lossy_fanout(setting, seed=number + 1)
                settings = {
                    "loss": loss,
                    "latency": f"{setting.latency[0]:g} to {setting.latency[1]:g} ms",
                    "subscribers": setting.subscribers,
                    "bytes": setting.bytes,
                    "dissemination": dissemination,
                }
                yield Row("fanout", settings, "reliability", outcome.reliability, "share", number)
                yield Row("fanout", settings, "bytes", outcome.bytes_sent, "bytes/byte", number)


TABLE = RowTable(
    "loss",
    "On the virtual network with losses; medians of the seeds",
    {
        "loss": "loss",
        "latency": "links of",
        "subscribers": "S",
        "bytes": "bytes",
        "dissemination": "dissemination",
    },
    (
        column("reliability", "{:.2%}", "reliability"),
        column("bytes sent a byte", "{:.2f}", "bytes"),
    ),
)
