"""Nodes with collections on the virtual network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from overlay.identity import Identity
from overlay.virtual import Network, nth_host
from pubsub import Node
from pubsub.collections import DAC, Element
from tests.pubsub.playground import PORT, Playground, play

C = TypeVar("C", bound=DAC)

FAILURE_SECONDS = 40.0
"""Within which a crash or a heal is noticed, and views are stable again."""


class Company:
    """A few nodes, and the collections that they open."""

    def __init__(self, playground: Playground) -> None:
        self.playground = playground
        self.network = playground.network
        self._identities: dict[int, Identity] = {}

    async def node(self, **settings: Any) -> Node:
        number = len(self.playground.nodes)
        identity = self._identities[number] = Identity.create()
        return await self.playground.node(identity=identity, **settings)

    async def open(self, kind: type[C], topic: str | type, **options: Any) -> C:
        """A collection on a node of its own."""
        return await self.open_on(await self.node(), kind, topic, **options)

    async def open_on(self, node: Node, kind: type[C], topic: str | type, **options: Any) -> C:
        collection = node.collection(kind, topic, **options)
        await self.playground.stack.enter_async_context(collection)
        return collection

    async def several(self, count: int, kind: type[C], topic: str, **options: Any) -> list[C]:
        """Collections of one topic on as many nodes, once they know each other."""
        opened = [await self.open(kind, topic, **options) for _ in range(count)]
        await asyncio.sleep(3)
        return opened

    def crash(self, collection: DAC) -> int:
        """Stop the collection's node; its number."""
        number = next(
            n
            for n, node in enumerate(self.playground.nodes)
            if node is collection._collections.node
        )
        self.playground.crash(number)
        return number

    async def restart(self, number: int) -> Node:
        """A node on the host of one that crashed, with its address and identity."""
        self.network.restart(nth_host(number))
        node = await self.playground._start(number, PORT, {"identity": self._identities[number]})
        self.playground.nodes[number] = node
        return node


def stage(
    seed: int, main: Callable[[Company], Awaitable[None]], network: Network | None = None
) -> None:
    async def run(playground: Playground) -> None:
        await main(Company(playground))

    play(seed, run, "structured", network)


def into(got: list[Any]) -> Callable[[Element], None]:
    """A callback that puts the data of each element into a list."""
    return lambda element: got.append(element.data)


def slowly(got: list[Any], seconds: float) -> Callable[[Element], Awaitable[None]]:
    """The same, with so much work for each element."""

    async def work(element: Element) -> None:
        await asyncio.sleep(seconds)
        got.append(element.data)

    return work
