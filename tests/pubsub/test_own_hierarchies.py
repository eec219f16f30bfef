"""Topics whose super-topics do not follow from their names: given by classes, or one by one."""

from __future__ import annotations

import asyncio

import pytest

from overlay.errors import UsageError
from pubsub import CommunityManager, Topic
from tests.pubsub.playground import Playground, play, received


class Sport: ...


class Tennis(Sport): ...


TENNIS = Topic.of(Tennis).name


def test_an_event_goes_to_every_parent_that_its_topic_was_given() -> None:
    async def main(p: Playground) -> None:
        _, one = await p.subscriber("/a")
        _, other = await p.subscriber("/b")
        node = await p.node()
        topic = Topic("/x", (Topic.of("/a"), Topic.of("/b")))
        await node.publish(topic, 1, wait="acked")
        for events in (one, other):
            assert [event.topic for event in await received(events, 1)] == ["/x"]

    play(61, main, mode="structured")


def test_a_topic_joined_by_its_name_learns_its_super_topics_from_its_class() -> None:
    async def main(p: Playground) -> None:
        _, above = await p.subscriber(Sport)
        node = await p.node()
        async with node.subscribe(TENNIS) as events:
            await node.publish(Tennis, 1, wait="acked")
            assert [event.data for event in await received(above, 1)] == [1]
            await node.publish(TENNIS, 2, wait="acked")
            assert [event.data for event in await received(above, 1)] == [2]
            await received(events, 2)
            assert node.metrics.family("events_dropped", "reason", "").values == {}

    play(62, main, mode="structured")


def test_a_topic_cannot_have_two_kinds_of_super_topics_on_one_node() -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        one = Topic("/x", (Topic.of("/a"),))
        other = Topic("/x", (Topic.of("/b"),))
        async with node.subscribe(one):
            with pytest.raises(UsageError, match=r"in /x with the super-topics /a, .* /b"):
                await node.publish(other)
            with pytest.raises(UsageError, match="/x"):
                async with node.subscribe(other):
                    pass
            await node.publish("/x")
        await node.stop_publishing("/x")
        await node.publish(other)

    play(63, main)


def test_a_community_is_the_same_by_name_and_by_class() -> None:
    async def main(p: Playground) -> None:
        manager = CommunityManager(await p.node())
        community = manager.get_community(TENNIS)
        assert manager.get_community(Tennis) is community
        assert manager.get_community(TENNIS) is community
        assert manager.get_super_community(community) is manager.get_community(Sport)
        await asyncio.sleep(0)

    play(64, main)
