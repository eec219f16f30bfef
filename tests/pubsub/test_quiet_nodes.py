"""Nodes at rest send little: light members, and members of a topic that has no super-communities."""

from __future__ import annotations

import asyncio

import pytest

from bench.tiers.population import DatagramCount
from overlay.dht import DhtConfig
from overlay.virtual import nth_host
from tests.pubsub.playground import Playground, play, received


@pytest.mark.parametrize("mode", ["semi-structured", "structured"])
def test_a_light_member_is_quiet_and_gets_events(mode: str) -> None:
    async def main(p: Playground) -> None:
        await p.node()
        await p.subscribers("/a", 5)
        await p.subscribers("/a/b", 5)
        light = await p.node(dht=DhtConfig(serve=False))
        events = await p.stack.enter_async_context(light.subscribe("/a/b"))
        await asyncio.sleep(90)
        before = sent_by_each(p)
        await asyncio.sleep(120)
        sent = [now - then for now, then in zip(sent_by_each(p), before, strict=True)]
        usual = sum(sent[1:-1]) / len(sent[1:-1])
        assert sent[-1] < usual / 4
        await p.nodes[-2].publish("/a/b", 1)
        assert (await received(events, 1))[0].data == 1

    play(1, main, mode)


@pytest.mark.parametrize("mode", ["semi-structured", "structured", "hyparview"])
def test_nobody_is_asked_for_super_communities_that_the_directory_does_not_have(mode: str) -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a/b", 6)
        await asyncio.sleep(30)
        count = DatagramCount()
        with p.network.rule(count):
            await asyncio.sleep(60)
        assert count.by_name["Query"], "the directory is asked"
        assert not count.by_name["FindSuper"]
        _, above = await p.subscriber("/a")
        await asyncio.sleep(10)
        await p.nodes[0].publish("/a/b", 1)
        assert (await received(above, 1))[0].data == 1

    play(1, main, mode)


def sent_by_each(p: Playground) -> list[int]:
    hosts = p.network.stats.hosts
    return [hosts[nth_host(number)].sent for number in range(len(p.nodes))]
