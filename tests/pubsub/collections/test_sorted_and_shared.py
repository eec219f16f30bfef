"""Total order and one-of-n delivery through whole nodes on the virtual network."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from overlay.errors import ClosedError
from overlay.virtual import Latency, Network, nth_host
from overlay.wire import encode
from pubsub.collections import DAC, DASortedBag, DASortedSet, DAStrongBag, DAStrongSet, Element
from pubsub.collections.messages import Addition, Announcement
from pubsub.collections.one_of_n import OneOfNConfig
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, slowly, stage

TOPIC = "/EPFL/DSC"


async def add_all(collection: DAC, name: str, count: int) -> None:
    for number in range(count):
        await collection.add([name, number])


# Total order.


def test_all_deliver_in_one_order_over_a_bad_network(seed: int) -> None:
    async def main(company: Company) -> None:
        bags = await company.several(4, DASortedBag, TOPIC)
        await asyncio.gather(*(add_all(bag, str(place), 25) for place, bag in enumerate(bags)))
        await asyncio.sleep(20)
        assert len(list(bags[0])) == 100
        assert all(list(bag) == list(bags[0]) for bag in bags)

    stage(seed, main, Network(seed, latency=Latency.uniform(0.005, 0.1), loss=0.05))


def test_the_order_goes_on_when_a_member_crashes_and_another_comes(seed: int) -> None:
    async def main(company: Company) -> None:
        bags = await company.several(4, DASortedBag, TOPIC)
        adding = [
            asyncio.ensure_future(add_all(bag, str(place), 60))
            for place, bag in enumerate(bags[:3])
        ]
        await asyncio.sleep(0.1)
        company.crash(bags[3])
        await asyncio.gather(*adding)
        newcomer = await company.open(DASortedBag, TOPIC)
        await asyncio.sleep(FAILURE_SECONDS)
        await bags[0].add("after")
        await newcomer.add("mine")
        await asyncio.sleep(10)
        assert len(list(bags[0])) == 182
        assert all(list(bag) == list(bags[0]) for bag in bags[:3])
        assert list(newcomer)[-2:] == list(bags[0])[-2:]

    stage(seed, main)


def test_after_a_partition_all_have_the_same_and_one_order_again(seed: int) -> None:
    async def main(company: Company) -> None:
        bags = await company.several(4, DASortedBag, TOPIC)
        left, right = {nth_host(0), nth_host(1)}, {nth_host(2), nth_host(3)}
        company.network.partition(left, right)
        await asyncio.sleep(FAILURE_SECONDS)
        await asyncio.gather(*(add_all(bag, str(place), 5) for place, bag in enumerate(bags)))
        await asyncio.sleep(5)
        assert list(bags[0]) == list(bags[1])
        assert list(bags[2]) == list(bags[3])
        assert len(bags[0]) == len(bags[2]) == 10
        company.network.heal()
        await asyncio.sleep(FAILURE_SECONDS)
        await asyncio.gather(*(add_all(bag, f"new {n}", 3) for n, bag in enumerate(bags)))
        await asyncio.sleep(10)
        assert all(len(bag) == 32 for bag in bags)
        assert all(list(bag)[20:] == list(bags[0])[20:] for bag in bags)
        assert list(bags[0]) == list(bags[1])
        assert list(bags[2]) == list(bags[3])

    stage(seed, main)


def test_what_is_added_through_other_strong_classes_is_ordered_too(seed: int) -> None:
    async def main(company: Company) -> None:
        plain = await company.open(DAStrongBag, TOPIC, keep=0)
        ordered = [await company.open(DASortedSet, TOPIC) for _ in range(2)]
        await asyncio.sleep(3)
        await asyncio.gather(add_all(plain, "plain", 20), add_all(ordered[0], "own", 20))
        await asyncio.sleep(10)
        assert len(ordered[0]) == 40
        assert list(ordered[0]) == list(ordered[1])

    stage(seed, main)


def test_elements_of_subtopics_come_in_one_order_too(seed: int) -> None:
    async def main(company: Company) -> None:
        above = [await company.open(DASortedBag, "/EPFL") for _ in range(2)]
        below = [await company.open(DAStrongBag, TOPIC, keep=0) for _ in range(2)]
        orders: list[list[tuple[str, Any]]] = [[], []]
        for bag, order in zip(above, orders, strict=True):
            await bag.contains_all(lambda e, order=order: order.append((e.topic, e.data)))  # type: ignore[misc]
        await asyncio.sleep(5)
        everybody = enumerate([*above, *below])
        await asyncio.gather(*(add_all(bag, str(place), 15) for place, bag in everybody))
        await asyncio.sleep(FAILURE_SECONDS)
        assert orders[0] == orders[1]
        assert Counter(topic for topic, _ in orders[0]) == {"/EPFL": 30, TOPIC: 30}
        assert list(above[0]) == [data for topic, data in orders[0] if topic == "/EPFL"]

    stage(seed, main)


def test_an_addition_that_waits_for_a_stable_view_ends_with_the_collection(seed: int) -> None:
    async def main(company: Company) -> None:
        bag, _ = await company.several(2, DASortedBag, TOPIC)
        assert bag._hub is not None
        bag._hub._view_changed(bag._hub._strong.view)
        adding = [asyncio.ensure_future(bag.add(number)) for number in range(3)]
        await asyncio.sleep(0)
        await bag.close()
        ended, waiting = await asyncio.wait(adding, timeout=FAILURE_SECONDS)
        assert not waiting
        assert all(isinstance(task.exception(), ClosedError) for task in ended)

    stage(seed, main)


def test_a_clock_that_cannot_be_does_not_stop_the_order(seed: int) -> None:
    async def main(company: Company) -> None:
        *bags, liar = await company.several(3, DASortedBag, TOPIC)
        hub = liar._hub
        assert hub is not None
        assert hub._strong.stable_view is not None
        view, stay = hub._strong.stable_view.id, hub._order._stay
        for bag in bags:
            forged = Announcement(view, stay, 0, 2**62, False, ())
            await hub._strong.send(bag._collections.node.id, encode(forged))
        for clock in (2**62, 2**62 + 1):
            await hub._strong.broadcast(encode(Addition(TOPIC, clock, 1, b"\x01")))
        await asyncio.sleep(2)
        await asyncio.gather(*(add_all(bag, str(place), 10) for place, bag in enumerate(bags)))
        await asyncio.sleep(20)
        assert len(bags[0]) == 20
        assert list(bags[0]) == list(bags[1])
        for node in company.playground.nodes[:2]:
            dropped = node.status()["counters"]["collection_dropped"]
            assert dropped == {"addition_clock": 2, "announced_clock": 1}

    stage(seed, main)


# One of n.


def test_every_element_goes_to_exactly_one_of_those_who_asked(seed: int) -> None:
    async def main(company: Company) -> None:
        sets = await company.several(4, DAStrongSet, TOPIC)
        shares: list[list[Any]] = [[], [], []]
        watched: list[Any] = []
        await sets[0].contains(into(watched))
        for strong, share in zip(sets[1:], shares, strict=True):
            await strong.remove(into(share))
        await asyncio.sleep(2)
        await sets[0].add_all(range(60))
        await asyncio.sleep(10)
        assert sorted(number for share in shares for number in share) == list(range(60))
        assert all(shares)
        assert sorted(watched) == list(range(60))

    stage(seed, main, Network(seed, loss=0.05))


@pytest.mark.parametrize("seed", range(3))
def test_what_a_crashed_taker_had_in_hand_goes_to_another(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, fallen, other = await company.several(3, DAStrongBag, TOPIC)
        begun: list[Any] = []
        done: list[Any] = []

        async def never(element: Element) -> None:
            begun.append(element.data)
            await asyncio.sleep(10_000)

        await fallen.remove(never)
        await other.remove(into(done))
        await asyncio.sleep(2)
        await publisher.add_all(range(20))
        await asyncio.sleep(3)
        assert len(begun) == 1
        assert len(done) < 20
        company.crash(fallen)
        await asyncio.sleep(FAILURE_SECONDS)
        assert Counter(done) == Counter(range(20))

    stage(seed, main)


def test_who_unsubscribes_or_fails_gives_its_elements_back(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, quitter, failing, steady = await company.several(4, DAStrongBag, TOPIC)
        done: list[Any] = []

        def fails(element: Element) -> None:
            raise RuntimeError("on purpose")

        interest = quitter.remove()
        await interest
        await failing.remove(fails)
        await asyncio.sleep(2)
        await publisher.add_all(range(6))
        await asyncio.sleep(3)
        await steady.remove(into(done))
        await quitter.clear(interest)
        await asyncio.sleep(10)
        assert Counter(done) == Counter(range(6))

    stage(seed, main)


def test_elements_go_to_takers_who_want_them_and_wait_for_one(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, takes_small, takes_large = await company.several(3, DAStrongBag, TOPIC, keep=0)
        small: list[Any] = []
        large: list[Any] = []
        await takes_small.remove(into(small), filter="$ < 10")
        await asyncio.sleep(2)
        for number in (1, 50, 2, 60):
            await publisher.add(number)
        await asyncio.sleep(3)
        assert small == [1, 2]
        await takes_large.remove(into(large), filter="$ >= 10")
        await asyncio.sleep(3)
        assert large == [50, 60]

    stage(seed, main)


def test_iterating_takes_an_element_when_the_next_is_asked_for(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, one, other = await company.several(3, DAStrongBag, TOPIC)
        got: list[Any] = []

        async def take_two_and_fail() -> None:
            async with one.remove() as elements:
                await asyncio.sleep(2)
                await publisher.add("first")
                await publisher.add("second")
                got.append((await anext(elements)).data)
                got.append((await anext(elements)).data)
                raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            await take_two_and_fail()
        async with other.remove() as elements:
            assert (await anext(elements)).data == got[1]
            assert not len(elements)

    stage(seed, main)


@pytest.mark.parametrize("seed", range(2))
def test_what_a_crashed_publisher_had_not_handed_over_is_taken_too(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, *takers = await company.several(3, DAStrongBag, TOPIC, keep=0)
        done: list[Any] = []

        for taker in takers:
            await taker.remove(slowly(done, 5))
        await asyncio.sleep(2)
        await publisher.add_all(range(30))
        await asyncio.sleep(2)
        company.crash(publisher)
        await asyncio.sleep(FAILURE_SECONDS + 100)
        assert Counter(done) == Counter(range(30))

    stage(seed, main)


def test_adding_waits_while_too_much_is_not_taken(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, taker = await company.several(2, DAStrongBag, TOPIC, keep=0)
        hub = publisher._hub
        assert hub is not None
        hub._sharing.assigner._config = OneOfNConfig(most_waiting=20, in_hand=2)
        done: list[Any] = []
        may_go_on = asyncio.Event()

        async def work(element: Element) -> None:
            await may_go_on.wait()
            done.append(element.data[1])

        await taker.remove(work)
        await asyncio.sleep(2)
        adding = asyncio.ensure_future(add_all(publisher, "job", 100))
        await asyncio.sleep(FAILURE_SECONDS)
        assert not adding.done()
        assert len(hub._sharing.assigner) == 20
        may_go_on.set()
        await adding
        await asyncio.sleep(20)
        assert sorted(done) == list(range(100))

    stage(seed, main)


def test_adding_that_waits_for_takers_goes_on_without_them_and_ends_with_the_collection(
    seed: int,
) -> None:
    async def main(company: Company) -> None:
        publisher, taker = await company.several(2, DAStrongBag, TOPIC, keep=0)
        hub = publisher._hub
        assert hub is not None
        hub._sharing.assigner._config = OneOfNConfig(most_waiting=20, in_hand=2)
        interest = await taker.remove()
        await asyncio.sleep(2)
        adding = asyncio.ensure_future(add_all(publisher, "job", 100))
        await asyncio.sleep(5)
        assert not adding.done()
        await taker.clear(interest)
        await adding
        await taker.remove()
        await asyncio.sleep(2)
        adding = asyncio.ensure_future(publisher.add("one more"))
        await asyncio.sleep(5)
        await publisher.close()
        with pytest.raises(ClosedError):
            await asyncio.wait_for(adding, FAILURE_SECONDS)

    stage(seed, main)
