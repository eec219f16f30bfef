"""The front door: publish, subscribe, receipts, patterns, order, and leaving."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from overlay.channel import Until
from overlay.errors import ClosedError, NetworkError, UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node, Parameters
from pubsub.config import ConfigurationError, DisseminationKind
from pubsub.data import DATA_LIMIT, DataError
from pubsub.event import Gossip, Head, encode_copy, make_block
from pubsub.topic import Topic
from tests.pubsub.playground import MODES, PORT, Playground, play, received

PATH = ("/", "/soccer", "/soccer/italy")


@pytest.mark.parametrize("mode", MODES)
def test_an_event_reaches_the_topic_and_its_super_topics_and_nobody_else(mode: str) -> None:
    async def main(p: Playground) -> None:
        inside = [s for topic in PATH for s in await p.subscribers(topic, 3)]
        outside = await p.subscribers("/soccer/france", 3)
        publisher = await p.node()
        receipt = await publisher.publish("/soccer/italy", {"score": "1-0"}, wait="acked")
        assert receipt.joined == ("/soccer/italy",)
        assert receipt.acknowledged >= 1
        assert receipt.is_settled
        for subscription in inside:
            (event,) = await received(subscription, 1)
            assert (event.topic, event.data) == ("/soccer/italy", {"score": "1-0"})
            assert (event.publisher, event.sequence) == (publisher.id, 1)
            assert event.hops >= 1
        await asyncio.sleep(5)
        assert [len(s) for s in (*inside, *outside)] == [0] * 12

    assert play(1, main, mode).watch.events > 9


def test_the_watch_sees_a_parasite() -> None:
    async def main(p: Playground) -> None:
        await p.subscriber("/a")
        stranger, _ = await p.subscriber("/b")
        publisher = await p.node()
        await publisher.publish("/a", 1)
        attachment: Any = publisher._attachment
        to = stranger._process.services.control.contact
        attachment.ways.send(to, encode_copy(Gossip(genuine, "/a", 1)), None, Until(inf), False)
        await asyncio.sleep(1)
        assert stranger.metrics.family("events_dropped", "reason", "")["parasite"] == 1

    genuine = make_block(bytes(28), 1, Head("/a"), [b"\xc0"])
    with pytest.raises(AssertionError, match="/a in /a"):
        play(16, main)


@pytest.mark.parametrize("links", ["channel", "datagram"])
def test_events_travel_over_either_kind_of_link(links: str) -> None:
    async def main(p: Playground) -> None:
        subscriptions = await p.subscribers("/a", 4)
        publisher = await p.node()
        for number in range(20):
            receipt = await publisher.publish("/a", number, wait="sent")
            assert receipt.sent == receipt.copies >= 1
        for subscription in subscriptions:
            events = await received(subscription, 20)
            assert sorted(event.data for event in events) == list(range(20))

    play(2, main, links=links)


@pytest.mark.parametrize(
    ("mode", "seed"),
    [
        ("structured", 1),
        pytest.param("structured", 4, marks=pytest.mark.sweep),
        ("semi-structured", 1),
        ("unstructured", 1),
        ("hyparview", 1),
    ],
)
def test_the_first_events_reach_all_who_have_just_subscribed_one_after_another(
    mode: str, seed: int
) -> None:
    async def main(p: Playground) -> None:
        subscriptions = await p.subscribers("/a", 60)
        for number in range(5):
            await p.nodes[12 * number].publish("/a", number)
        for events in subscriptions:
            assert sorted(event.data for event in await received(events, 5)) == [0, 1, 2, 3, 4]

    play(seed, main, mode)


def test_hyparview_does_without_a_dht_where_gateways_are_named() -> None:
    async def main(p: Playground) -> None:
        where: dict[str, Any] = {"gateways": {"/a": [f"{nth_host(0)}:{PORT}"]}, "bootstrap": []}
        subscriptions = []
        for _ in range(8):
            node = await p.node(**where)
            subscriptions.append(await p.stack.enter_async_context(node.subscribe("/a")))
        assert not p.nodes[0].config.uses_dht
        await p.nodes[7].publish("/a", "hello")
        for events in subscriptions:
            (event,) = await received(events, 1)
            assert event.data == "hello"

    play(1, main, "hyparview")


def test_over_channels_nothing_is_lost_on_a_bad_network() -> None:
    async def main(p: Playground) -> None:
        subscriptions = await p.subscribers("/a", 4)
        publisher = await p.node()
        for number in range(50):
            await publisher.publish("/a", number)
        for subscription in subscriptions:
            events = await received(subscription, 50, within=60)
            assert sorted(event.data for event in events) == list(range(50))

    network = Network(3, latency=Latency.uniform(0.005, 0.05), loss=0.15, duplicate=0.05)
    play(3, main, network=network)


def test_fifo_delivers_in_the_order_of_publishing() -> None:
    async def main(p: Playground) -> None:
        subscriptions = [(await p.subscriber("/a", order="fifo"))[1] for _ in range(3)]
        publisher = await p.node()
        for number in range(100):
            await publisher.publish("/a", number)
        for subscription in subscriptions:
            events = await received(subscription, 100, within=60)
            assert [event.data for event in events] == list(range(100))
            assert [event.sequence for event in events] == list(range(1, 101))

    network = Network(4, latency=Latency.uniform(0.001, 0.1), loss=0.1)
    play(4, main, network=network)


def test_a_node_receives_what_it_publishes_itself() -> None:
    async def main(p: Playground) -> None:
        node, events = await p.subscriber("/a")
        receipt = await node.publish("/a/b", [1, (2, 3)])
        (event,) = await received(events, 1)
        assert (event.data, event.hops, event.id) == ([1, [2, 3]], 0, receipt.id)
        assert receipt.copies == 0

    play(5, main)


def test_patterns_choose_among_the_subtopics() -> None:
    async def main(p: Playground) -> None:
        _, one_level = await p.subscriber("/soccer/*")
        _, subtree = await p.subscriber("/soccer/**")
        publisher = await p.node()
        for topic in ("/soccer", "/soccer/italy", "/soccer/italy/rome"):
            await publisher.publish(topic, topic, wait="acked")
        assert {e.data for e in await received(subtree, 3)} == {
            "/soccer",
            "/soccer/italy",
            "/soccer/italy/rome",
        }
        assert [e.data for e in await received(one_level, 1)] == ["/soccer/italy"]

    play(6, main)


def test_large_data_travels_and_too_large_data_is_refused() -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a")
        publisher = await p.node()
        await publisher.publish("/a", bytes(DATA_LIMIT - 5), wait="acked")
        (event,) = await received(events, 1)
        assert len(event.data) == DATA_LIMIT - 5
        with pytest.raises(DataError, match="1048576 is the limit"):
            await publisher.publish("/a", bytes(DATA_LIMIT))
        with pytest.raises(DataError, match="cannot travel"):
            await publisher.publish("/a", object())

    play(7, main)


def test_a_slow_subscriber_drops_and_counts_and_slows_nobody() -> None:
    async def main(p: Playground) -> None:
        slow, slow_events = await p.subscriber("/a", queue=10)
        _, quick_events = await p.subscriber("/a")
        publisher = await p.node()
        for number in range(100):
            await publisher.publish("/a", number)
        assert len(await received(quick_events, 100)) == 100
        await asyncio.sleep(1)
        assert slow_events.dropped == 90
        assert slow.metrics.family("events_dropped", "reason", "")["queue_full"] == 90
        assert [e.data for e in await received(slow_events, 10)] == list(range(90, 100))

    play(8, main)


def test_a_full_queue_that_blocks_holds_up_publishers_on_its_own_node() -> None:
    async def main(p: Playground) -> None:
        node, events = await p.subscriber("/a", queue=5, overflow="block")
        publishing = asyncio.create_task(publish_many(node, 20))
        await asyncio.sleep(1)
        assert len(events) == 5
        assert len(await received(events, 20)) == 20
        await publishing

    async def publish_many(node: Node, count: int) -> None:
        for number in range(count):
            await node.publish("/a", number)

    play(9, main)


def test_publishing_waits_for_nothing_any_more_when_the_subscription_that_blocks_has_ended() -> (
    None
):
    async def main(p: Playground) -> None:
        node = await p.node()
        async with node.subscribe("/a"):
            async with node.subscribe("/a", overflow="block"), node.subscribe("/b"):
                await node.publish("/a")
                assert not node._topics.may_publish(node._topics.join(Topic.of("/a")))
            assert node._topics.may_publish(node._topics.join(Topic.of("/a")))

    play(57, main)


def test_a_subscriber_that_blocks_slows_no_other_node_and_keeps_sixteen_queues_at_most() -> None:
    async def main(p: Playground) -> None:
        slow, slow_events = await p.subscriber("/a", queue=5, overflow="block")
        _, quick_events = await p.subscriber("/a")
        publisher = await p.node()
        async with asyncio.timeout(5):  # though nobody ever reads the slow queue
            for number in range(200):
                await publisher.publish("/a", number, wait="acked")
        assert [e.data for e in await received(quick_events, 200)] == list(range(200))
        assert (len(slow_events), slow_events.dropped) == (80, 120)
        assert slow.metrics.family("events_dropped", "reason", "")["queue_full"] == 120
        blocked = asyncio.create_task(slow.publish("/a", "own"))
        await asyncio.sleep(5)
        assert not blocked.done()
        await received(slow_events, 76)
        await blocked

    play(23, main)


@pytest.mark.parametrize("dissemination", ["eager", "lazy"])
def test_each_event_may_choose_how_it_spreads(dissemination: DisseminationKind) -> None:
    async def main(p: Playground) -> None:
        subscriptions = await p.subscribers("/a", 5)
        publisher = await p.node(dissemination="lazy" if dissemination == "eager" else "eager")
        for _ in range(10):
            await publisher.publish("/a", dissemination=dissemination)
            await asyncio.sleep(0.3)
        before = p.watch.events
        await publisher.publish("/a", dissemination=dissemination)
        for events in subscriptions:
            await received(events, 11)
        await asyncio.sleep(1)
        copies = p.watch.events - before
        assert copies == 5 if dissemination == "lazy" else copies > 10

    play(24, main, mode="structured")


def test_a_way_of_spreading_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='dissemination is "eager" or "lazy"'):
        Node(dissemination="loud")

    async def main(p: Playground) -> None:
        node = await p.node()
        with pytest.raises(UsageError, match='dissemination is "eager" or "lazy"'):
            await node.publish("/a", dissemination="loud")  # type: ignore[arg-type]

    play(25, main)


@pytest.mark.parametrize("order", ["none", "fifo"])
def test_a_publisher_at_full_speed_is_held_back_and_nothing_is_lost(order: str) -> None:
    """One link loses every fifth datagram; three times what its buffer holds is published at once."""

    async def main(p: Playground) -> None:
        subscriptions = []
        for _ in range(3):
            _, events = await p.subscriber("/a", order=order, queue=100_000)
            subscriptions.append(events)
        publisher = await p.node()
        p.network.link(nth_host(0), nth_host(3), loss=0.2)
        data = bytes(20_000)
        for number in range(600):
            await publisher.publish("/a", [number, data])
        for events in subscriptions:
            numbers = [e.data[0] for e in await received(events, 600, within=120)]
            assert sorted(numbers) == list(range(600))
            if order == "fifo":
                assert numbers == list(range(600))
        dropped = publisher.metrics.family("messages_dropped_out", "reason", "")
        assert dropped["channel_full"] == 0

    play(26, main)


@pytest.mark.parametrize("links", ["channel", "datagram"])
def test_what_is_published_just_before_the_end_still_leaves(links: str) -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a")
        publisher = await p.node()
        await publisher.publish("/a", "first")
        for number in range(10):
            await publisher.publish("/a", number)
        await publisher.close()
        assert [e.data for e in await received(events, 11)] == ["first", *range(10)]

    play(27, main, links=links)


def test_leaving_a_topic_ends_its_events_and_returning_brings_them_back() -> None:
    async def main(p: Playground) -> None:
        await p.subscriber("/a")
        node = await p.node(parameters=Parameters(lease=5))
        publisher = await p.node()
        async with node.subscribe("/a") as events:
            await publisher.publish("/a", 1)
            assert len(await received(events, 1)) == 1
        await publisher.publish("/a", 2)
        assert [e async for e in events] == []
        await asyncio.sleep(10)
        assert not node._process.is_in("/a")
        async with node.subscribe("/a") as again:
            await publisher.publish("/a", 3)
            assert [e.data for e in await received(again, 1)] == [3]

    play(11, main)


def test_events_on_their_way_to_a_node_that_closes_are_no_parasites() -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 3)
        closing, events = await p.subscriber("/a")
        publisher = await p.node()

        async def publish() -> None:
            for number in range(200):
                await publisher.publish("/a", number)
                await asyncio.sleep(0.005)

        publishing = asyncio.create_task(publish())
        await received(events, 20)  # all hold leases, and events are on their way
        await closing.close()
        await publishing
        drops = closing.metrics.family("events_dropped", "reason", "")
        assert drops["leaving"] > 0
        assert drops["parasite"] == 0

    play(12, main)


def test_who_leaves_and_returns_at_once_is_not_given_what_it_had() -> None:
    async def main(p: Playground) -> None:
        await p.subscriber("/a")
        node, publisher = await p.node(), await p.node()
        async with node.subscribe("/a") as events:
            for number in range(20):
                await publisher.publish("/a", number)
            assert len(await received(events, 20)) == 20
        async with node.subscribe("/a") as again:
            await asyncio.sleep(5)
            await publisher.publish("/a", "new")
            assert [e.data for e in await received(again, 1)] == ["new"]

    play(12, main)


def test_a_publisher_leaves_when_it_is_done() -> None:
    async def main(p: Playground) -> None:
        await p.subscriber("/a")
        node = await p.node()
        assert (await node.publish("/a")).joined == ("/a",)
        assert (await node.publish("/a")).joined == ()
        await node.stop_publishing("/a")
        assert node.status()["communities"] == {}
        assert (await node.publish("/a")).joined == ("/a",)

    play(12, main)


def test_a_closed_node_ends_its_subscriptions_and_refuses_everything() -> None:
    async def main(p: Playground) -> None:
        node, events = await p.subscriber("/a")
        waiting = asyncio.create_task(anext(events, None))
        await asyncio.sleep(0)
        await node.close()
        assert await waiting is None
        with pytest.raises(ClosedError):
            await node.publish("/a")
        with pytest.raises(ClosedError):
            node.subscribe("/a")
        with pytest.raises(ClosedError):
            _ = node.address

    play(13, main)


def test_joining_that_takes_too_long_says_so() -> None:
    async def main(p: Playground) -> None:
        node = await p.node(join_timeout=0.001, gateways={"/a": ["127.9.9.9:1"]})
        with pytest.raises(NetworkError, match="joining /a took more than"):
            await node.publish("/a")

    play(14, main)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "chaotic"}, "mode is"),
        ({"links": "carrier pigeon"}, "links is"),
        ({"bootstrap": "127.0.0.1:1"}, "list of addresses"),
        ({"bootstrap": ["nowhere"]}, "is not an address"),
        ({"gateways": {"/a": ["127.0.0.1:1"]}}, "gateways are for"),
        ({"mode": "unstructured", "bootstrap": ["127.0.0.1:1"]}, "no DHT"),
        ({"color": "red"}, "color"),
        ({"join_timeout": 0}, "join_timeout"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Node(**settings)


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> str:
        async def main(p: Playground) -> None:
            subscriptions = await p.subscribers("/a", 3)
            publisher = await p.node()
            for number in range(5):
                await publisher.publish("/a/b", number)
            for subscription in subscriptions:
                await received(subscription, 5)

        return play(15, main).network.trace_hash

    assert run() == run()
