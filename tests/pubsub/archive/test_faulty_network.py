"""Whole nodes under loss, reordering, partitions and crashes of archives and subscribers, by seed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from overlay.virtual import HostCrashed, Latency, Network, nth_host
from pubsub import Node
from pubsub.archive.errors import NoArchiveFound, NoRoom, NotSafe
from tests.pubsub.archive.checkers import History, verdict
from tests.pubsub.archive.test_durable_nodes import PORT, World

EVENTS = 60
ARCHIVES = (1, 2)
READER = 3


class Reader:
    """An application that keeps its position with its results, as if on a disk."""

    def __init__(self, world: World, history: History) -> None:
        self.world = world
        self.results = history.delivered.setdefault("reader", [])
        self.position: bytes | None = None

    async def run(self) -> None:
        settings = {"listen": f"{nth_host(READER)}:{PORT}", "bootstrap": [f"{nth_host(0)}:{PORT}"]}
        async with Node(**settings) as node:  # type: ignore[arg-type]
            subscription = node.subscribe(
                "/t", durable="reader", since="beginning", resume=self.position, within=300
            )
            async with subscription as events:
                async for event in events:
                    await asyncio.sleep(random.uniform(0, 0.05))
                    self.results.append((event.id, False))
                    self.position = events.position


async def publish(node: Node, history: History) -> None:
    pending = []
    for number in range(1, EVENTS + 1):
        await asyncio.sleep(random.uniform(0, 0.6))
        try:
            receipt = await node.publish("/t", number, durable=True, wait="sent", deadline=120)
        except (NoArchiveFound, NoRoom):
            continue
        history.published[receipt.id] = ("life", number)
        pending.append(receipt)
    for receipt in pending:
        assert receipt.durable is not None
        try:
            await receipt.durable.wait_safe(200)
        except (TimeoutError, NotSafe):
            continue
        history.acknowledged[receipt.id] = None


async def break_things(world: World, reader: Reader, running: dict[str, Any]) -> None:
    chance = random.Random(world.network.seed)
    for _ in range(6):
        await asyncio.sleep(chance.uniform(1, 5))
        victim = chance.choice([*ARCHIVES, READER, None])
        if victim is None:
            world.network.partition(
                {nth_host(chance.choice(ARCHIVES))}, {nth_host(0), nth_host(READER)}
            )
            await asyncio.sleep(chance.uniform(1, 8))
            world.network.heal()
            continue
        world.crash(victim)
        await asyncio.sleep(chance.uniform(0.1, 5))
        world.restart(victim)
        if victim == READER:
            running["reader"] = world.network.spawn(nth_host(READER), reader.run())
        else:
            await world.archive("/t", number=victim)


def run(seed: int) -> History:
    history = History()
    network = Network(seed, latency=Latency.uniform(0.001, 0.03), loss=0.03, duplicate=0.01)
    world = World(network)

    async def main() -> None:
        node = await world.node()
        for number in ARCHIVES:
            await world.archive("/t", number=number)
        reader = Reader(world, history)
        running: dict[str, Any] = {"reader": network.spawn(nth_host(READER), reader.run())}
        breaking = asyncio.create_task(break_things(world, reader, running))
        await publish(node, history)
        await breaking
        async with asyncio.timeout(300):
            while not {id for id, _ in reader.results} >= set(history.acknowledged):  # noqa: ASYNC110
                await asyncio.sleep(1)
        running["reader"].cancel()
        await asyncio.gather(running["reader"], return_exceptions=True)

    try:
        network.run(main())
    except HostCrashed:
        pytest.fail(f"seed {seed}: something waited on a crashed host")
    return history


def check(seed: int) -> None:
    history = run(seed)
    assert len(history.acknowledged) == EVENTS, f"seed {seed}"
    assert not verdict(history, "reader", ordered=True), f"seed {seed}"


def test_whole_nodes_keep_what_is_promised() -> None:
    check(1)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10, 16))
def test_whole_nodes_keep_what_is_promised_whatever_the_seed(seed: int) -> None:
    check(seed)
