"""Nodes that come back without their collections hold nobody up."""

from __future__ import annotations

import asyncio

import pytest

from pubsub.collections import DASortedBag
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, into, stage

TOPIC = "/EPFL/DSC"


@pytest.mark.parametrize("down", [0.5, FAILURE_SECONDS], ids=["unnoticed", "suspected"])
def test_a_node_that_comes_back_without_the_collection_holds_no_addition_up(down: float) -> None:
    async def main(company: Company) -> None:
        one, other, gone = await company.several(3, DASortedBag, TOPIC)
        got: list[int] = []
        await other.contains(into(got))
        await asyncio.sleep(3)
        number = company.crash(gone)
        await asyncio.sleep(down)
        node = await company.restart(number)
        await asyncio.sleep(FAILURE_SECONDS)
        async with asyncio.timeout(10):
            await one.add(1)
        await asyncio.sleep(10)
        assert got == [1]
        again = await company.open_on(node, DASortedBag, TOPIC)
        await asyncio.sleep(FAILURE_SECONDS)
        late: list[int] = []
        await again.contains(into(late))
        await asyncio.sleep(3)
        async with asyncio.timeout(10):
            await again.add(2)
        await asyncio.sleep(10)
        assert (got, late[-1]) == ([1, 2], 2)

    stage(1, main)
