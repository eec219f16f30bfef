"""Schedules of one-of-n delivery on whole nodes, by seed: takers enter together, crash and come back.

Each check is from the README alone: nobody who lives is given what another one who lives has done, and what a
publisher that lives added while somebody asked is done by somebody in the end.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.collections import DAStrongBag

PUBLISHERS, TAKERS = 2, 4
WORK_SECONDS = 0.05
CALM_SECONDS = 60.0


@dataclass
class Outcome:
    twice: dict[Any, list[str]] = field(default_factory=dict)
    """Elements that several takers have done, none of whom ever crashed."""
    never: list[Any] = field(default_factory=list)
    """Elements of publishers that live, added while a taker asked that lives, and done by nobody."""


class Schedule:
    def __init__(self, seed: int, *, crashes: int, loss: float) -> None:
        self.chance = random.Random(f"one of n {seed}")
        latency = Latency.uniform(0.005, 0.1)
        self.network = Network(seed, latency=latency, loss=loss)
        self.crashes = crashes
        self.added: dict[Any, float] = {}
        self.done: dict[Any, list[str]] = {}
        self.crashed: dict[str, None] = {}
        self.inside: dict[str, float] = {}

    def run(self) -> Outcome:
        self.network.run(self._main(), limit=1000)
        return self._outcome()

    async def _main(self) -> None:
        network, chance = self.network, self.chance
        for number in range(PUBLISHERS):
            network.spawn(nth_host(number), self._publisher(number))
            await asyncio.sleep(2)
        for number in range(PUBLISHERS, PUBLISHERS + TAKERS):
            network.spawn(nth_host(number), self._taker(nth_host(number)))
        await asyncio.sleep(chance.uniform(3, 12))
        for _ in range(self.crashes):
            number = chance.randrange(1, PUBLISHERS + TAKERS - 1)  # the first and the last live
            await self._crash(number)
            await asyncio.sleep(chance.uniform(0.1, 15))
        await asyncio.sleep(CALM_SECONDS)

    async def _crash(self, number: int) -> None:
        host = nth_host(number)
        self.crashed[host] = None
        self.network.crash(host)
        if number >= PUBLISHERS and self.chance.random() < 0.6:
            await asyncio.sleep(self.chance.uniform(0.1, 12))
            self.network.restart(host)
            self.network.spawn(host, self._taker(host))

    def _node(self, host: str) -> Node:
        first = nth_host(0)
        return Node(listen=f"{host}:4000", bootstrap=[] if host == first else [f"{first}:4000"])

    async def _publisher(self, number: int) -> None:
        async with (
            self._node(nth_host(number)) as node,
            node.collection(DAStrongBag, "/w", keep=0) as collection,
        ):
            for element in range(300):
                self.added[number, element] = self.network.now
                await collection.add([number, element])
                await asyncio.sleep(0.1)
            await asyncio.sleep(1e9)

    async def _taker(self, host: str) -> None:
        async def work(element: Any) -> None:
            await asyncio.sleep(WORK_SECONDS)
            self.done.setdefault(tuple(element.data), []).append(host)

        async with self._node(host) as node:
            collection = node.collection(DAStrongBag, "/w", keep=0)
            await collection.remove(work)
            async with collection:
                self.inside.setdefault(host, self.network.now)
                await asyncio.sleep(1e9)

    def _outcome(self) -> Outcome:
        outcome = Outcome()
        for element, hosts in self.done.items():
            if len([host for host in hosts if host not in self.crashed]) > 1:
                outcome.twice[element] = hosts
        steady = [at for host, at in self.inside.items() if host not in self.crashed]
        for element, at in self.added.items():
            publisher = nth_host(element[0])
            if publisher not in self.crashed and at > min(steady) and element not in self.done:
                outcome.never.append(element)
        return outcome
