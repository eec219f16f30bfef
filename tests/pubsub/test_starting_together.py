"""Ready means ready, also for nodes that start at the same moment: no first event is lost."""

from __future__ import annotations

import asyncio

import pytest

from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from tests.pubsub.playground import Playground, play, received

NODES = 5


def first_events_missed(seed: int, mode: str) -> list[str]:
    """One node runs; four start together and name it and each other. Each publishes when it is ready."""
    net = Network(seed, latency=Latency.uniform(0.005, 0.2))
    addresses = [f"{nth_host(number)}:4000" for number in range(NODES)]
    nodes: dict[int, Node] = {}
    everyone = asyncio.Event()
    got: list[set[str]] = [set() for _ in range(NODES)]

    async def member(number: int) -> None:
        others = [address for address in addresses if address != addresses[number]]
        node = Node(listen=addresses[number], mode=mode, bootstrap=others if number else [])
        async with node, node.subscribe("/t") as events:
            nodes[number] = node
            if len(nodes) == NODES:
                everyone.set()
            if number:
                await node.publish("/t", f"from {number}")
            async for event in events:
                got[number].add(event.data)

    async def main() -> None:
        net.spawn(nth_host(0), member(0))
        await asyncio.sleep(30)
        for number in range(1, NODES):
            net.spawn(nth_host(number), member(number))
        await everyone.wait()
        await net.spawn(nth_host(0), nodes[0].publish("/t", "from 0"))
        await asyncio.sleep(20)

    net.run(main(), limit=200)
    missed = [f"0 misses {n}" for n in range(1, NODES) if f"from {n}" not in got[0]]
    return missed + [f"{n} misses 0" for n in range(1, NODES) if "from 0" not in got[n]]


@pytest.mark.parametrize("seed", [2, 15, 24, 74])
@pytest.mark.parametrize("mode", ["structured", "semi-structured"])
def test_no_first_event_is_lost_between_nodes_that_start_together(seed: int, mode: str) -> None:
    assert first_events_missed(seed, mode) == []


@pytest.mark.parametrize("seed", [24, 25])
def test_a_publisher_finds_the_members_over_a_link_that_loses_one_in_five(seed: int) -> None:
    async def main(p: Playground) -> None:
        subscriptions = await p.subscribers("/a", 3)
        publisher = await p.node()
        p.network.link(nth_host(0), nth_host(3), loss=0.2)
        for number in range(5):
            await publisher.publish("/a", number)
        for events in subscriptions:
            assert len(await received(events, 5)) == 5

    play(seed, main)


@pytest.mark.parametrize(
    ("mode", "seed"),
    [
        *[("structured", seed) for seed in (1, 9, 15, 22)],
        *[("hyparview", seed) for seed in (6, 16, 18, 25, 49, 85)],
        *[("semi-structured", seed) for seed in (16, 18)],
    ],
)
def test_no_first_event_is_lost_though_datagrams_are_and_members_come_back(
    mode: str, seed: int
) -> None:
    """One in ten is lost; the goodbye of a member that is back already may be one that is sent again.

    Who is ready must be found by a publisher that comes a moment later, or its first event is for nobody."""

    async def main(p: Playground) -> None:
        writer, reader = await p.node(), await p.node()
        for number in range(12):
            async with reader.subscribe("/work") as events:
                await writer.publish("/work", number)
                assert [event.data for event in await received(events, 1)] == [number]

    play(seed, main, mode, Network(seed, loss=0.1, duplicate=0.1))
