"""A node that finds nobody else in a community is in it all the same, and can tell."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.pubsub.playground import MODES, Playground, play


@pytest.mark.parametrize("mode", MODES)
def test_a_node_that_finds_nobody_else_says_so_until_somebody_comes(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(p: Playground) -> None:
        node, _ = await p.subscriber("/a")
        assert node.status()["communities"]["/a"]["alone"] is True
        assert node.status()["counters"]["membership_alone"] >= 1
        assert [record.getMessage() for record in caplog.records] == ["nobody else was found in /a"]
        other, _ = await p.subscriber("/a")
        await asyncio.sleep(60)
        for one in (node, other):
            assert one.status()["communities"]["/a"]["alone"] is False
        assert other.status()["counters"]["membership_alone"] == 0

    with caplog.at_level(logging.INFO, logger="pubsub.joined_topics"):
        play(81, main, mode)


@pytest.mark.parametrize("gateways", [{}, {"/a": ["127.9.9.9:1"]}])
def test_a_topic_without_a_gateway_that_answers_is_one_of_its_own(gateways: Any) -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 2)
        node = await p.node(gateways=gateways)
        async with node.subscribe("/a"):
            assert node.status()["communities"]["/a"]["alone"] is True
            assert node.status()["counters"]["membership_alone"] == 1

    play(82, main)
