"""What one who lives has, all who live are given; beyond that they are told a gap, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.identity import Identity
from overlay.virtual import Latency, Network, nth_host
from pubsub import Gap
from pubsub.collections import DAStrongSequence, DAStrongSet
from tests.pubsub.collections.nodes import Company, into, stage
from tests.pubsub.playground import PORT, play


def fail(_: Gap) -> None:
    raise RuntimeError("this callback fails, and no other collection of the node misses its gap")


@pytest.mark.parametrize(("kind", "seconds"), [(DAStrongSet, 20), (DAStrongSequence, 80)])
def test_what_comes_behind_elements_that_died_with_their_publisher_is_given(
    kind: type[DAStrongSet] | type[DAStrongSequence], seconds: float
) -> None:
    """Others have 11 to 15 of a dead publisher, and nobody has 1 to 10."""
    got: list[Any] = []
    gaps: list[Any] = []

    async def main(company: Company) -> None:
        await company.node()
        publisher = await company.open(kind, "/s", keep=0)
        holder = await company.open(kind, "/s", keep=0)
        on_one = await company.node()
        await company.open_on(on_one, kind, "/s", keep=0, on_gap=fail)
        away = await company.open_on(on_one, kind, "/s", keep=0, on_gap=gaps.append)
        await away.contains(into(got))
        await asyncio.sleep(5)
        company.network.partition([nth_host(3)], [nth_host(n) for n in (0, 1, 2, 4)])
        for number in range(1, 6):
            await publisher.add(number)
        await asyncio.sleep(2)
        await holder.close()
        await asyncio.sleep(30)
        for number in range(6, 11):
            await publisher.add(number)
        await asyncio.sleep(2)
        newcomer = await company.open(kind, "/s", keep=0)
        await newcomer.contains(lambda element: None)
        await asyncio.sleep(5)
        for number in range(11, 16):
            await publisher.add(number)
        await asyncio.sleep(5)
        company.crash(publisher)
        company.network.heal()
        await asyncio.sleep(seconds)
        assert sorted(got) == [11, 12, 13, 14, 15]
        if kind is DAStrongSequence:
            assert got == sorted(got)
            assert [(gap.first, gap.last) for gap in gaps] == [(1, 10)]

    stage(6, main)


def test_a_sequence_with_a_log_keeps_the_order_while_it_catches_up(tmp_path: Any) -> None:
    """Seed 32 once gave an element before its predecessor."""
    seed, got = 32, []
    network = Network(seed=seed, latency=Latency.uniform(0.005, 0.05), loss=0.05)

    async def main(playground: Any) -> None:
        host = nth_host(1)
        one = await playground.node()

        async def subscriber() -> None:
            node = await playground._start(1, PORT, {"identity": Identity(bytes(32))})
            collection = node.collection(DAStrongSequence, "/s", keep=0, log=tmp_path / "s.db")
            await collection.contains(into(got))
            await collection.__aenter__()

        async with one.collection(DAStrongSequence, "/s", keep=0) as sequence:
            await subscriber()
            await asyncio.sleep(5)
            network.crash(host)

            async def add(count: int, pause: float) -> None:
                for _ in range(count):
                    add.number += 1  # type: ignore[attr-defined]
                    await sequence.add(add.number)  # type: ignore[attr-defined]
                    await asyncio.sleep(pause)

            add.number = 0  # type: ignore[attr-defined]
            await add(80 + seed, 0.01)
            await asyncio.sleep(20)
            network.restart(host)
            adding = asyncio.ensure_future(add(90, 0.05))
            await subscriber()
            await adding
            await asyncio.sleep(20)
        assert got == sorted(got)
        assert got[-1] == 80 + seed + 90

    play(seed, main, "structured", network)


@pytest.mark.parametrize(("seed", "loss"), [(1, 0.0), (2, 0.0), (4, 0.2), (5, 0.2)])
def test_all_who_enter_at_the_same_moment_get_what_any_of_them_adds_at_once(
    seed: int, loss: float
) -> None:
    """None of them finds another, so each begins the topic by itself."""
    got: list[list[Any]] = [[] for _ in range(4)]
    gaps: list[Any] = []
    network = Network(seed, latency=Latency.uniform(0.005, 0.2), loss=loss)

    async def main(company: Company) -> None:
        nodes = [await company.node() for _ in got]
        await asyncio.sleep(10)

        async def enter_and_add(number: int) -> float:
            collection = nodes[number].collection(DAStrongSet, "/s", keep=0, on_gap=gaps.append)
            await collection.contains(into(got[number]))
            await company.playground.stack.enter_async_context(collection)
            inside = network.now
            for element in range(5):
                await collection.add([number, element])
            return inside

        inside = await asyncio.gather(*map(enter_and_add, range(4)))
        await asyncio.sleep(30)
        for number in range(4):
            later = [other for other in range(4) if inside[other] >= inside[number]]
            for element in ([other, e] for other in later for e in range(5)):
                assert element in got[number]
            assert len(got[number]) == len({tuple(e) for e in got[number]})

    stage(seed, main, network)


@pytest.mark.parametrize("seed", range(3))
def test_takers_that_enter_with_the_publisher_get_each_element_once(seed: int) -> None:
    took: list[Any] = []
    network = Network(seed, latency=Latency.uniform(0.005, 0.2))

    async def main(company: Company) -> None:
        nodes = [await company.node() for _ in range(4)]
        await asyncio.sleep(10)

        async def enter(number: int) -> None:
            collection = nodes[number].collection(DAStrongSet, "/s", keep=0)
            if number:
                await collection.remove(into(took))
            await company.playground.stack.enter_async_context(collection)
            if number == 0:
                for element in range(20):
                    await collection.add(element)

        await asyncio.gather(*map(enter, range(4)))
        await asyncio.sleep(30)
        assert sorted(took) == list(range(20))

    stage(seed, main, network)
