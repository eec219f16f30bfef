"""Takers that come while elements are added; networks that fall into three, or heal while work is done."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from overlay.virtual import Latency, Network, nth_host
from pubsub.collections import DASortedBag, DAStrongBag, DAStrongSequence, Element
from tests.pubsub.collections.nodes import Company, stage

TOPIC = "/EPFL/DSC"


def bad_network(seed: int) -> Network:
    return Network(seed, latency=Latency.uniform(0.001, 0.1), loss=0.02)


def split(company: Company, *sides: list[int]) -> None:
    company.network.heal()
    company.network.partition(*(map(nth_host, side) for side in sides))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.sweep)])
def test_takers_that_come_while_elements_are_added_get_each_once_and_leave_none_out(
    seed: int,
) -> None:
    async def main(company: Company) -> None:
        sets = await company.several(3, DAStrongBag, TOPIC, keep=0)
        taken: list[Any] = []
        chance = random.Random(seed)

        async def take(number: int) -> None:
            await asyncio.sleep(chance.choice([0, 0.01, 0.1]))
            await sets[number].remove(lambda element: taken.append(element.data))

        async def add_one_by_one() -> None:
            for number in range(60):
                await sets[0].add(number)

        await asyncio.gather(
            *map(take, range(3)), add_one_by_one(), sets[1].add_all(range(100, 160))
        )
        await asyncio.sleep(30)
        assert max(Counter(taken).values()) == 1
        for first in (0, 100):  # from the first that was asked for, none is left out
            mine = sorted(number for number in taken if first <= number < first + 60)
            assert mine == list(range(mine[0], first + 60))

    stage(seed, main, bad_network(seed))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2))
def test_takers_on_two_sides_leave_nothing_and_share_again_when_the_network_heals(
    seed: int,
) -> None:
    async def main(company: Company) -> None:
        publisher, *takers = await company.several(5, DAStrongBag, TOPIC, keep=0)
        chance = random.Random(seed)
        taken: list[tuple[Any, int]] = []

        async def work(place: int, element: Element) -> None:
            await asyncio.sleep(chance.uniform(0.01, 2))
            taken.append((element.data, place))

        for place, taker in enumerate(takers):
            await taker.remove(lambda element, place=place: work(place, element))
        await asyncio.sleep(3)
        for turn in range(4):
            away = [place for place in range(1, 5) if chance.random() < 0.5]
            split(company, [place for place in range(5) if place not in away], away)
            await asyncio.sleep(chance.uniform(0.5, 20))
            adding = asyncio.create_task(publisher.add_all(range(100 * turn, 100 * turn + 30)))
            await asyncio.sleep(chance.uniform(0, 6))
            company.network.heal()
            await asyncio.sleep(chance.uniform(0, 10))
            await adding
        await asyncio.sleep(200)
        assert {one for one, _ in taken} == {100 * turn + n for turn in range(4) for n in range(30)}
        assert max(Counter(taken).values()) == 1, "one taker did something twice"
        taken.clear()
        await publisher.add_all(range(1000, 1040))
        await asyncio.sleep(60)
        assert sorted(one for one, _ in taken) == list(range(1000, 1040))

    stage(seed, main, bad_network(seed))


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [DAStrongSequence, DASortedBag])
def test_a_network_that_falls_into_three_and_heals_in_two_steps_loses_nothing(
    seed: int, kind: Any
) -> None:
    async def main(company: Company) -> None:
        sets = await company.several(6, kind, TOPIC, keep=5000)
        chance = random.Random(seed)
        loop = asyncio.get_running_loop()
        end = loop.time() + 60

        async def publish(place: int) -> int:
            number = 0
            while loop.time() < end:
                await asyncio.sleep(chance.uniform(0.3, 2.0))
                number += 1
                await sets[place].add([place, number])
            return number

        publishing = [asyncio.create_task(publish(place)) for place in range(6)]
        for sides in ([[0, 1], [2, 3], [4, 5]], [[0, 1, 2, 3], [4, 5]]):
            await asyncio.sleep(5)
            split(company, *sides)
            await asyncio.sleep(chance.uniform(1, 40))
        company.network.heal()
        counts = await asyncio.gather(*publishing)
        await asyncio.sleep(120)
        everything = sorted([place, n] for place in range(6) for n in range(1, counts[place] + 1))
        assert all(sorted(one) == everything for one in sets)
        for place, one in enumerate(sets):
            await one.add([place, "after"])
        await asyncio.sleep(10)
        if kind is DASortedBag:
            assert len({str(list(one)[-6:]) for one in sets}) == 1

    stage(seed, main, bad_network(seed))
