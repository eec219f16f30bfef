"""Nodes that come back without their collections, or never finish to open them, hold nobody up."""

from __future__ import annotations

import asyncio

import pytest

from overlay.virtual import nth_host
from pubsub.collections import DASortedBag, DAStrongBag
from pubsub.collections.interest import Interest
from pubsub.collections.wanted import parse_wanted
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, stage

TOPIC = "/EPFL/DSC"


@pytest.mark.parametrize("down", [0.5, FAILURE_SECONDS], ids=["unnoticed", "suspected"])
def test_a_node_that_comes_back_without_the_collection_holds_no_addition_up(down: float) -> None:
    async def main(company: Company) -> None:
        one, other, gone = await company.several(3, DASortedBag, TOPIC)
        got: list[int] = []
        await other.contains(into(got))
        await asyncio.sleep(3)
        number = company.crash(gone)
        await asyncio.sleep(down)
        node = await company.restart(number)
        await asyncio.sleep(FAILURE_SECONDS)
        async with asyncio.timeout(10):
            await one.add(1)
        await asyncio.sleep(10)
        assert got == [1]
        again = await company.open_on(node, DASortedBag, TOPIC)
        await asyncio.sleep(FAILURE_SECONDS)
        late: list[int] = []
        await again.contains(into(late))
        await asyncio.sleep(3)
        async with asyncio.timeout(10):
            await again.add(2)
        await asyncio.sleep(10)
        assert (got, late[-1]) == ([1, 2], 2)

    stage(1, main)


def test_one_that_gives_up_opening_a_collection_is_no_participant() -> None:
    async def main(company: Company) -> None:
        opened = await company.several(2, DAStrongBag, TOPIC)
        topics = [collection._collections.strong_topics.get(TOPIC) for collection in opened]
        node = await company.node()
        opening = asyncio.ensure_future(company.open_on(node, DAStrongBag, TOPIC))
        for _ in range(1000):
            if any(strong is not None and len(strong.participants) == 3 for strong in topics):
                break
            await asyncio.sleep(0.001)
        else:
            pytest.fail("nobody announced it")
        assert not opening.done(), "its sponsor has announced it, and it has not heard so"
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.sleep(10)
        await opened[0].add("for those who are there")
        await asyncio.sleep(10)
        for strong in topics:
            assert strong is not None
            assert (len(strong.participants), strong.core.held) == (2, 0)

    stage(1, main)


@pytest.mark.parametrize("what", ["interest", "collection"])
def test_one_that_gives_up_asking_for_elements_to_take_is_not_given_any(what: str) -> None:
    """It waits for the others to hear of it, one of which is cut off."""

    async def main(company: Company) -> None:
        giver, other, cut_off = await company.several(3, DAStrongBag, TOPIC, keep=0)
        hub = other._hub
        assert hub is not None
        company.network.partition([nth_host(2)], [nth_host(0), nth_host(1)])
        work: list[int] = []
        if what == "interest":
            asking = asyncio.ensure_future(_begin(other.remove(into(work))))
        else:
            second = other._collections.node.collection(DAStrongBag, TOPIC, keep=0)
            await second.remove(into(work))
            asking = asyncio.ensure_future(second.__aenter__())
        await asyncio.sleep(1)
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        company.network.heal()
        await asyncio.sleep(FAILURE_SECONDS)
        assert hub.members == [other]
        assert giver._hub is not None
        participants = giver._hub._strong.participants
        assert not any(parse_wanted(one.filter).takes for one in participants)
        del cut_off

    stage(1, main)


async def _begin(interest: Interest) -> None:
    await interest
