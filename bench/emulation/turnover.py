"""Continuous churn: processes come, go with a goodbye, crash, or change their topic, at a steady rate.

The first node and the gateways stay, as newcomers know nobody else.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from bench.emulation.population import Population

CRASH_SHARE = 0.5
"""Half of those who go crash; the others say goodbye."""
MOVE_SHARE = 0.25
"""Of the changes below the root, so many are of topic: a process joins the super-topic instead of its own."""


class Turnover:
    """While the block runs, `rate` of all processes a second are replaced by new ones of their community."""

    def __init__(self, population: Population, rate: float, chance: random.Random) -> None:
        self._population = population
        self._rate = rate
        self._chance = chance
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Turnover:
        if self._rate:
            self._task = asyncio.create_task(self._replace(), name="turnover")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _replace(self) -> None:
        population, chance = self._population, self._chance
        root = len(population.topics) - 1
        while True:
            hosts = population.changing()
            await asyncio.sleep(1 / (self._rate * len(hosts)))
            host, level = chance.choice(hosts)
            if level < root and chance.random() < MOVE_SHARE:
                await population.move(host, level + 1)
                # Its new community stays as large as it was.
                host = chance.choice([other for other, own in hosts if own == level + 1])
            if chance.random() < CRASH_SHARE:
                population.crash_one(host)
            else:
                await population.leave(host)
            await population.join(level)
