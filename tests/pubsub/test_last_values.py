"""Last values: a newcomer is given the last event of each topic first, by members or by an archive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import ID_BYTES, PeerId
from overlay.errors import UsageError
from overlay.metrics import Metrics
from overlay.virtual import Latency, Network
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.camcast.latest import MOST_BYTES, MOST_TOPICS, LatestBlocks
from pubsub.data import pack_data
from pubsub.event import RUN_BYTES, SOURCE_BYTES, Batch, Block, Head, Origin, make_block
from pubsub.subscription import Deliveries, Subscription
from pubsub.topic import Pattern
from tests.pubsub.archive.test_durable_nodes import World
from tests.pubsub.archive.test_durable_nodes import play as play_durable
from tests.pubsub.playground import MODES, Playground, play, received


@pytest.mark.parametrize("mode", MODES)
def test_a_newcomer_gets_the_last_value_first_and_once(mode: str) -> None:
    async def main(playground: Playground) -> None:
        publisher, _ = await playground.subscriber("/weather")
        await playground.subscribers("/weather", 3)
        for number in range(5):
            await publisher.publish("/weather", number, wait="acked")
        await asyncio.sleep(60)  # long after events are kept for repair
        _, events = await playground.subscriber("/weather", last=True)
        assert [event.data for event in events.waiting()] == [4]
        await publisher.publish("/weather", 5)
        assert [event.data for event in await received(events, 2)] == [4, 5]
        await asyncio.sleep(5)
        assert not len(events), "nothing came twice"

    network = Network(7, latency=Latency.uniform(0.005, 0.05), loss=0.1, duplicate=0.1)
    play(7, main, mode, network)


def test_one_member_that_answers_late_is_waited_for() -> None:
    async def main(playground: Playground) -> None:
        publisher, _ = await playground.subscriber("/weather")
        await publisher.publish("/weather", "sunny")
        await asyncio.sleep(10)
        _, events = await playground.subscriber("/weather", last=True)
        assert [event.data for event in events.waiting()] == ["sunny"]

    # A question, the lease that its answer needs, and the answer: five times a way.
    play(3, main, network=Network(3, latency=Latency.constant(0.3)))


def test_the_publisher_may_be_gone_and_a_newcomer_hands_on_what_it_was_given() -> None:
    async def main(playground: Playground) -> None:
        _, first = await playground.subscriber("/weather")
        publisher = await playground.node()
        await publisher.publish("/weather", "sunny", wait="acked")
        await publisher.close()
        await asyncio.sleep(30)
        _, second = await playground.subscriber("/weather", last=True)
        assert [event.data for event in second.waiting()] == ["sunny"]
        await first.close()
        await playground.nodes[0].close()
        await asyncio.sleep(30)
        playground.nodes[0] = playground.nodes[2]  # whom the next node asks for the network
        _, third = await playground.subscriber("/weather", last=True)
        assert [event.data for event in third.waiting()] == ["sunny"]

    play(1, main, "structured")


def test_each_topic_below_has_its_own_last_value_and_patterns_choose() -> None:
    async def main(playground: Playground) -> None:
        await playground.subscriber("/weather")
        publisher = await playground.node()
        for town in ("rome", "oslo", "oslo/harbour"):
            for degrees in (10, 11):
                await publisher.publish(f"/weather/{town}", degrees, wait="acked")
                await asyncio.sleep(1)
        _, events = await playground.subscriber("/weather", last=True)
        values = [(event.topic, event.data) for event in events.waiting()]
        assert values == [
            ("/weather/rome", 11),
            ("/weather/oslo", 11),
            ("/weather/oslo/harbour", 11),
        ]
        _, events = await playground.subscriber("/weather/*", last=True, order="fifo")
        values = [(event.topic, event.data) for event in await received(events, 2)]
        assert values == [("/weather/rome", 11), ("/weather/oslo", 11)]
        # Only members of the super-topic's community know what the publisher, which has gone, said here.
        await publisher.close()
        await asyncio.sleep(30)
        _, events = await playground.subscriber("/weather/oslo", last=True)
        assert {event.topic for event in events.waiting()} == {
            "/weather/oslo",
            "/weather/oslo/harbour",
        }

    play(2, main, "structured")


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_missed_or_doubled_while_the_last_value_is_asked_for(seed: int) -> None:
    async def main(playground: Playground) -> None:
        publisher, _ = await playground.subscriber("/count")
        await playground.subscribers("/count", 2)
        said = 0

        async def count() -> None:
            nonlocal said
            while True:
                said += 1
                await publisher.publish("/count", said)
                await asyncio.sleep(0.01)

        counting = asyncio.create_task(count())
        await asyncio.sleep(2)
        for order in ("none", "fifo"):
            _, events = await playground.subscriber("/count", last=True, order=order)
            missing = set(range(said + 1, said + 101))
            got: list[int] = []
            async with asyncio.timeout(20):
                while missing:
                    got.append((await anext(events)).data)
                    missing.discard(got[-1])
            assert len(set(got)) == len(got)
            assert order == "none" or got == sorted(got)
        counting.cancel()

    network = Network(seed, latency=Latency.uniform(0.005, 0.1), loss=0.05, duplicate=0.05)
    play(seed, main, "structured", network)


def test_without_anybody_who_knows_the_subscription_begins_empty() -> None:
    async def main(playground: Playground) -> None:
        _, alone = await playground.subscriber("/weather", last=True)
        assert not len(alone)
        _, second = await playground.subscriber("/weather", last=True)
        assert not len(second)
        with pytest.raises(UsageError, match="last does not go with durable"):
            playground.nodes[0].subscribe("/weather", durable="me", last=True)  # type: ignore[call-overload]

    play(3, main, "structured")


@pytest.mark.parametrize("allowed", [True, False])
def test_an_archive_answers_when_no_member_is_left(allowed: bool) -> None:
    policy: dict[str, Any] = {} if allowed else {"replay": ReplayPolicy(rules=())}

    async def main(world: World) -> None:
        await world.archive("/orders", **policy)
        publisher = await world.node()
        for number in range(300):
            await publisher.publish("/orders/new", number, durable=True, wait="sent")
        await publisher.publish("/orders/paid", "first", durable=True)
        await publisher.close()
        await asyncio.sleep(70)
        newcomer = await world.node()
        async with newcomer.subscribe("/orders", last=True) as events:
            got = {event.topic: event.data for event in events.waiting()}
        assert got == ({"/orders/new": 299, "/orders/paid": "first"} if allowed else {})

    play_durable(main)


def block(topic: str, source: int, number: int, size: int = 1) -> Block:
    name = source.to_bytes(SOURCE_BYTES, "big")
    return make_block(name, number, Head(topic), [pack_data(b"x" * size)])


def test_what_is_kept_is_bounded_in_topics_and_bytes_and_the_latest_stay() -> None:
    kept = LatestBlocks()
    for number in range(2 * MOST_TOPICS):
        kept.add(block(f"/t/{number}", 1, 1), float(number))
    assert len(kept) == MOST_TOPICS
    assert {one.block.topic for one in kept} == {
        f"/t/{number}" for number in range(MOST_TOPICS, 2 * MOST_TOPICS)
    }
    for number in range(50):
        kept.add(block(f"/large/{number}", 1, 1, 512 * 1024), 5000.0 + number)
        assert sum(len(one.block.encoded) for one in kept) <= MOST_BYTES
    assert len(kept) > 1


def test_the_last_one_is_the_highest_of_a_run_and_the_youngest_of_several() -> None:
    kept = LatestBlocks()
    kept.add(block("/t", 1, 7), 10.0)
    kept.add(block("/t", 1, 6), 11.0)  # it came late
    assert [one.last for one in kept] == [7]
    kept.add(block("/t", 2, 1), 12.0)
    kept.add(block("/t", 1, 8), 11.5)
    assert [(one.block.source[-1], one.last) for one in kept] == [(2, 1)]


def test_a_last_value_that_also_comes_on_its_usual_way_is_given_once() -> None:
    node: Any = None
    source, other = (Origin("/t", PeerId(bytes([n] * ID_BYTES)), b"r" * RUN_BYTES) for n in (1, 2))
    events = Subscription(
        node, Pattern.of("/t"), Deliveries(Metrics()), "none", "drop_oldest", 10, last=True
    )
    events.offer(Batch(other, 3, ["live"]))
    events.begin_with([Batch(other, 2, ["older"]), Batch(source, 7, ["last"])])
    events.offer(Batch(source, 6, ["before", "last", "after"]))
    assert [event.data for event in events.waiting()] == ["last", "live", "before", "after"]
