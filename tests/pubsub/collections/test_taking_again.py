"""One-of-n delivery through whole nodes where publishers and takers stop and start again."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pubsub.collections import DAStrongBag, DAStrongSet, Element
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, slowly, stage

TOPIC = "/tasks"


@pytest.mark.parametrize(("count", "away"), [(30, 1.0), (80, 20.0)])
def test_what_a_publisher_had_to_give_that_returns_with_its_log_is_taken_once(
    seed: int, tmp_path: Path, count: int, away: float
) -> None:
    async def main(company: Company) -> None:
        log = tmp_path / "publisher.db"
        publisher = await company.open(DAStrongBag, TOPIC, keep=0, log=log)
        takers = await company.several(2, DAStrongBag, TOPIC, keep=0)
        done: list[Any] = []

        for taker in takers:
            await taker.remove(slowly(done, 5))
        await asyncio.sleep(2)
        await publisher.add_all(range(count))
        await asyncio.sleep(2)
        number = company.crash(publisher)
        await asyncio.sleep(away)
        node = await company.restart(number)
        again = await company.open_on(node, DAStrongBag, TOPIC, keep=0, log=log)
        await asyncio.sleep(FAILURE_SECONDS)
        await again.add("and one more")
        await asyncio.sleep(FAILURE_SECONDS + 5 * count)
        assert Counter(done) == Counter([*range(count), "and one more"])

    stage(seed, main)


def test_one_that_stopped_taking_does_not_hand_on_what_others_took(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, quitter, steady = await company.several(3, DAStrongBag, TOPIC, keep=0)
        taken: list[Any] = []
        again: list[Any] = []

        interest = await quitter.remove()
        await steady.remove(slowly(taken, 5))
        await asyncio.sleep(2)
        await publisher.add_all(range(4))
        await asyncio.sleep(1)
        await quitter.clear(interest)
        await asyncio.sleep(120)
        assert sorted(taken) == list(range(4))
        newcomer = await company.open(DAStrongBag, TOPIC, keep=0)
        await newcomer.remove(into(again))
        await asyncio.sleep(5)
        company.crash(publisher)
        await asyncio.sleep(FAILURE_SECONDS + 20)
        assert not again
        assert len(taken) == 4

    stage(seed, main)


def test_takers_who_stop_and_start_again_get_each_element_once(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, *takers = await company.several(4, DAStrongBag, TOPIC, keep=0)
        done: list[Any] = []

        interests = [await taker.remove(slowly(done, 0.1)) for taker in takers]
        await asyncio.sleep(2)
        for number in range(60):
            await publisher.add(number)
            if number % 5 == 0:
                place = number // 5 % 3
                await asyncio.sleep(0.05)
                await takers[place].clear(interests[place])
                await asyncio.sleep(0.5)
                interests[place] = await takers[place].remove(slowly(done, 0.1))
        await asyncio.sleep(100)
        assert Counter(done) == Counter(range(60))
        company.crash(publisher)
        await asyncio.sleep(FAILURE_SECONDS)
        assert Counter(done) == Counter(range(60))

    stage(seed, main)


def test_a_callback_that_unsubscribes_has_taken_its_element_when_it_returns(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, one, other = await company.several(3, DAStrongBag, TOPIC, keep=0)
        worked: list[tuple[str, Any]] = []

        async def once(element: Element) -> None:
            worked.append(("one", element.data))
            await one.clear(interest)
            await asyncio.sleep(5)  # the others hear that it does not take any more

        interest = await one.remove(once)
        await asyncio.sleep(2)
        for job in ("first", "second"):
            await publisher.add(job)
        await asyncio.sleep(2)
        await other.remove(lambda element: worked.append(("other", element.data)))
        await asyncio.sleep(20)
        assert worked == [("one", "first"), ("other", "second")]

    stage(seed, main)


def test_a_set_takes_of_equal_elements_one_and_a_bag_each(seed: int) -> None:
    async def main(company: Company) -> None:
        publisher, bag = await company.several(2, DAStrongBag, TOPIC, keep=0)
        strong = await company.open(DAStrongSet, TOPIC)
        attempts: list[Any] = []
        done: list[Any] = []

        async def fails_at_first(element: Element) -> None:
            attempts.append(element.data)
            await asyncio.sleep(1)
            if len(attempts) == 1:
                raise RuntimeError("on purpose")
            done.append(element.data)

        interest = await strong.remove(fails_at_first)
        await asyncio.sleep(3)
        for _ in range(3):
            await publisher.add({"a": 1, "b": 2})
            await publisher.add({"b": 2, "a": 1})
        await asyncio.sleep(20)
        assert len(attempts) == 2
        assert done == [{"a": 1, "b": 2}]
        assert publisher._hub is not None
        assert not len(publisher._hub._sharing.assigner)
        await strong.clear(interest)
        both: list[Any] = []
        await bag.remove(into(both))
        await asyncio.sleep(3)
        for _ in range(2):
            await publisher.add({"a": 1, "b": 2})
        await asyncio.sleep(3)
        assert both == [{"a": 1, "b": 2}] * 2

    stage(seed, main)


def test_one_that_takes_with_a_log_holds_up_nothing_and_is_given_all_when_it_returns(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        publisher = await company.open(DAStrongBag, TOPIC, keep=0)
        taker = await company.open(DAStrongBag, TOPIC, keep=0, log=tmp_path / "taker.db")
        begun: list[Any] = []
        seen: list[Any] = []

        async def never(element: Element) -> None:
            begun.append(element.data)
            await asyncio.sleep(10_000)

        await taker.remove(never)
        await taker.contains(into(seen))
        await asyncio.sleep(3)
        await publisher.add_all(range(20))
        await asyncio.sleep(5)
        assert begun == [0]
        assert seen == list(range(20))
        number = company.crash(taker)
        await asyncio.sleep(1)
        node = await company.restart(number)
        again = node.collection(DAStrongBag, TOPIC, keep=0, log=tmp_path / "taker.db")
        done: list[Any] = []
        await again.remove(into(done))
        await company.playground.stack.enter_async_context(again)
        await asyncio.sleep(FAILURE_SECONDS)
        assert Counter(done) == Counter(range(20))

    stage(seed, main)


def test_what_is_added_after_remove_has_returned_is_taken_though_its_taker_was_inside_before(
    seed: int,
) -> None:
    async def main(company: Company) -> None:
        publisher, taker, other = await company.several(3, DAStrongBag, TOPIC, keep=0)
        taken: list[Any] = []
        await taker.remove(into(taken))
        await publisher.add("at once")
        await other.add("elsewhere")
        await asyncio.sleep(5)
        assert sorted(taken) == ["at once", "elsewhere"]

    stage(seed, main)


def test_what_is_added_after_contains_has_returned_comes_though_nothing_was_wanted_before(
    seed: int,
) -> None:
    async def main(company: Company) -> None:
        publisher, watcher = await company.several(2, DAStrongBag, TOPIC, keep=0)
        got: list[Any] = []
        await watcher.contains(into(got))
        await publisher.add("at once")
        await asyncio.sleep(5)
        assert got == ["at once"]

    stage(seed, main)
