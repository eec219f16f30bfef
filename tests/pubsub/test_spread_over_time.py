"""What members send because of events leaves at different times, although all receive the same events.

When all members acknowledge or announce the same event at once, many processes wake at the moment in which
that event is on its way to some of them, and those get it late."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack

import pytest

from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.links import Packet
from pubsub import Node
from pubsub.camcast.lazy import LazyGossip

TOPIC = "/soccer"
SUBSCRIBERS = 4
INTERVAL = 0.002
EVENTS = 1000
SMALL = 40
"""Bytes that no acknowledgement of a channel is larger than, and no event as small as."""


async def fan_out(network: Network) -> tuple[float, list[Packet]]:
    """Publish an event every two milliseconds: when that began, and all datagrams."""
    async with AsyncExitStack() as stack:
        nodes = []
        for number in range(SUBSCRIBERS + 1):
            bootstrap = [f"{nth_host(0)}:4000"] if number else []
            node = Node(listen=f"{nth_host(number)}:4000", bootstrap=bootstrap)
            nodes.append(await stack.enter_async_context(node))
        for node in nodes[:-1]:
            await stack.enter_async_context(node.subscribe(TOPIC))
        await nodes[-1].publish(TOPIC, b"")
        await asyncio.sleep(30)
        for _ in range(500):  # until the tree has settled, and everybody has announced something
            await nodes[-1].publish(TOPIC, bytes(256))
            await asyncio.sleep(INTERVAL)
        began = network.now
        with network.capture() as packets:
            for _ in range(EVENTS):
                await nodes[-1].publish(TOPIC, bytes(256))
                await asyncio.sleep(INTERVAL)
        return began, packets


@pytest.mark.parametrize("seed", [2, 4])
def test_members_acknowledge_and_announce_the_same_events_at_different_times(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(seed, latency=Latency.uniform(0.0002, 0.00021))
    announced: list[float] = []
    announce = LazyGossip._announce

    def noted(gossip: LazyGossip) -> None:
        announced.append(network.now)
        announce(gossip)

    monkeypatch.setattr(LazyGossip, "_announce", noted)
    began, packets = network.run(fan_out(network))
    acknowledged: dict[int, set[str]] = defaultdict(set)
    for packet in packets:
        if packet.destination.host == nth_host(SUBSCRIBERS) and len(packet.data) < SMALL:
            acknowledged[int((packet.time - began) / INTERVAL)].add(packet.source.host)
    at_once = sum(len(sources) >= SUBSCRIBERS - 1 for sources in acknowledged.values())
    assert len(acknowledged) > EVENTS / 10
    assert at_once < 0.06 * EVENTS
    turns = [int((at - began) / INTERVAL) for at in announced if at >= began]
    turns = [turn for turn in turns if turn < EVENTS]  # and not what they announce when they leave
    assert len(turns) >= 2 * SUBSCRIBERS
    assert max(map(turns.count, turns)) < SUBSCRIBERS - 1
