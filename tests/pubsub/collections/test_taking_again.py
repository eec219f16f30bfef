"""One-of-n delivery through whole nodes where publishers and takers stop and start again."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pubsub.collections import DAStrongBag, Element
from tests.pubsub.collections.nodes import FAILURE_SECONDS, Company, stage

TOPIC = "/tasks"


@pytest.mark.parametrize(("count", "away"), [(30, 1.0), (80, 20.0)])
def test_what_a_publisher_had_to_give_that_returns_with_its_log_is_taken_once(
    seed: int, tmp_path: Path, count: int, away: float
) -> None:
    async def main(company: Company) -> None:
        log = tmp_path / "publisher.db"
        publisher = await company.open(DAStrongBag, TOPIC, keep=0, log=log)
        takers = await company.several(2, DAStrongBag, TOPIC, keep=0)
        done: list[Any] = []

        async def slowly(element: Element) -> None:
            await asyncio.sleep(5)
            done.append(element.data)

        for taker in takers:
            await taker.remove(slowly)
        await asyncio.sleep(2)
        for number in range(count):
            await publisher.add(number)
        await asyncio.sleep(2)
        number = company.crash(publisher)
        await asyncio.sleep(away)
        node = await company.restart(number)
        again = await company.open_on(node, DAStrongBag, TOPIC, keep=0, log=log)
        await asyncio.sleep(FAILURE_SECONDS)
        await again.add("and one more")
        await asyncio.sleep(FAILURE_SECONDS + 5 * count)
        assert Counter(done) == Counter([*range(count), "and one more"])

    stage(seed, main)
