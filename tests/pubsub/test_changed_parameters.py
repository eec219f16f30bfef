"""Parameters that are changed while a node runs take effect in its communities."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

import pytest

from overlay.errors import UsageError
from pubsub import Node, Parameters
from pubsub.camcast.lazy import LazyGossip
from pubsub.topic import Topic
from tests.pubsub.playground import MODES, Playground, play

MEMBERS = 16


def mean_table(nodes: list[Node]) -> float:
    return fmean(len(node.status()["communities"]["/a"]["table"]) for node in nodes)


@pytest.mark.parametrize("mode", MODES)
def test_topic_tables_grow_when_c_is_raised(mode: str) -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", MEMBERS)
        await asyncio.sleep(10)
        before = mean_table(p.nodes)
        for node in p.nodes:
            node.set_parameters("/a", Parameters(c=12))
        await asyncio.sleep(40)
        assert before < 10  # ln 16 + 5 is 7.8
        assert mean_table(p.nodes) > 13  # ln 16 + 12 is 14.8

    play(51, main, mode)


def test_what_is_kept_for_others_follows_the_parameters() -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 2)
        node = p.nodes[0]
        lazy = node._process.communities["/a"]._dissemination
        assert isinstance(lazy, LazyGossip)
        for keep_bytes, least, most in ((0, 1, 2), (1_000_000, 5, 10)):
            node.set_parameters("/a", Parameters(keep_bytes=keep_bytes))
            for _ in range(5):
                await node.publish("/a", bytes(100), wait="acked")
                await asyncio.sleep(1)
            assert least <= len(lazy._kept) <= most

    play(52, main)


@pytest.mark.parametrize("when", ["from the start", "while running"])
def test_a_topic_has_its_own_time_in_which_a_process_has_to_answer(when: str) -> None:
    hasty = Parameters(check_timeout=0.3, lease=2)
    others = Parameters(check_timeout=30, lease=2)

    async def main(p: Playground) -> None:
        await p.subscribers("/a", 2)
        node = p.nodes[0]
        if when == "while running":
            node.set_parameters("/a", hasty)
        p.crash(1)
        await asyncio.sleep(2.5)  # the lease is over, and nobody is suspected yet
        before = asyncio.get_running_loop().time()
        receipt = await node.publish("/a", wait="acked")
        assert receipt.failed == 1
        assert asyncio.get_running_loop().time() - before == pytest.approx(0.3)

    start = {"topic_parameters": {"/a": hasty}} if when == "from the start" else {}
    play(54, main, parameters=others, **start)


def test_as_many_members_are_named_to_a_subtopic_as_the_topic_says() -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 8)
        assert len(p.nodes[0]._process._known_in("/a")) == 5
        p.nodes[0].set_parameters("/a", Parameters(z=2))
        assert len(p.nodes[0]._process._known_in("/a")) == 2

    play(58, main, topic_parameters={"/a": Parameters(z=5)})


def test_nothing_is_kept_of_topics_that_were_left() -> None:
    async def main(p: Playground) -> None:
        one, other = await p.node(), await p.node()
        for number in range(3):
            topic = f"/{number}"
            async with one.subscribe(topic), other.subscribe(topic):
                assert one._process.leases._granted
        await asyncio.sleep(3600)
        for node in (one, other):
            leases = node._process.leases
            assert not leases._granted
            assert not leases._until
            assert not leases._questions

    play(55, main, "structured")


def test_one_that_rejoins_with_other_bounds_on_duplicates_keeps_to_them() -> None:
    async def main(p: Playground) -> None:
        one, other = await p.node(), await p.node()
        async with other.subscribe("/a"):
            async with one.subscribe("/a"):
                for number in range(20):
                    await other.publish(f"/a/{number}", wait="acked")  # a run in each topic
            process = one._process
            assert process.is_in("/a")  # others hold a lease
            community = process.join(Topic.of("/a"), list, Parameters(duplicate_capacity=5))
            assert community.heard.sources == 5

    play(56, main, "structured")


@pytest.mark.parametrize("wrong", [None, {"c": 7}, 12])
def test_what_are_no_parameters_is_refused(wrong: Any) -> None:
    async def main(p: Playground) -> None:
        node, _ = await p.subscriber("/a")
        with pytest.raises(UsageError, match="no Parameters"):
            node.set_parameters("/a", wrong)

    play(53, main)
