"""Who waits until an event is acknowledged waits for a round trip, and not for what comes by itself later."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from overlay.virtual import Latency, Network, nth_host
from pubsub import Node

TOPIC = "/soccer"
MEMBERS = 3
ONE_WAY = 0.002


async def waits(network: Network, events: int, together: int) -> list[float]:
    """Virtual seconds that each wait took; the last one begins when the event has left already."""
    async with AsyncExitStack() as stack:
        nodes = []
        for number in range(MEMBERS + 1):
            bootstrap = [f"{nth_host(0)}:4000"] if number else []
            node = Node(listen=f"{nth_host(number)}:4000", bootstrap=bootstrap)
            nodes.append(await stack.enter_async_context(node))
        for node in nodes[:-1]:
            await stack.enter_async_context(node.subscribe(TOPIC))
        publisher = nodes[-1]
        for _ in range(3):
            await publisher.publish(TOPIC, b"")
            await asyncio.sleep(10)
        took = []
        for number in range(events):
            began = network.now
            receipts = await publisher.publish_many(TOPIC, [number] * together, wait="acked")
            took.append(network.now - began)
            assert all(receipt.acknowledged == MEMBERS for receipt in receipts)
            await asyncio.sleep(0.3)
        receipt = await publisher.publish(TOPIC, b"")
        await asyncio.sleep(ONE_WAY / 2)
        assert receipt.all_sent
        assert not receipt.acknowledged
        began = network.now
        await receipt.wait("acked")
        return [*took, network.now - began]


@pytest.mark.parametrize("together", [1, 20])
def test_waiting_for_acknowledgements_takes_a_round_trip(together: int) -> None:
    network = Network(1, latency=Latency.uniform(ONE_WAY, ONE_WAY * 1.01))
    took = network.run(waits(network, 5, together))
    assert max(took) < 3 * ONE_WAY
