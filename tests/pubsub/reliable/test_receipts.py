"""One ladder of words for how far a message has come, wherever it is published; and one budget for a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.errors import ClosedError, UsageError
from overlay.virtual import Network, nth_host
from pubsub.broadcast import Group
from pubsub.collections import DAStrongBag, DAStrongSequence, DAWeakBag, Gap, GapError, NotInTime
from pubsub.collections.dac import CollectionError
from pubsub.distributors import Distributor, Publisher
from pubsub.reliable.receipts import MessageReceipt, News, budget, check_wait
from tests.pubsub.collections.nodes import Company, into, stage

TOPIC = "/EPFL/DSC"


def test_words_that_are_not_on_the_ladder_and_deadlines_without_sense_are_refused() -> None:
    check_wait("safe")
    check_wait("acked", 3.0, most="acked")
    with pytest.raises(UsageError, match='wait is one of "sent", "acked" here'):
        check_wait("safe", most="acked")
    with pytest.raises(UsageError, match="deadline is seconds, more than 0, not 0"):
        check_wait("sent", 0)


def test_a_budget_that_is_spent_says_what_took_so_long() -> None:
    async def main() -> None:
        with pytest.raises(NotInTime, match="the letter took more than 2 s"):
            async with budget(2.0, "the letter"):
                await asyncio.sleep(60)

    Network(1).run(main())


def test_a_receipt_is_woken_by_each_change_and_ends_with_its_publisher() -> None:
    async def main() -> None:
        far = ["sent"]
        news: list[asyncio.Future[None]] = []

        async def change() -> None:
            news.append(asyncio.get_running_loop().create_future())
            await news[-1]

        receipt = MessageReceipt(7, lambda wait: wait in far, change)
        assert (receipt.is_acked, receipt.is_safe) == (False, False)
        assert repr(receipt) == "MessageReceipt(#7: sent)"
        waiting = asyncio.create_task(receipt.wait("safe"))
        await asyncio.sleep(1)
        far.append("acked")
        news[-1].set_result(None)
        await asyncio.sleep(1)
        assert not waiting.done()
        assert receipt.is_acked
        news[-1].set_exception(ClosedError("gone"))
        with pytest.raises(ClosedError):
            await waiting

    Network(1).run(main())


def test_an_element_is_acked_when_another_node_has_it_and_safe_when_all_have(seed: int) -> None:
    async def main(company: Company) -> None:
        one, two, three = await company.several(3, DAStrongBag, TOPIC)
        receipt = await one.add("first")
        assert isinstance(receipt, MessageReceipt)
        await receipt.wait("safe")
        assert list(two) == list(three) == ["first"]
        company.crash(three)
        second = await one.add("second", wait="acked", deadline=60)
        assert isinstance(second, MessageReceipt)
        assert list(two) == ["first", "second"]
        assert not second.is_safe, "one may come back, and is waited for"
        with pytest.raises(NotInTime, match=f"adding to {TOPIC} took more than 5 s"):
            await one.add("third", wait="safe", deadline=5.0)
        several = await one.add_all(["fourth", "fifth"], wait="acked")
        assert [r.is_acked for r in several if isinstance(r, MessageReceipt)] == [True, True]
        await one.close()
        with pytest.raises(ClosedError):
            await second.wait("safe")

    stage(seed, main)


def test_a_weak_collection_gives_receipts_too_and_promises_less(seed: int) -> None:
    async def main(company: Company) -> None:
        one, two = await company.several(2, DAWeakBag, TOPIC)
        receipt = await one.add("element", wait="acked")
        assert not isinstance(receipt, MessageReceipt)
        assert receipt.acknowledged == 1
        assert list(two) == ["element"]
        with pytest.raises(UsageError, match="wait is one of"):
            await one.add("element", wait="safe")
        with pytest.raises(CollectionError, match="one semantics"):
            await one.add("element", semantics="stubborn")

    stage(seed, main)


def test_stubborn_and_best_effort_elements_come_to_sets_and_bags(seed: int) -> None:
    async def main(company: Company) -> None:
        one, two = await company.several(2, DAStrongBag, TOPIC)
        await one.add("reliable")
        await one.add("stubborn", semantics="stubborn")
        receipt = await one.add("best effort", semantics="best-effort")
        assert isinstance(receipt, MessageReceipt)
        assert not receipt.is_acked
        await asyncio.sleep(5)
        assert {*two} == {*one} == {"reliable", "stubborn", "best effort"}
        with pytest.raises(UsageError, match='wait is one of "sent" here'):
            await one.add("x", semantics="stubborn", wait="acked")
        sequence = await company.open(DAStrongSequence, TOPIC)
        with pytest.raises(CollectionError, match="one semantics"):
            await sequence.add("x", semantics="best-effort")

    stage(seed, main)


def test_a_group_knows_when_a_message_is_safe_if_its_broadcast_is_uniform() -> None:
    network = Network(3, loss=0.1)
    members = [f"{nth_host(number)}:4000" for number in range(3)]
    delivered: list[list[Any]] = [[], [], []]

    async def member(rank: int, qos: str, sends: bool) -> None:
        async with Group(members, rank, qos, order="fifo") as group:
            await group.met()
            if sends:
                receipt = await group.broadcast("hello", wait="safe", deadline=30)
                assert (receipt.number, receipt.is_safe) == (1, True)
            async for message in group:
                delivered[rank].append(message.data)

    async def main() -> None:
        tasks = [network.spawn(nth_host(r), member(r, "iurb", r == 0)) for r in range(3)]
        await asyncio.sleep(30)
        assert delivered == [["hello"]] * 3
        for task in tasks:
            task.cancel()

    async def alone() -> None:
        async with Group(members[:1], 0, "beb") as group:
            await group.broadcast("hello")
            with pytest.raises(UsageError, match='wait is one of "sent" here'):
                await group.broadcast("hello", wait="safe")

    network.run(main())
    Network(4).run(alone())


def test_a_publisher_of_a_service_has_the_same_ladder() -> None:
    network = Network(5)

    async def main() -> None:
        async with (
            Distributor(["ticker"], listen=f"{nth_host(0)}:4000") as first,
            Publisher(
                distributors=[f"{nth_host(0)}:4000"], listen=f"{nth_host(0)}:4001"
            ) as publisher,
        ):
            await first.ready()
            receipt = await publisher.publish("ticker", 1, wait="safe", deadline=30)
            assert (receipt.number, receipt.is_acked, receipt.is_safe) == (1, True, True)
            with pytest.raises(UsageError, match="wait is one of"):
                await publisher.publish("ticker", 1, wait="soon")  # type: ignore[arg-type]

    network.run(main(), limit=600)


def test_what_will_never_come_is_skipped_given_or_raised_as_an_interest_wants(seed: int) -> None:
    async def main(company: Company) -> None:
        one = await company.open(DAStrongBag, TOPIC)
        told: list[Any] = []
        skipped: list[Any] = []
        await one.contains(told.append, gaps="give")
        await one.contains(into(skipped))
        gap = Gap(one._collections.node.id, bytes(8), 1, 3, "lost")
        async with one.contains(gaps="raise") as elements:
            assert one._hub is not None
            one._hub._gap(gap)
            await one.add("after it")
            with pytest.raises(GapError) as raised:
                await anext(elements)
            assert raised.value.gap == gap
            assert (await anext(elements)).data == "after it"
        await asyncio.sleep(1)
        assert told[0] == gap
        assert [element.data for element in told[1:]] == skipped == ["after it"]
        with pytest.raises(UsageError, match='gaps is "skip"'):
            one.contains(gaps="perhaps")  # type: ignore[arg-type]

    stage(seed, main)


def test_the_local_content_is_a_collection_of_python(seed: int) -> None:
    async def main(company: Company) -> None:
        one = await company.open(DAStrongBag, TOPIC)
        assert one.is_empty
        assert not one
        await one.add_all([1, [2, 3], "four"], wait="sent")
        await asyncio.sleep(1)
        assert one
        assert one.remove([2, 3])
        assert not one.remove("five")
        assert list(one) == [1, "four"]

    stage(seed, main)


def test_an_element_outside_reliable_broadcast_is_known_to_be_sent_and_no_more() -> None:
    async def main(company: Company) -> None:
        bag = await company.open(DAStrongBag, TOPIC)
        receipt = await bag.add("one", semantics="stubborn")
        await receipt.wait("sent")
        with pytest.raises(UsageError, match='known to be "sent", and no more'):
            await receipt.wait("acked")

    stage(4, main)


def test_news_wake_all_who_wait_and_nobody_later() -> None:
    async def main() -> None:
        news, woken = News(), []

        async def wait(name: str) -> None:
            await news.wait()
            woken.append(name)

        news.tell()  # nobody waits: it is forgotten
        waiting = [asyncio.create_task(wait(name)) for name in "abc"]
        await asyncio.sleep(1)
        assert (len(news), woken) == (3, [])
        waiting[1].cancel()
        news.tell()
        waiting.append(asyncio.create_task(wait("late")))
        await asyncio.sleep(1)
        assert woken == ["a", "c"]
        assert len(news) == 1
        waiting[-1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    Network(1).run(main())
