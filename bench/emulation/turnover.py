"""Continuous churn: processes come, go with a goodbye, or crash, at a steady rate."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from bench.emulation.population import Population

CRASH_SHARE = 0.5
"""Half of those who go crash; the others say goodbye."""


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
        while True:
            hosts = self._population.hosts()
            await asyncio.sleep(1 / (self._rate * len(hosts)))
            host, level = self._chance.choice(hosts)
            if self._chance.random() < CRASH_SHARE:
                self._population.crash_one(host)
            else:
                await self._population.leave(host)
            await self._population.join(level)
