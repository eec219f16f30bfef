"""Publishing through leaving and returning, closing, crashes and links that do not fit the event."""

from __future__ import annotations

import asyncio

from tests.pubsub.playground import Playground, play, received


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
