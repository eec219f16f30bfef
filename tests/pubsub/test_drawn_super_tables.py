"""In structured mode super-topic tables are drawn from the overlay, and drawn again with the topic table."""

from __future__ import annotations

import asyncio

from bench.tiers.population import DatagramCount
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node

ROOT_MEMBERS = 12
Z = 3
"""Entries of a super-topic table, by default."""


def super_table(node: Node) -> list[str]:
    table: list[str] = node.status()["communities"]["/a"]["super_tables"].get("/", [])
    return table


async def are_full(nodes: list[Node]) -> bool:
    """A look at a table may replace one member, whose place is free until another one has confirmed."""
    for _ in range(4):
        if all(len(super_table(node)) == Z for node in nodes):
            return True
        await asyncio.sleep(0.5)
    return False


def test_the_table_holds_all_sampled_members_and_is_drawn_again() -> None:
    net = Network(3, latency=Latency.uniform(0.005, 0.05))
    count = DatagramCount()
    seen: set[str] = set()

    async def member(number: int, topic: str) -> Node:
        bootstrap = [f"{nth_host(0)}:4000"] if number else []
        node = Node(listen=f"{nth_host(number)}:4000", mode="structured", bootstrap=bootstrap)
        await node.__aenter__()
        await node.subscribe(topic).__aenter__()
        return node

    async def main() -> None:
        for number in range(ROOT_MEMBERS):
            await net.spawn(nth_host(number), member(number, "/"))
        await asyncio.sleep(60)
        count.take()
        below = [
            await net.spawn(nth_host(number), member(number, "/a"))
            for number in range(ROOT_MEMBERS, ROOT_MEMBERS + 4)
        ]
        assert "NewProcesses" not in count.take()
        assert await are_full(below)
        first = [super_table(node) for node in below]
        for _ in range(8):
            await asyncio.sleep(30)
            seen.update(super_table(below[0]))
        assert await are_full(below)
        assert [super_table(node) for node in below] != first

    with net.rule(count):
        net.run(main())
    assert len(seen) > Z
