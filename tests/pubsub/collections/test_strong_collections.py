"""Strong collections on the virtual network: delivery to all, filters, subtopics, pulling, recovery."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from overlay.errors import ClosedError
from overlay.virtual import Latency, Network, nth_host
from pubsub.collections import (
    DAC,
    CollectionError,
    DAStrongBag,
    DAStrongSequence,
    DAStrongSet,
)
from pubsub.collections.interest import Interest
from pubsub.filters import FilterError
from pubsub.reliable.tasks import TaskFailed
from pubsub.topics import Gap
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, stage

TOPIC = "/EPFL/DSC"


def test_every_subscriber_gets_every_element_once(seed: int) -> None:
    async def main(company: Company) -> None:
        bags = await company.several(5, DAStrongBag, TOPIC)
        lists: list[list[Any]] = [[] for _ in bags]
        for bag, got in zip(bags, lists, strict=True):
            await bag.contains(into(got))
        for number in range(30):
            await bags[number % 5].add(number)
        await asyncio.sleep(10)
        assert [sorted(got) for got in lists] == [list(range(30))] * 5
        assert [sorted(bag) for bag in bags] == [list(range(30))] * 5

    stage(seed, main, Network(seed, loss=0.1, duplicate=0.02))


def test_one_that_was_cut_off_gets_what_it_missed(seed: int) -> None:
    async def main(company: Company) -> None:
        first, second, away = await company.several(3, DAStrongSet, TOPIC, keep=300)
        company.network.partition({nth_host(0), nth_host(1)}, {nth_host(2)})
        await first.add_all(range(200))
        await asyncio.sleep(30)
        assert len(second) == 200
        assert len(away) == 0
        company.network.heal()
        await asyncio.sleep(FAILURE_SECONDS)
        assert sorted(away) == list(range(200))

    stage(seed, main)


def test_each_publishers_elements_come_in_order(seed: int) -> None:
    async def main(company: Company) -> None:
        sequences = await company.several(3, DAStrongSequence, TOPIC)
        for number in range(40):
            for place, sequence in enumerate(sequences):
                await sequence.add([place, number])
        await asyncio.sleep(20)
        for sequence in sequences:
            for place in range(3):
                mine = [number for who, number in sequence if who == place]
                assert mine == list(range(40))

    network = Network(seed, latency=Latency.uniform(0.005, 0.2), loss=0.1)
    stage(seed, main, network)


def test_an_expression_travels_and_spares_the_rest_the_element(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher = await company.open(DAStrongBag, TOPIC, keep=0)
        dear = await company.open(DAStrongBag, TOPIC, filter="price > 100")
        cheap = await company.open(DAStrongBag, TOPIC, keep=0)
        low: list[Any] = []
        await cheap.contains(into(low), filter="price < 10")
        await asyncio.sleep(5)
        with company.network.capture() as packets:
            await publisher.add({"price": 500, "name": "elephant"})
            await publisher.add({"price": 5, "name": "sparrow"})
            await publisher.add({"price": 50, "name": "goat"})
            await asyncio.sleep(5)
        carried = {
            name: sorted({packet.destination[0] for packet in packets if name in packet.data})
            for name in (b"elephant", b"sparrow", b"goat")
        }
        assert carried == {b"elephant": [nth_host(1)], b"sparrow": [nth_host(2)], b"goat": []}
        assert [data["name"] for data in dear] == ["elephant"]
        assert [data["name"] for data in low] == ["sparrow"]

    stage(seed, main)


def test_a_predicate_filters_locally_and_may_fail(seed: int) -> None:
    async def main(company: Company) -> None:
        bag = await company.open(DAStrongBag, TOPIC)
        got: list[Any] = []
        await bag.contains(into(got), filter=lambda data: data["x"] > 1)
        for data in ({"x": 1}, {"x": 2}, {"y": 3}, {"x": 4}):
            await bag.add(data)
        await asyncio.sleep(1)
        assert got == [{"x": 2}, {"x": 4}]
        assert "filter" in str(company.playground.nodes[0].status()["counters"])

    stage(seed, main)


def test_subtopics_come_to_those_who_ask_for_them(seed: int) -> None:
    async def main(company: Company) -> None:
        above = await company.open(DAStrongBag, "/EPFL")
        below = await company.open(DAStrongBag, "/EPFL/DSC")
        beside = await company.open(DAStrongBag, "/EPFL/LSR")
        exact: list[Any] = []
        deep: list[tuple[str, Any]] = []
        await above.contains(into(exact))
        await above.contains_all(lambda element: deep.append((element.topic, element.data)))
        await asyncio.sleep(3)
        await below.add("m1")
        await above.add("m2")
        await beside.add("m3")
        await asyncio.sleep(10)
        assert exact == ["m2"]
        assert sorted(deep) == [("/EPFL", "m2"), ("/EPFL/DSC", "m1"), ("/EPFL/LSR", "m3")]
        assert list(above) == ["m2"]
        assert list(below) == ["m1"]
        assert list(beside) == ["m3"]

    stage(seed, main)


def test_classes_are_topics_too(seed: int) -> None:
    class Vehicle:
        pass

    class Car(Vehicle):
        pass

    async def main(company: Company) -> None:
        vehicles = await company.open(DAStrongBag, Vehicle)
        cars = await company.open(DAStrongBag, Car)
        got: list[Any] = []
        await vehicles.contains_all(into(got))
        await asyncio.sleep(3)
        await cars.add("a car")
        await asyncio.sleep(5)
        assert got == ["a car"]

    stage(seed, main)


def test_the_content_is_bounded_and_can_be_pulled_from(seed: int) -> None:
    async def main(company: Company) -> None:
        strong = await company.open(DAStrongSet, TOPIC, keep=3)
        assert strong.get() is None
        for data in (1, 2, 2, 3, [4], 4):
            await strong.add(data)
        await asyncio.sleep(1)
        assert list(strong) == [3, [4], 4]
        assert [4] in strong
        assert 1 not in strong
        assert object() not in strong
        assert strong.get() == 3
        assert len(strong) == 2
        await strong.clear()
        assert not list(strong)
        assert strong.is_empty
        assert not strong

    stage(seed, main)


def test_clear_unsubscribes_and_others_go_on(seed: int) -> None:
    async def main(company: Company) -> None:
        strong = await company.open(DAStrongSet, TOPIC)
        first: list[Any] = []
        second: list[Any] = []
        interest = await strong.contains(into(first))
        await strong.contains(into(second))
        await strong.add(1)
        await asyncio.sleep(1)
        await strong.clear(interest)
        await strong.add(2)
        await asyncio.sleep(1)
        assert (first, second) == ([1], [1, 2])
        with pytest.raises(ClosedError):
            await interest

    stage(seed, main)


def test_a_callback_that_unsubscribes_is_not_called_again(seed: int) -> None:
    async def main(company: Company) -> None:
        strong = await company.open(DAStrongSet, TOPIC)
        got: list[Any] = []

        async def once(element: Any) -> None:
            await asyncio.sleep(1)
            got.append(element.data)
            await strong.clear(interest)

        interest = await strong.contains(once)
        await strong.add(1)
        await strong.add(2)
        await asyncio.sleep(5)
        assert got == [1]

    stage(seed, main)


def test_callbacks_may_be_async_and_may_fail(seed: int) -> None:
    async def main(company: Company) -> None:
        strong = await company.open(DAStrongSet, TOPIC)
        got: list[Any] = []

        async def slow(element: Any) -> None:
            await asyncio.sleep(1)
            got.append(element.data)

        def bad(element: Any) -> None:
            got.append("bad")
            raise RuntimeError("on purpose")

        await strong.contains(slow)
        await strong.contains(bad)
        await strong.add(1)
        await strong.add(2)
        await asyncio.sleep(5)
        assert got == ["bad", "bad", 1, 2]

    stage(seed, main)


def test_a_callback_that_ends_cancelled_does_not_end_the_interest(seed: int) -> None:
    async def main(company: Company) -> None:
        strong = await company.open(DAStrongSet, TOPIC)
        got: list[Any] = []

        async def awaits_what_is_cancelled(element: Any) -> None:
            got.append(element.data)
            waiting = asyncio.ensure_future(asyncio.sleep(100))
            waiting.cancel()
            await waiting

        interest = await strong.contains(awaits_what_is_cancelled)
        await strong.add_all(range(3))
        await asyncio.sleep(1)
        assert got == [0, 1, 2]
        counters = company.playground.nodes[0].status()["counters"]
        assert counters["collection_errors"] == {"notify": 3}
        await strong.clear(interest)

    stage(seed, main)


def test_nothing_is_lost_to_a_slow_subscriber(seed: int) -> None:
    async def main(company: Company) -> None:
        fast, slow = await company.several(2, DAStrongBag, TOPIC, queue=5)
        async with slow.contains() as elements:
            await fast.add_all(range(60))
            await asyncio.sleep(5)
            assert fast._hub is not None
            assert fast._hub._strong.core.held >= 60 - 6, (
                "what there is no room for is not acknowledged"
            )
            got = []
            async for element in elements:
                got.append(element.data)
                await asyncio.sleep(0.1)
                if len(got) == 60:
                    break
        assert got == list(range(60))

    stage(seed, main)


def test_one_that_crashed_goes_on_with_its_log_where_its_application_was(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        logs = [tmp_path / f"{number}.db" for number in range(3)]
        bags = [await company.open(DAStrongBag, TOPIC, log=log) for log in logs]
        done: list[Any] = []
        started: list[Any] = []

        async def work(element: Any) -> None:
            started.append(element.data)
            if element.data == "hard":
                await asyncio.sleep(1000)
            done.append(element.data)

        await bags[2].contains(work)
        await asyncio.sleep(3)
        await bags[0].add("easy")
        await bags[0].add("hard")
        await asyncio.sleep(3)
        number = company.crash(bags[2])
        await bags[1].add("while away")
        await asyncio.sleep(FAILURE_SECONDS)
        node = await company.restart(number)
        again = node.collection(DAStrongBag, TOPIC, log=logs[2])
        caught: list[Any] = []
        await again.contains(into(caught))
        await company.playground.stack.enter_async_context(again)
        await asyncio.sleep(FAILURE_SECONDS)
        assert done == ["easy"]
        assert started == ["easy", "hard"]
        assert caught == ["hard", "while away"]

    stage(seed, main)


def test_one_that_closed_and_opens_again_with_its_log_is_told_its_gap(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        publisher = await company.open(DAStrongBag, TOPIC, keep=0)
        node = await company.node()
        got: list[Any] = []
        gaps: list[Gap] = []
        for data in (["before"], ["after"]):
            collection = node.collection(
                DAStrongBag, TOPIC, keep=0, log=tmp_path / "log.db", on_gap=gaps.append
            )
            await collection.contains(into(got))
            async with collection:
                await asyncio.sleep(5)
                await publisher.add(data)
                await asyncio.sleep(10)
            assert not gaps or data == ["after"]
            await publisher.add_all(range(3))
            await asyncio.sleep(5)
        assert got == [["before"], ["after"]]
        assert [(gap.publisher, gap.first, gap.last) for gap in gaps] == [
            (publisher._collections.node.id, 2, 4)
        ]

    stage(seed, main)


def test_two_collections_of_one_topic_share_a_participant(seed: int) -> None:
    async def main(company: Company) -> None:
        node = await company.node()
        async with node.collection(DAStrongSet, TOPIC) as one:
            async with node.collection(DAStrongBag, TOPIC) as other:
                await one.add(1)
                await other.add(1)
                await asyncio.sleep(1)
                assert (list(one), list(other)) == ([1], [1, 1])
            await one.add(2)
            await asyncio.sleep(1)
            assert list(one) == [1, 2]
        async with node.collection(DAStrongSet, TOPIC) as anew:
            await anew.add(3)
            await asyncio.sleep(1)
            assert list(anew) == [3]

    stage(seed, main)


def test_wrong_use_is_told(seed: int, tmp_path: Path) -> None:

    async def main(company: Company) -> None:
        node = await company.node()
        for kind, options, problem in (
            (DAC, {}, "is not a class of collections"),
            (DAStrongSet, {"keep": -1}, "keep"),
            (DAStrongSet, {"queue": 0}, "queue"),
            (DAStrongSet, {"color": 1}, "color"),
            (DAStrongSet, {"filter": len}, "is an expression"),
        ):
            with pytest.raises(CollectionError, match=problem):
                node.collection(kind, TOPIC, **options)
        with pytest.raises(FilterError):
            node.collection(DAStrongSet, TOPIC, filter="price >")
        strong = node.collection(DAStrongSet, TOPIC)
        with pytest.raises(ClosedError):
            await strong.add(1)
        async with strong:
            with pytest.raises(CollectionError, match="entered once"):
                await strong.__aenter__()
            with pytest.raises(CollectionError, match="without this log"):
                await node.collection(DAStrongSet, TOPIC, log=tmp_path / "y").__aenter__()
        async with node.collection(DAStrongSet, "/") as root:
            with pytest.raises(CollectionError, match="name a topic"):
                await root.contains_all()

    stage(seed, main)


def test_a_collection_whose_background_work_dies_says_so(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(self: Interest, notify: Any) -> None:
        raise RuntimeError("a bug")

    async def main(company: Company) -> None:
        collection = await company.open(DAStrongBag, TOPIC, keep=0)
        elements = await collection.contains()
        waiting = asyncio.create_task(anext(elements))
        await asyncio.sleep(1)
        await collection.contains(lambda element: None)
        await asyncio.sleep(1)
        with pytest.raises(TaskFailed, match="a bug"):
            await collection.add(1)
        with pytest.raises(TaskFailed, match="a bug"):
            await asyncio.wait_for(waiting, 10)
        counted = collection._collections.node.metrics.as_dict()["background_tasks_failed"]
        assert counted == {"callbacks": 1}

    monkeypatch.setattr(Interest, "_work", dies)
    stage(seed, main)
