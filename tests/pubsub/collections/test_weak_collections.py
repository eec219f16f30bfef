"""Weak collections on the virtual network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pubsub.collections import (
    CollectionError,
    DAStrongSet,
    DAWeakBag,
    DAWeakSequence,
    DAWeakSet,
)
from tests.pubsub.collections.nodes import Company, into, stage
from tests.pubsub.playground import received


def test_what_is_added_reaches_everybody_and_is_in_the_content(seed: int) -> None:
    async def main(company: Company) -> None:
        bags = [await company.open(DAWeakBag, "/soccer") for _ in range(4)]
        got: list[Any] = []
        for bag in bags:
            await bag.contains(into(got))
        await asyncio.sleep(5)
        await bags[0].add({"score": "1-0"})
        await asyncio.sleep(5)
        assert got == [{"score": "1-0"}] * 4
        assert all({"score": "1-0"} in bag and len(bag) == 1 for bag in bags)

    stage(seed, main)


def test_subtopics_come_to_those_who_ask_for_them(seed: int) -> None:
    async def main(company: Company) -> None:
        above = await company.open(DAWeakBag, "/soccer")
        below = await company.open(DAWeakBag, "/soccer/italy")
        exact: list[Any] = []
        topics: list[str] = []
        await above.contains(into(exact))
        await above.contains_all(lambda element: topics.append(element.topic))
        await asyncio.sleep(5)
        await below.add(1)
        await above.add(2)
        await asyncio.sleep(5)
        assert exact == [2]
        assert sorted(topics) == ["/soccer", "/soccer/italy"]
        assert list(above) == [2]

    stage(seed, main)


def test_a_set_takes_equal_elements_once_and_a_bag_each(seed: int) -> None:
    async def main(company: Company) -> None:
        node = await company.node()
        sets = await company.open_on(node, DAWeakSet, "/a")
        bag = await company.open_on(node, DAWeakBag, "/a")
        in_set: list[Any] = []
        in_bag: list[Any] = []
        await sets.contains(into(in_set))
        await bag.contains(into(in_bag))
        for data in ({"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1}):
            await bag.add(data)
        await asyncio.sleep(1)
        assert in_set == [{"x": 1, "y": 2}, {"x": 1}]
        assert len(in_bag) == len(bag) == 3

    stage(seed, main)


def test_collections_live_beside_plain_subscriptions_of_the_same_topic(seed: int) -> None:
    async def main(company: Company) -> None:
        node = await company.node()
        async with node.subscribe("/EPFL/DSC") as events:
            weak = await company.open_on(node, DAWeakBag, "/EPFL/DSC")
            strong = await company.open_on(node, DAStrongSet, "/EPFL/DSC")
            await node.publish("/EPFL/DSC", "plain")
            await weak.add("weak")
            await strong.add("strong")
            assert [event.data for event in await received(events, 2)] == ["plain", "weak"]
            await asyncio.sleep(1)
            assert list(weak) == ["plain", "weak"]
            assert list(strong) == ["strong"]

    stage(seed, main)


def test_a_sequence_keeps_each_publishers_order(seed: int) -> None:
    async def main(company: Company) -> None:
        one, other = [await company.open(DAWeakSequence, "/a") for _ in range(2)]
        await asyncio.sleep(5)
        await one.add_all(range(50))
        await asyncio.sleep(5)
        assert list(other) == list(range(50))

    stage(seed, main)


def test_a_full_queue_drops_its_oldest_and_counts_it(seed: int) -> None:
    async def main(company: Company) -> None:
        bag = await company.open(DAWeakBag, "/a", queue=3)
        async with bag.contains() as elements:
            await bag.add_all(range(5))
            await asyncio.sleep(1)
            assert elements.dropped == 2
            assert [(await anext(elements)).data for _ in range(3)] == [2, 3, 4]
        counters = company.playground.nodes[0].status()["counters"]
        assert "queue_full" in str(counters["collection_dropped"])

    stage(seed, main)


def test_one_of_n_needs_a_strong_collection(seed: int) -> None:
    async def main(company: Company) -> None:
        bag = await company.open(DAWeakBag, "/a")
        with pytest.raises(CollectionError, match="use a strong collection"):
            bag.remove()

    stage(seed, main)
