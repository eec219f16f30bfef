"""A fan-out on the virtual network that loses datagrams: what arrives, and what it costs in bytes.

Part of the fan-out's measurement: `camcast bench fanout --loss`. Nodes on hosts of their own, 5 to 50 ms
apart. What nodes send without any event is not counted: the same network, by the same seed, is run a second
time without the events, and what its nodes send in the same seconds is taken off."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import product

from bench.workloads.systems import TOPIC
from bench.workloads.workload import Row, RowTable, rows_of
from overlay.errors import UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node, Subscription
from pubsub.config import DisseminationKind

USUAL_DATAGRAM = 1_400
SETTLING_SECONDS = 65.0
"""Long enough that channels which carried nothing but the joining are closed: the first events open them."""
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
    delivered, sent = _run(setting, seed, setting.events)
    _, idle = _run(setting, seed, 0)
    due = setting.events * setting.subscribers
    return LossOutcome(delivered / due, (sent - idle) / max(delivered * setting.bytes, 1))


def _run(setting: LossyFanout, seed: int, events: int) -> tuple[int, int]:
    least, most = (bound / 1000 for bound in setting.latency)
    network = Network(seed, latency=Latency.uniform(least, most), loss=setting.loss)
    return network.run(_fan_out(network, setting, events))


async def _fan_out(network: Network, setting: LossyFanout, events: int) -> tuple[int, int]:
    """Publish this many events in the time of all of them: the deliveries, and the bytes that all sent."""
    async with AsyncExitStack() as stack:
        received = [0] * setting.subscribers
        tasks = []
        for number in range(setting.subscribers):
            node = await stack.enter_async_context(_node(setting, number))
            queue = await stack.enter_async_context(node.subscribe(TOPIC, queue=setting.events + 1))
            tasks.append(asyncio.create_task(_count(queue, received, number)))
        source = await stack.enter_async_context(_node(setting, setting.subscribers))
        await source.publish(TOPIC, b"")
        await asyncio.sleep(SETTLING_SECONDS)
        before, began = sum(received), network.stats.sent_bytes
        for number in range(setting.events):
            if number < events:
                await source.publish(TOPIC, bytes(setting.bytes))
            await asyncio.sleep(1 / RATE)
        await asyncio.sleep(DRAIN_SECONDS)
        result = sum(received) - before, network.stats.sent_bytes - began
        for task in tasks:
            task.cancel()
    return result


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
    sizes = options.datagram_size or [USUAL_DATAGRAM]
    for loss, size, dissemination in product(options.losses, sizes, options.dissemination):
        for number in range(options.runs):
            setting = LossyFanout(
                loss,
                dissemination,
                options.loss_subscribers,
                options.loss_bytes,
                options.loss_events,
                _bounds(options.loss_latency),
                size or USUAL_DATAGRAM,
            )
            outcome = lossy_fanout(setting, seed=number + 1)
            settings = {
                "loss": loss,
                "latency": f"{setting.latency[0]:g} to {setting.latency[1]:g} ms",
                "subscribers": setting.subscribers,
                "bytes": setting.bytes,
                "datagram_size": setting.datagram_size,
                "dissemination": dissemination,
            }
            found = {
                "reliability": (outcome.reliability, "share"),
                "bytes": (outcome.bytes_sent, "bytes/byte"),
            }
            yield from rows_of(settings, found, number)


TABLE = RowTable(
    "loss",
    "On the virtual network with losses; medians of the seeds",
    {
        "loss": "loss",
        "latency": "links of",
        "subscribers": "S",
        "bytes": "bytes",
        "datagram_size": "datagrams of",
        "dissemination": "dissemination",
    },
    {
        "reliability": "{reliability:.2%}",
        "bytes sent a byte": "{bytes:.2f}",
    },
)
