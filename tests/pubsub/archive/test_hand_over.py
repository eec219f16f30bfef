"""A topic's management goes from one archive to another: what it takes, what it survives, what is said."""

from __future__ import annotations

import asyncio

from tests.pubsub.archive.test_durable_nodes import World, play, take


def test_a_topic_handed_over_outlives_a_crash_of_its_new_archive() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        second = await world.archive("/tennis")
        await asyncio.sleep(1)
        await node.publish("/soccer", "before", durable=True)
        await first.hand_over("/soccer", str(second.node.address))
        world.crash(2)
        world.restart(2)
        again = await world.archive("/tennis", number=2)
        assert list(again.topics) == ["/tennis", "/soccer"]
        async with node.subscribe("/soccer", durable="late", since="beginning") as events:
            assert [event.data for event in await take(events, 1)] == ["before"]

    play(main)
