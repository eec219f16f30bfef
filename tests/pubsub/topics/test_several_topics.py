"""Several strong topics of one node, which share its failure detector."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from overlay.errors import ClosedError
from overlay.membership.interface import TopicDirectory
from overlay.virtual import Network
from overlay.virtual.stage import numbered_contact
from pubsub.topics import Delivery
from tests.pubsub.topics.strong_nodes import StrongNodes, log_of
from tests.pubsub.topics.test_strong_topic import play

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


class SlowDirectory:
    """Names one that does not answer, and remembers who was announced."""

    def __init__(self) -> None:
        self.announced: list[str] = []

    def contacts(self, name: str, count: int, give: Any) -> None:
        give((numbered_contact(9),))

    def announce(self, name: str) -> None:
        self.announced.append(name)

    def withdraw(self, name: str) -> None:
        if name in self.announced:
            self.announced.remove(name)


@pytest.mark.parametrize("logged", [False, True])
def test_who_is_closed_while_it_joins_takes_no_part(logged: bool, tmp_path: Path) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        node = await nodes.start()
        directory = SlowDirectory()
        topics, node.topics._directory = node.topics, cast(TopicDirectory, directory)
        log = log_of(tmp_path, 0) if logged else None
        joining = asyncio.ensure_future(topics.join(OTHER, _ignore, log=log))
        await asyncio.sleep(1)
        strong = topics.get(OTHER)
        assert strong is not None
        await topics.close()
        with pytest.raises(ClosedError):
            await joining
        assert directory.announced == []
        assert not strong.core.membership.is_joined

    play(script)
