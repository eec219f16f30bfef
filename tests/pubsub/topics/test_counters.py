"""What strong topics drop is counted under a reason in the metrics of the node."""

from __future__ import annotations

import asyncio

from overlay.virtual import Network
from overlay.virtual.stage import numbered_contact
from pubsub.topics.messages import Aside, Cast, Item
from tests.pubsub.topics.strong_nodes import TOPIC, StrongNodes
from tests.pubsub.topics.test_strong_topic import play


def test_duplicates_and_mistakes_of_peers_are_in_the_metrics() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        await asyncio.sleep(3)
        await one.strong.broadcast(b"x")
        await asyncio.sleep(3)
        items = (
            Item(one.strong.me, one.strong.run, 1, False, (), b"x"),
            Item(other.strong.me, other.strong.run, 7, False, (), b"not its own"),
        )
        one.runtime.send(other.runtime.contact, Cast(TOPIC, items, (), bytes(8)))
        await asyncio.sleep(3)
        counted = other.runtime.metrics.as_dict()["strong_broadcast"]
        assert counted == {
            "duplicates": 1,
            "expelled": 0,
            "forwarded": 0,
            "refused": 0,
            "revived": 0,
            "taken": 1,
            "unsynced": 0,
            "wrong": 1,
        }
        assert 'strong_broadcast_total{what="wrong"} 1' in other.runtime.metrics.prometheus()

    play(script, loss=0.0, duplicate=0.0)


def test_what_comes_for_a_topic_that_is_not_open_or_not_joined_is_counted_and_not_answered_for_ever() -> (
    None
):
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        await asyncio.sleep(3)
        elsewhere = Aside("/elsewhere", "direct", bytes(8), 1, b"")
        one.runtime.send(other.runtime.contact, elsewhere)
        await asyncio.sleep(3)
        counted = [node.topics._dropped for node in (one, other)]
        assert [dropped["not_in_topic"] for dropped in counted] == [1, 1], "it, and one answer"
        early = counted[1]["not_joined"]
        joining = asyncio.ensure_future(
            other.topics.join("/elsewhere", print, known=(numbered_contact(9),))
        )
        await asyncio.sleep(0.1)
        stubborn = Aside("/elsewhere", "stubborn", bytes(8), 1, b"")
        one.runtime.send(other.runtime.contact, stubborn)
        await joining
        assert [dropped["not_in_topic"] for dropped in counted] == [1, 1]
        assert counted[1]["not_joined"] == early + 1

    play(script, loss=0.0, duplicate=0.0)
