"""Total order with a log: members that crash and come back go on where they were, in the one order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from overlay.virtual import Latency, nth_host
from pubsub import Node
from pubsub.collections import DASortedBag, DASortedSet, DAStrongBag, Element, NotInTime
from pubsub.reliable.journal import Change, Journal
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, stage

TOPIC = "/prices"


def check_one_order(*histories: list[Any]) -> None:
    """No two of them disagree about two elements that both have; each has an element once."""
    for history in histories:
        assert len(set(history)) == len(history), history
    for one, other in combinations(histories, 2):
        both = [element for element in one if element in set(other)]
        assert both == [element for element in other if element in set(one)]


def test_a_member_that_returns_with_its_log_gets_what_it_missed_in_the_one_order(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        got: list[list[Any]] = [[], [], []]
        members = []
        for number in range(3):
            member = (await company.node()).collection(
                DASortedSet, TOPIC, log=tmp_path / f"{number}.db", keep=0
            )
            await member.contains(into(got[number]))
            members.append(await company.playground.stack.enter_async_context(member))
        await asyncio.sleep(5)

        async def add(numbers: range, by: list[DASortedSet]) -> None:
            for number in numbers:
                await by[number % len(by)].add(number)

        await add(range(12), members)
        await asyncio.sleep(3)
        number = company.crash(members[2])
        await asyncio.sleep(FAILURE_SECONDS)
        await add(range(12, 24), members[:2])
        await asyncio.sleep(5)
        node = await company.restart(number)
        again = node.collection(DASortedSet, TOPIC, log=tmp_path / "2.db", keep=0)
        await again.contains(into(got[2]))
        await company.playground.stack.enter_async_context(again)
        await asyncio.sleep(FAILURE_SECONDS)
        await add(range(24, 36), [*members[:2], again])
        await asyncio.sleep(FAILURE_SECONDS)
        assert [sorted(history) for history in got] == [list(range(36))] * 3
        check_one_order(*got)

    stage(seed, main)


def test_what_waited_for_its_place_or_its_application_in_a_crash_comes_again(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        log = tmp_path / "log.db"
        other = await company.open(DASortedBag, TOPIC, keep=0)
        all_of_them: list[Any] = []
        await other.contains(into(all_of_them))
        first: list[Any] = []

        async def one_and_no_more(element: Element) -> None:
            first.append(element.data)
            await asyncio.sleep(3600)

        node = await company.node()
        slow = node.collection(DASortedBag, TOPIC, keep=0, log=log)
        await slow.contains(one_and_no_more)
        await company.playground.stack.enter_async_context(slow)
        await asyncio.sleep(5)
        for number in range(10):
            await (slow, other)[number % 2].add(number)
        await asyncio.sleep(5)
        assert (len(first), len(all_of_them)) == (1, 10)
        node = await company.restart(company.crash(slow))
        again = node.collection(DASortedBag, TOPIC, keep=0, log=log)
        second: list[Any] = []
        await again.contains(into(second))
        await company.playground.stack.enter_async_context(again)
        await asyncio.sleep(2 * FAILURE_SECONDS)
        assert second == all_of_them, "the first one too: its application was not done with it"
        await again.add("after")
        await asyncio.sleep(5)
        assert second[-1] == all_of_them[-1] == "after"

    stage(seed, main)


def test_members_that_return_together_wait_for_those_who_are_there(
    seed: int, tmp_path: Path
) -> None:
    """Two that hear each other before the others are a view for a moment, and have no order of its own."""

    async def main(company: Company) -> None:
        got: list[list[Any]] = [[], [], [], []]

        async def open_on(node: Node, number: int) -> DASortedSet:
            member = node.collection(DASortedSet, TOPIC, log=tmp_path / f"{number}.db", keep=0)
            await member.contains(into(got[number]))
            return await company.playground.stack.enter_async_context(member)

        members = [await open_on(await company.node(), number) for number in range(4)]
        await asyncio.sleep(5)
        await members[0].add("before")
        await asyncio.sleep(5)
        gone = [company.crash(member) for member in members[2:]]
        await asyncio.sleep(FAILURE_SECONDS)
        await members[0].add_all(["they", "are", "away"])
        nodes = [await company.restart(number) for number in gone]
        for away in gone:
            for there in (0, 1):
                slow = Latency.constant(1.5)
                company.network.link(nth_host(away), nth_host(there), latency=slow)
        again = await asyncio.gather(*map(open_on, nodes, gone))
        async with asyncio.timeout(20):
            await again[0].add("back")
        await asyncio.sleep(FAILURE_SECONDS)
        assert got == [["before", "they", "are", "away", "back"]] * 4

    stage(seed, main)


def test_clocks_go_on_after_everybody_was_down(seed: int, tmp_path: Path) -> None:
    """What is added after all members came back stands behind what one of them had not delivered yet."""

    async def main(company: Company) -> None:
        log = tmp_path / "log.db"
        alone = await company.open(DASortedBag, TOPIC, keep=0, log=log)
        await alone.add_all(range(20))
        await asyncio.sleep(2)
        node = await company.restart(company.crash(alone))
        again = await company.open_on(node, DASortedBag, TOPIC, keep=0, log=log)
        assert again._hub is not None
        assert again._hub._order.clock >= 20
        await again.add("after")
        await asyncio.sleep(2)
        assert again._hub._order.clock >= 21

    stage(seed, main)


@pytest.mark.parametrize("kind", [DAStrongBag, DASortedBag])
def test_an_addition_that_was_not_waited_for_while_its_disk_failed_comes_in_its_place(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """It keeps its clock, and one of those who take is given it, though `add` was given up."""
    fails = False
    commit = Journal._commit

    def commit_or_fail(journal: Journal, changes: Sequence[Change]) -> None:
        if fails:
            raise sqlite3.OperationalError("disk I/O error")
        commit(journal, changes)

    monkeypatch.setattr(Journal, "_commit", commit_or_fail)

    async def main(company: Company) -> None:
        nonlocal fails
        logged = await company.open(kind, TOPIC, keep=0, log=tmp_path / "log.db")
        others = [await company.open(kind, TOPIC, keep=0) for _ in range(2)]
        got: list[list[Any]] = [[], [], []]
        taken: list[Any] = []
        for member, history in zip([logged, *others], got, strict=True):
            await member.contains(into(history))
        await others[1].remove(into(taken))
        await asyncio.sleep(5)
        fails = True
        with pytest.raises(NotInTime):
            await logged.add("given up", deadline=1)
        adding = asyncio.create_task(others[0].add("later"))
        await asyncio.sleep(15)
        assert "given up" not in taken
        fails = False
        await asyncio.sleep(FAILURE_SECONDS)
        await adding
        assert [sorted(history) for history in got] == [["given up", "later"]] * 3
        assert sorted(taken) == ["given up", "later"]
        if kind is DASortedBag:
            check_one_order(*got)

    stage(seed, main)


@pytest.mark.parametrize("kind", [DAStrongBag, DASortedBag])
def test_closing_gives_back_what_the_application_was_not_done_with(
    seed: int, tmp_path: Path, kind: Any
) -> None:
    async def main(company: Company) -> None:
        other = await company.open(DAStrongBag, TOPIC, keep=0)
        node = await company.node()

        async def fail_at_the_second() -> None:
            async with (
                node.collection(kind, TOPIC, keep=0, log=tmp_path / "log.db") as collection,
                collection.contains() as elements,
            ):
                await asyncio.sleep(5)
                await other.add("first")
                await other.add("second")
                async for element in elements:
                    if element.data == "second":
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at_the_second()
        got: list[Any] = []
        again = node.collection(kind, TOPIC, keep=0, log=tmp_path / "log.db")
        await again.contains(into(got))
        async with again:
            await asyncio.sleep(FAILURE_SECONDS)
            assert got == ["second"]

    stage(seed, main)
