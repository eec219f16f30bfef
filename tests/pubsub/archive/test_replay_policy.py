"""Permission to replay: who may begin how far back, and what those are told who may not."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from overlay.contact import PeerId
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.replay_policy import ReplayPolicy, ReplayRule
from tests.pubsub.archive.test_durable_nodes import World, play, take

HERE, THERE = PeerId(bytes(20)), PeerId(bytes([1] * 20))


@pytest.mark.parametrize(
    ("policy", "name", "age", "is_allowed"),
    [
        (ReplayPolicy(), "any", math.inf, True),
        (ReplayPolicy(()), "any", 3_600.0, False),
        (ReplayPolicy(()), "any", 30.0, True),
        (ReplayPolicy.parse(["audit-*"]), "audit-1", math.inf, True),
        (ReplayPolicy.parse(["audit-*"]), "other", 3_600.0, False),
        (ReplayPolicy.parse(["*=3600"]), "any", 3_599.0, True),
        (ReplayPolicy.parse(["*=3600"]), "any", 3_601.0, False),
        (ReplayPolicy.parse(["*=0", "audit=600", "a*"]), "audit", math.inf, True),
        (ReplayPolicy((ReplayRule(peers=(HERE,)),)), "any", math.inf, True),
        (ReplayPolicy((ReplayRule(peers=(THERE,)),)), "any", math.inf, False),
    ],
)
def test_the_most_generous_rule_that_applies_counts(
    policy: ReplayPolicy, name: str, age: float, is_allowed: bool
) -> None:
    assert (policy.refusal(name, HERE, age) == "") == is_allowed


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ReplayRule(""), "names such as"),
        (lambda: ReplayRule("x", -1.0), "0 seconds or more"),
        (lambda: ReplayRule("x", math.nan), "0 seconds or more"),
        (lambda: ReplayRule("x", peers=("me",)), "ids of nodes"),
        (lambda: ReplayPolicy(("x",)), "has rules"),
        (lambda: ReplayRule.parse("x=soon"), "NAME or NAME=SECONDS"),
    ],
)
def test_what_is_no_policy_is_said(make: Any, words: str) -> None:
    with pytest.raises(DurableUsageError, match=words):
        make()


async def archive_with_old_events(world: World, *rules: str) -> Any:
    archive = await world.archive("/soccer", replay=ReplayPolicy.parse(rules))
    node = await world.node()
    for number in range(3):
        await node.publish("/soccer", number, durable=True)
    await asyncio.sleep(1_000)
    await node.publish("/soccer", 3, durable=True)
    return archive, node


@pytest.mark.parametrize("begin", ["beginning", "sequence", "time"])
def test_a_new_name_that_may_not_replay_is_told_what_it_may(begin: str) -> None:
    async def main(world: World) -> None:
        _, node = await archive_with_old_events(world, "allowed", "some=100")
        since: Any = {"beginning": "beginning", "sequence": 1, "time": time.time() - 1_100}[begin]
        with pytest.raises(ArchiveError, match=r"'other' may not replay .*begin with since="):
            await node.subscribe("/soccer", durable="other", since=since).__aenter__()
        with pytest.raises(ArchiveError, match="'some' may begin at most 100 s ago"):
            await node.subscribe("/soccer", durable="some", since=since).__aenter__()
        async with node.subscribe("/soccer", durable="allowed", since=since) as events:
            assert [event.data for event in await take(events, 4)] == [0, 1, 2, 3]
        async with node.subscribe("/soccer", durable="some", since=time.time() - 90) as events:
            assert [event.data for event in await take(events, 1)] == [3]
        async with node.subscribe("/soccer", durable="other") as events:
            await node.publish("/soccer", "new", durable=True)
            assert [event.data for event in await take(events, 1)] == ["new"]

    play(main)


def test_a_known_name_goes_on_whatever_it_asks_for() -> None:
    async def main(world: World) -> None:
        _, node = await archive_with_old_events(world)
        async with node.subscribe("/soccer", durable="known"):
            pass
        await node.publish("/soccer", "missed", durable=True)
        await asyncio.sleep(1_000)
        async with node.subscribe("/soccer", durable="known", since="beginning") as events:
            assert [event.data for event in await take(events, 1)] == ["missed"]

    play(main)


def test_a_registration_outlives_its_archive_where_no_replay_is_allowed() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        await world.archive("/soccer", replay=ReplayPolicy(()))
        async with reader.subscribe("/soccer", durable="new") as events:
            await asyncio.sleep(1)
            world.crash(2)
            await world.archive("/soccer", replay=ReplayPolicy(()))
            await publisher.publish("/soccer", "next", durable=True, deadline=60)
            assert [event.data for event in await take(events, 1, 60)] == ["next"]

    play(main)


def test_a_subscription_that_no_other_archive_registers_ends_with_the_reason() -> None:
    async def main(world: World) -> None:
        _, reader = await world.node(), await world.node()
        await world.archive("/soccer")
        async with reader.subscribe("/soccer", durable="all", since="beginning") as events:
            await asyncio.sleep(1)
            world.crash(2)
            await world.archive("/soccer", replay=ReplayPolicy(()))
            with pytest.raises(ArchiveError, match="another archive did not register 'all'"):
                await take(events, 1, 60)

    play(main)
