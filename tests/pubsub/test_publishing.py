"""Publishing through leaving and returning, closing, crashes and links that do not fit the event."""

from __future__ import annotations

import asyncio
import re

import pytest

from pubsub.event import DataError
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
            await publisher.publish("/a/b", bytes(20_000))
        assert publisher.status()["communities"] == {}
        found = re.search(r"takes (\d+)", str(e.value))
        assert found is not None
        limit = int(found[1]) - 3  # bytes are packed with three more
        with pytest.raises(DataError, match="takes"):
            await publisher.publish("/a/b", bytes(limit + 1))
        receipt = await publisher.publish("/a/b", bytes(limit))
        assert (receipt.sequence, receipt.sent) == (1, 1)
        (event,) = await received(events, 1)
        assert len(event.data) == limit > 16_000

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
