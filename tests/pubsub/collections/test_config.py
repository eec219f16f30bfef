"""Times and limits that a caller gives to a collection reach what runs below it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.errors import UsageError
from pubsub.collections import (
    BroadcastConfig,
    CollectionConfig,
    CollectionError,
    DASortedBag,
    DAStrongBag,
    DAWeakBag,
    OneOfNConfig,
    OrderConfig,
    TopicMembershipConfig,
)
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, stage

TOPIC = "/EPFL/DSC"
HASTY = CollectionConfig(
    BroadcastConfig(stay_away=20.0),
    TopicMembershipConfig(settle=0.5),
    OrderConfig(delay=0.5),
    OneOfNConfig(in_hand=1, spares=0),
)


def test_one_that_crashed_is_given_up_as_soon_as_the_config_says() -> None:
    async def main(company: Company) -> None:
        one, _, gone = await company.several(3, DAStrongBag, TOPIC, config=HASTY)
        strong = one._collections.strong_topics.get(TOPIC)
        assert strong is not None
        company.crash(gone)
        await asyncio.sleep(FAILURE_SECONDS)
        await one.add("held for it")
        await asyncio.sleep(10)
        assert (strong.core.held, len(strong.participants)) == (1, 3)
        await asyncio.sleep(30)
        assert (strong.core.held, len(strong.participants)) == (0, 2)
        counted = one._collections.node.metrics.as_dict()["strong_broadcast"]
        assert isinstance(counted, dict)
        assert counted["expelled"] == 1

    stage(1, main)


def test_every_part_of_it_is_used_and_by_publishers_in_super_topics_too() -> None:
    async def main(company: Company) -> None:
        one = await company.open(DASortedBag, TOPIC, config=HASTY)
        got: list[str] = []
        await one.contains(into(got))
        await one.add("x")
        await asyncio.sleep(5)
        assert got == ["x"]
        collections = one._collections
        for topic in (TOPIC, "/EPFL"):
            hub, strong = collections._hubs[topic], collections.strong_topics.get(topic)
            assert strong is not None
            assert strong._config == HASTY.broadcast
            assert strong.core.membership._config == HASTY.membership
            assert (hub._order._config, hub._sharing.config) == (HASTY.order, HASTY.one_of_n)

    stage(1, main)


def test_two_collections_of_a_topic_on_a_node_have_one_config() -> None:
    async def main(company: Company) -> None:
        first = await company.open(DAStrongBag, TOPIC, config=HASTY)
        node = first._collections.node
        for config in (None, HASTY, CollectionConfig(*vars(HASTY).values())):
            await company.open_on(node, DASortedBag, TOPIC, config=config)
        with pytest.raises(CollectionError, match="another config"):
            await company.open_on(node, DASortedBag, TOPIC, config=CollectionConfig())

    stage(1, main)


def test_what_is_no_config_is_told() -> None:
    async def main(company: Company) -> None:
        node = await company.node()
        wrong: list[tuple[type[Any], object]] = [(DAStrongBag, HASTY.order), (DAWeakBag, HASTY)]
        for kind, config in wrong:
            with pytest.raises(CollectionError, match="config"):
                node.collection(kind, TOPIC, config=config)
        with pytest.raises(UsageError, match="order is of class OrderConfig"):
            CollectionConfig(order=HASTY.one_of_n)  # type: ignore[arg-type]

    stage(1, main)
