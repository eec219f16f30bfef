"""Queues are bounded, each drop is counted, and a subscription ends when it should."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import PeerId
from overlay.metrics import Metrics
from pubsub.event import Batch, Origin
from pubsub.subscription import Deliveries, Subscription, SubscriptionError
from pubsub.topic import Pattern


class NodeStub:
    """Opens and closes subscriptions at once."""

    async def _open_subscription(self, subscription: Subscription) -> None: ...

    async def _close_subscription(self, subscription: Subscription) -> None: ...


def batch(*numbers: int, topic: str = "/a") -> Batch:
    """Events of consecutive numbers, whose data are their numbers."""
    return Batch(Origin(topic, PeerId(bytes(20)), bytes(8), 1), numbers[0], list(numbers))


def subscription(pattern: str = "/a", **options: Any) -> Subscription:
    settings = {"order": "none", "overflow": "drop_oldest", "queue": 3, **options}
    deliveries = Deliveries(Metrics())
    return Subscription(NodeStub(), Pattern.of(pattern), deliveries, **settings)  # type: ignore[arg-type]


async def numbers(events: Subscription) -> list[int]:
    events.end()
    return [e.data async for e in events]


@pytest.mark.parametrize(
    ("overflow", "kept", "dropped"),
    [("drop_oldest", [3, 4, 5], 2), ("drop_newest", [1, 2, 3], 2), ("block", [1, 2, 3, 4, 5], 0)],
)
def test_a_full_queue_does_what_its_policy_says(
    overflow: str, kept: list[int], dropped: int
) -> None:
    async def main() -> None:
        async with subscription(overflow=overflow) as events:
            for number in range(1, 6):
                events.offer(batch(number))
            assert events.dropped == dropped
            assert await numbers(events) == kept

    asyncio.run(main())


@pytest.mark.parametrize(
    ("overflow", "kept", "delivered"),
    [("drop_oldest", [5, 6, 7], 4), ("drop_newest", [0, 1, 2], 3)],
)
def test_of_more_events_than_fit_at_once_those_that_never_fitted_are_not_delivered(
    overflow: str, kept: list[int], delivered: int
) -> None:
    async def main() -> None:
        async with subscription(overflow=overflow) as events:
            events.offer(batch(0))
            events.offer(batch(*range(1, 8)))
            assert events._deliveries._delivered.value == delivered
            assert events.dropped == 5
            assert await numbers(events) == kept

    asyncio.run(main())


def test_block_is_bounded_too_and_lets_publishers_wait_for_room() -> None:
    async def main() -> None:
        async with subscription(overflow="block") as events:
            for number in range(60):
                events.offer(batch(number))
            assert (len(events), events.dropped) == (48, 12)
            waiter = asyncio.create_task(events.wait_for_space())
            for _ in range(45):
                await anext(events)
            await asyncio.sleep(0)
            assert not waiter.done()
            await anext(events)
            await waiter

    asyncio.run(main())


def test_only_what_matches_the_pattern_is_taken() -> None:
    async def main() -> None:
        async with subscription("/a/*") as events:
            for number, topic in enumerate(["/a", "/a/b", "/a/b/c", "/a/c"]):
                events.offer(batch(number, topic=topic))
            assert await numbers(events) == [1, 3]

    asyncio.run(main())


def test_events_wake_a_waiting_iterator_and_the_end_ends_it() -> None:
    async def main() -> None:
        async with subscription(queue=10) as events:
            got: list[int] = []

            async def consume() -> None:
                async for e in events:
                    got.append(e.data)

            consumer = asyncio.create_task(consume())
            await asyncio.sleep(0)
            events.offer(batch(1))
            events.offer(batch(2))
            await asyncio.sleep(0)
            assert got == [1, 2]
            events.end()
            await consumer

    asyncio.run(main())


def test_fifo_orders_what_one_publisher_sent() -> None:
    async def main() -> None:
        async with subscription(order="fifo", queue=10) as events:
            for number in (1, 3, 2, 5):
                events.offer(batch(number))
            assert len(events) == 3
            assert await numbers(events) == [1, 2, 3, 5]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "causal"}, "order is"),
        ({"overflow": "grow"}, "overflow is"),
        ({"queue": 0}, "queue is a number"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    async def main() -> None:
        with pytest.raises(SubscriptionError, match=words):
            subscription(**options)

    asyncio.run(main())


def test_misuse_is_said_in_a_sentence() -> None:
    async def main() -> None:
        events = subscription()
        with pytest.raises(SubscriptionError, match="inside `async with`"):
            await anext(events)
        async with events:
            with pytest.raises(SubscriptionError, match="entered once"):
                await events.__aenter__()
            first = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            with pytest.raises(SubscriptionError, match="another task"):
                await anext(events)
            first.cancel()

    asyncio.run(main())
