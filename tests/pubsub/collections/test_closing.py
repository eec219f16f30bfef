"""Interests and collections that close while something comes, or while others close."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pubsub.collections import DAStrongBag, Element
from tests.pubsub.collections.nodes import Company, into, stage

TOPIC = "/EPFL/DSC"


def test_closing_a_collection_ends_every_interest_though_one_is_being_closed(seed: int) -> None:
    async def main(company: Company) -> None:
        bag = await company.open(DAStrongBag, TOPIC)

        async def slow_to_stop(element: Element) -> None:
            try:
                await asyncio.sleep(10_000)
            finally:
                await asyncio.sleep(1)

        async def iterate() -> list[Any]:
            return [element.data async for element in bag.contains()]

        busy = await bag.contains(slow_to_stop)
        iterating = [asyncio.create_task(iterate()) for _ in range(3)]
        await asyncio.sleep(0.1)
        await bag.add(1)
        await asyncio.sleep(2)
        closing = asyncio.create_task(busy.close())
        await asyncio.sleep(0)
        await bag.close()
        async with asyncio.timeout(5):
            assert await asyncio.gather(*iterating) == [[1]] * 3
            await closing

    stage(seed, main)


def test_what_comes_while_an_interest_closes_does_not_come_again_from_the_log(
    seed: int, tmp_path: Path
) -> None:
    async def main(company: Company) -> None:
        publisher = await company.open(DAStrongBag, TOPIC, keep=0)
        reader = await company.open(DAStrongBag, TOPIC, keep=0, log=tmp_path / "reader.db")
        first: list[Any] = []

        async def slow_to_stop(element: Element) -> None:
            try:
                await asyncio.sleep(10_000)
            finally:
                await asyncio.sleep(3)

        await reader.contains(into(first))
        leaving = await reader.contains(slow_to_stop)
        await asyncio.sleep(1)
        await publisher.add("before")
        await asyncio.sleep(1)
        closing = asyncio.create_task(leaving.close())
        await asyncio.sleep(1)
        await publisher.add("meanwhile")
        await closing
        await asyncio.sleep(3)
        assert first == ["before", "meanwhile"]
        number = company.crash(reader)
        node = await company.restart(number)
        again = node.collection(DAStrongBag, TOPIC, keep=0, log=tmp_path / "reader.db")
        second: list[Any] = []
        await again.contains(into(second))
        await company.playground.stack.enter_async_context(again)
        await asyncio.sleep(10)
        assert "meanwhile" not in second

    stage(seed, main)
