"""What a validator refuses is neither delivered nor forwarded nor kept, wherever it came from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pubsub import Node
from pubsub.collections import DASortedSet, DAStrongSequence, DAStrongSet
from pubsub.config import ConfigurationError
from pubsub.event import Batch
from tests.pubsub.archive.test_durable_nodes import World, take
from tests.pubsub.archive.test_durable_nodes import play as play_durable
from tests.pubsub.collections.nodes import Company, into, stage
from tests.pubsub.playground import Playground, play, received


def is_number(batch: Batch) -> bool:
    return all(type(data) is int for data in batch.data)


def refused(node: Node) -> int:
    return node.metrics.family("events_dropped", "reason", "")["refused"]


def test_what_is_refused_is_neither_delivered_nor_forwarded() -> None:
    async def main(p: Playground) -> None:
        asked: list[int] = []

        def strict(batch: Batch) -> bool:
            asked.append(len(batch))
            return is_number(batch)

        node = await p.node(validators={"/a": strict})
        async with node.subscribe("/a") as events:
            publisher = await p.node()
            await publisher.publish("/a", 1, wait="acked")
            await publisher.publish("/a", "text", wait="acked")
            for number in range(2, 12):
                await publisher.publish("/a/b", number)
            assert [event.data for event in await received(events, 11)] == [1, *range(2, 12)]
            await asyncio.sleep(2)
            assert (len(events), refused(node)) == (0, 1)
            assert sum(asked) == 12
            assert len(asked) < 12, "a block is asked about once"
            sent = node.metrics.as_dict()["events_sent"]
            assert sent == 0, "nobody else is there, and nothing was forwarded"

    play(61, main, mode="structured")


def test_patterns_say_which_events_a_validator_is_asked_about() -> None:
    async def main(p: Playground) -> None:
        node = await p.node(validators={"/a/*": is_number, "/b": is_number})
        async with node.subscribe("/") as events:
            publisher = await p.node()
            for topic in ("/a", "/a/b", "/a/b/c", "/b/c", "/c"):
                await publisher.publish(topic, topic, wait="acked")
                await asyncio.sleep(1)
            assert {event.topic for event in await received(events, 3)} == {"/a", "/a/b/c", "/c"}
            assert refused(node) >= 2

    play(62, main, mode="structured")


def test_a_validator_that_raises_has_refused() -> None:
    async def main(p: Playground) -> None:
        def broken(batch: Batch) -> bool:
            raise ValueError("no idea")

        node = await p.node(validators={"/a": broken})
        async with node.subscribe("/a") as events:
            await (await p.node()).publish("/a", 1, wait="acked")
            await asyncio.sleep(1)
            assert (len(events), refused(node)) == (0, 1)
            await node.publish("/a", 2)
            assert [event.data for event in await received(events, 1)] == [2], "its own"

    play(63, main, mode="structured")


@pytest.mark.parametrize("where", ["archive", "subscriber"])
def test_durable_events_are_validated_by_the_archive_and_by_the_subscriber(where: str) -> None:
    async def main(world: World) -> None:
        strict: dict[str, Any] = {"validators": {"/t": is_number}}
        archive = await world.archive("/t", **(strict if where == "archive" else {}))
        node = await world.node(**(strict if where == "subscriber" else {}))
        publisher = await world.node()
        async with node.subscribe("/t", durable="reader") as events:
            await publisher.publish("/t", 1, durable=True)
            refusing = asyncio.create_task(
                publisher.publish("/t", "text", durable=True, deadline=3)
            )
            await asyncio.wait([refusing])
            assert (refusing.exception() is not None) == (where == "archive")
            if where == "subscriber":
                await publisher.publish("/t", 2, durable=True)
                assert [event.data for event in await take(events, 2)] == [1, 2]
                assert refused(node) >= 1
            else:
                assert [event.data for event in await take(events, 1)] == [1]
                assert archive.status()["/t"]["events"] == 1

    play_durable(main)


@pytest.mark.parametrize("kind", [DAStrongSet, DAStrongSequence, DASortedSet])
def test_elements_of_strong_collections_are_validated(kind: Any) -> None:
    async def main(company: Company) -> None:
        strict = await company.node(validators={"/a": is_number})
        mine: Any = await company.open_on(strict, kind, "/a")
        other: Any = await company.open(kind, "/a")
        await asyncio.sleep(3)
        got: list[Any] = []
        all_of_them: list[Any] = []
        await mine.contains(into(got))
        await other.contains(into(all_of_them))
        for data in (1, "text", 2):
            await other.add(data, wait="safe", deadline=20)
        await mine.add("my own")
        await asyncio.sleep(5)
        assert got == [1, 2, "my own"]
        assert all_of_them == [1, "text", 2, "my own"]
        assert list(mine) == got
        assert strict.metrics.family("collection_dropped", "reason", "")["refused"] == 1

    stage(65, main)


def test_a_taker_refuses_an_element_and_another_one_gets_it() -> None:
    async def main(company: Company) -> None:
        strict = await company.node(validators={"/a": is_number})
        mine = await company.open_on(strict, DAStrongSet, "/a", keep=0)
        other = await company.open(DAStrongSet, "/a", keep=0)
        publisher = await company.open(DAStrongSet, "/a", keep=0)
        await asyncio.sleep(3)
        got: list[Any] = []
        others: list[Any] = []
        await mine.remove(into(got))
        await other.remove(into(others))
        await publisher.add_all(["one", 2, "three", 4, "five", 6])
        await asyncio.sleep(15)
        assert all(type(data) is int for data in got)
        assert sorted(map(str, got + others)) == ["2", "4", "6", "five", "one", "three"]

    stage(66, main)


def test_a_validator_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the validator of /a must be a function"):
        Node(validators={"/a": 7})  # type: ignore[dict-item]
