"""The paper's interface: communities with callbacks, super-communities, topics named by classes."""

from __future__ import annotations

import asyncio

import pytest

from pubsub import CommunityManager, Event
from pubsub.communities import CommunityError
from tests.pubsub.playground import Playground, play


class Match: ...


class Italian: ...


class SerieA(Match, Italian): ...


def test_callbacks_of_either_kind_are_called_in_turn_until_they_are_unsubscribed() -> None:
    async def main(p: Playground) -> None:
        _, _ = await p.subscriber("/a")
        manager = CommunityManager(await p.node())
        community = manager.get_community("/a")
        got: list[object] = []

        def plain(event: Event) -> None:
            got.append(("plain", event.data))

        async def slow(event: Event) -> None:
            await asyncio.sleep(0.01)
            got.append(("slow", event.data))

        await community.subscribe(plain)
        await community.subscribe(slow)
        with pytest.raises(CommunityError, match="already"):
            await community.subscribe(plain)
        for number in (1, 2):
            await community.publish(number)
        await asyncio.sleep(1)
        await community.unsubscribe(plain)
        await community.publish(3)
        await asyncio.sleep(1)
        await community.unsubscribe(slow)
        with pytest.raises(CommunityError, match="not subscribed"):
            await community.unsubscribe(slow)
        await community.stop_publishing()
        assert [g for g in got if g[0] == "plain"] == [("plain", 1), ("plain", 2)]  # type: ignore[index]
        assert [g for g in got if g[0] == "slow"] == [("slow", n) for n in (1, 2, 3)]  # type: ignore[index]
        assert manager.node.status()["communities"] == {}

    play(1, main)


def test_an_exception_of_a_callback_is_counted_and_ends_nothing() -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        community = CommunityManager(node).get_community("/a")
        got: list[object] = []

        def broken(event: Event) -> None:
            got.append(event.data)
            raise ValueError("on purpose")

        await community.subscribe(broken)
        await community.publish(1)
        await community.publish(2)
        await asyncio.sleep(1)
        assert got == [1, 2]
        assert node.metrics.counter("callback_errors", "").value == 2

    play(2, main)


def test_a_callback_that_awaits_what_was_cancelled_ends_nothing() -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        community = CommunityManager(node).get_community("/a")
        got: list[object] = []

        async def awaits_what_was_cancelled(event: Event) -> None:
            got.append(event.data)
            work = asyncio.ensure_future(asyncio.sleep(5))
            work.cancel()
            await work

        await community.subscribe(awaits_what_was_cancelled)
        await community.publish(1)
        await community.publish(2)
        await asyncio.sleep(1)
        assert got == [1, 2]
        assert node.metrics.counter("callback_errors", "").value == 2

    play(3, main)


def test_a_community_named_by_a_class_has_the_communities_of_its_bases_above_it() -> None:
    async def main(p: Playground) -> None:
        _, matches = await p.subscriber(Match)
        _, italians = await p.subscriber(Italian)
        manager = CommunityManager(await p.node())
        league = manager.get_community(SerieA)
        assert manager.get_community(SerieA) is league
        above = manager.get_super_communities(league)
        assert above == (manager.get_community(Match), manager.get_community(Italian))
        with pytest.raises(CommunityError, match="2 super-topics"):
            manager.get_super_community(league)
        assert manager.get_super_community(above[0]) is manager.get_community("/")
        await league.publish("goal", wait="acked")
        assert [(await anext(matches)).data, (await anext(italians)).data] == ["goal", "goal"]

    play(3, main)


def test_closing_a_node_gives_callbacks_a_moment_and_then_ends_them() -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        community = CommunityManager(node).get_community("/a")
        ended: list[str] = []

        async def short(event: Event) -> None:
            await asyncio.sleep(0.5)
            ended.append("short")

        async def endless(event: Event) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("endless")

        await community.subscribe(short)
        await community.subscribe(endless)
        await community.publish()
        await asyncio.sleep(0)
        await node.close()
        assert ended == ["short", "endless"]
        await community.unsubscribe(endless)

    play(4, main)


def test_a_callback_may_close_its_node() -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        community = CommunityManager(node).get_community("/a")
        closed = asyncio.Event()

        async def close(event: Event) -> None:
            await node.close()
            closed.set()

        await community.subscribe(close)
        await community.publish()
        await closed.wait()
        await asyncio.sleep(0)

    play(5, main)
