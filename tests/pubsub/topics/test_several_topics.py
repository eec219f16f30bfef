"""Several strong topics of one node, which share its failure detector."""

from __future__ import annotations

import asyncio

from overlay.virtual import Network
from pubsub.topics import Delivery
from tests.pubsub.topics.strong_nodes import StrongNodes

OTHER = "/EPFL/LPD"


def _ignore(delivery: Delivery) -> None: ...


def test_a_topic_learns_that_a_participant_is_down_which_another_topic_knew_before() -> None:
    network = Network(3)

    async def main() -> None:
        nodes = StrongNodes(network)
        first, second, crashed = [await nodes.start() for _ in range(3)]
        alone = await first.topics.join(OTHER, _ignore)
        there = await second.topics.join(OTHER, _ignore)
        contact, down = second.runtime.contact, crashed.runtime.contact.id
        await network.spawn(crashed.host, crashed.topics.join(OTHER, _ignore, known=(contact,)))
        await asyncio.sleep(3)
        assert down in there.view.members
        network.crash(crashed.host)
        await asyncio.sleep(20)
        assert first.runtime.failure.is_suspected(down)
        alone.core.membership.meet(contact)
        await asyncio.sleep(60)
        for topic in (alone, there):
            assert topic.is_stable
            assert down not in topic.view.members
            assert len(topic.view.members) == 2
        assert first.runtime.metrics.as_dict()["failure_suspected"] == 1

    network.run(main())
