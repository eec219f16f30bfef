"""Publishing through leaving and returning, closing, crashes and links that do not fit the event."""

from __future__ import annotations

import asyncio
import re

import pytest

from overlay.errors import ClosedError, NetworkError, UsageError
from pubsub import NotInTime
from pubsub.data import DataError
from tests.pubsub.playground import MODES, Playground, play, received


def test_a_publisher_that_leaves_and_returns_goes_on_counting() -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a", order="fifo")
        publisher = await p.node()
        for number in range(5):
            await publisher.publish("/a", number, wait="acked")
        await publisher.stop_publishing("/a")
        await asyncio.sleep(2)
        for number in range(5, 10):
            receipt = await publisher.publish("/a", number, wait="acked")
        assert receipt.sequence == 10
        assert [event.data for event in await received(events, 10)] == list(range(10))

    play(31, main, mode="structured")


@pytest.mark.parametrize("signatures", [False, True])
def test_what_one_datagram_does_not_take_is_refused_where_links_are_datagrams(
    signatures: bool,
) -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a/b")
        publisher = await p.node()
        with pytest.raises(DataError, match=r"one datagram of this node takes \d+ .* of /a/b") as e:
            await publisher.publish("/a/b", bytes(65_000))
        assert publisher.status()["communities"] == {}
        found = re.search(r"takes (\d+)", str(e.value))
        assert found is not None
        limit = int(found[1]) - 3  # bytes are packed with three more
        with pytest.raises(DataError, match="takes"):
            await publisher.publish("/a/b", bytes(limit + 1))
        receipt = await publisher.publish("/a/b", bytes(limit))
        assert (receipt.sequence, receipt.sent) == (1, 1)
        (event,) = await received(events, 1)
        assert len(event.data) == limit > 59_000

    play(32, main, links="datagram", signatures=signatures)


def test_a_forwarder_whose_datagrams_are_smaller_counts_what_it_cannot_pass_on() -> None:
    async def main(p: Playground) -> None:
        forwarder = await p.node(datagram_size=1_400)
        async with forwarder.subscribe("/a") as events:
            _, others = await p.subscriber("/a")
            publisher = await p.node()
            await publisher.publish("/a", bytes(5_000))
            await received(events, 1)
            await received(others, 1)
            assert forwarder.metrics.family("events_dropped", "reason", "")["too_large"] == 1

    play(33, main, mode="structured", links="datagram")


@pytest.mark.parametrize("topic", ["/a", "/a/b"])
@pytest.mark.parametrize("mode", MODES)
def test_who_waits_for_acknowledgements_does_not_wait_for_the_crashed(
    mode: str, topic: str
) -> None:
    """The crashed are members of the event's community, or of its super-community."""

    async def main(p: Playground) -> None:
        await p.subscribers("/a", 3)
        publisher = await p.node()
        await publisher.publish(topic, 0, wait="acked")
        for number in range(3):
            p.crash(number)
        async with asyncio.timeout(60):
            receipt = await publisher.publish(topic, 1, wait="acked")
        assert (receipt.acknowledged, receipt.failed) == (0, receipt.copies)
        assert receipt.copies >= 1

    play(34, main, mode)


def test_a_deadline_bounds_whatever_a_publisher_waits_for_and_receipts_say_how_far_an_event_is() -> (
    None
):
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a")
        publisher = await p.node()
        loop = asyncio.get_running_loop()
        receipt = await publisher.publish("/a", 0, wait="acked", deadline=5)
        await receipt.wait("acked", deadline=1)
        assert (receipt.is_acked, receipt.is_safe) == (True, False)
        with pytest.raises(UsageError, match='wait is one of "sent", "acked" here'):
            await receipt.wait("safe")
        with pytest.raises(UsageError, match="deadline is seconds"):
            await publisher.publish("/a", 0, deadline=0)
        await received(events, 1)
        p.crash(0)
        begun = loop.time()
        with pytest.raises(NotInTime, match=r"took more than 0\.5 s"):
            await publisher.publish("/a", 1, wait="acked", deadline=0.5)
        with pytest.raises(NotInTime, match=r"took more than 0\.5 s"):
            await publisher.publish_many("/a", range(2), wait="acked", deadline=0.5)
        assert loop.time() - begun < 1.1

    play(40, main)


def test_a_publisher_that_waits_for_room_when_its_node_closes_is_told() -> None:
    async def main(p: Playground) -> None:
        node, _ = await p.subscriber("/a", queue=1, overflow="block")
        await node.publish("/a", 1)
        waiting = asyncio.create_task(node.publish("/a", 2))
        await asyncio.sleep(1)
        assert not waiting.done()
        await node.close()
        with pytest.raises(ClosedError):
            await waiting

    play(35, main)


def test_an_event_that_waits_for_room_while_publishing_stops_goes_out_all_the_same() -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a")
        node, own = await p.subscriber("/", queue=1, overflow="block")
        await node.publish("/a", 1)
        waiting = asyncio.create_task(node.publish("/a", 2))
        await asyncio.sleep(1)
        await node.stop_publishing("/a")
        await received(own, 1)
        assert (await waiting).copies >= 1
        assert [event.data for event in await received(events, 2)] == [1, 2]
        await node.stop_publishing("/a")
        assert list(node.status()["communities"]) == ["/"]

    play(36, main, mode="structured")


def test_a_first_event_that_is_given_up_leaves_no_trace_of_its_topic() -> None:
    async def main(p: Playground) -> None:
        node = await p.node(join_timeout=0.5, gateways={"/a": ["127.9.9.9:1"]})
        with pytest.raises(NetworkError, match="joining /a took more than"):
            await node.publish("/a")
        assert node.status()["communities"] == {}
        first, second = (asyncio.create_task(node.publish("/a")) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(0.1)
        assert list(node.status()["communities"]) == ["/a"], "the second waits on"
        second.cancel()
        await asyncio.wait([first, second])
        assert node.status()["communities"] == {}

    play(37, main)


def test_a_later_event_that_is_given_up_leaves_the_node_in_its_topic() -> None:
    async def main(p: Playground) -> None:
        node, own = await p.subscriber("/", queue=1, overflow="block")
        await node.publish("/a", 1)
        waiting = asyncio.create_task(node.publish("/a", 2))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert set(node.status()["communities"]) == {"/", "/a"}
        assert len(own) == 1

    play(38, main, mode="structured")
