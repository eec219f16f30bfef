"""The times and bounds of durable delivery, as a node and its archive are told them."""

from __future__ import annotations

import asyncio

import pytest

from overlay.errors import UsageError
from pubsub import Archive, DurableConfig, Node
from tests.pubsub.archive.test_durable_nodes import World, play, take

HURRIED = DurableConfig(patience=0.6, heartbeat=0.2)


def test_a_subscriber_is_sent_no_more_than_it_may_leave_unread() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer", durability=DurableConfig(unread=5))
        reader = await world.node()
        async with reader.subscribe("/soccer", durable="me") as events:
            for number in range(20):
                await archive.node.publish("/soccer", number, durable=True)
            await asyncio.sleep(5)
            assert len(events) == 5
            assert [event.data for event in await take(events, 20)] == [*range(20)]

    play(main)


def test_an_archive_has_those_of_its_node_unless_it_is_given_others() -> None:
    node = Node(durability=HURRIED)
    assert Archive(["/a"], node=node)._config == HURRIED
    assert Archive(["/a"], durability=HURRIED)._config == HURRIED
    assert Archive(["/a"], node=node, config=DurableConfig())._config == DurableConfig()


def test_publishers_and_subscribers_have_those_of_their_node() -> None:
    async def main(world: World) -> None:
        node = await world.node(durability=HURRIED)
        await world.archive("/soccer")
        async with node.subscribe("/soccer", durable="me") as events:
            receipt = await node.publish("/soccer", durable=True)
            assert events._core is not None
            assert receipt.durable is not None
            assert events._core._config == HURRIED
            assert receipt.durable._publishing.core._config == HURRIED

    play(main)


@pytest.mark.parametrize("wrong", [{"buffer": True}, {"buffer": 2.0}, {"retry": "1"}])
def test_a_bound_of_another_kind_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be a"):
        DurableConfig(**wrong)
