"""A process that holds nodes and does what it is told over a pipe; it ends when the pipe does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from bench.hierarchy import tables_of
from bench.live.orders import Close, Count, Join, Look, Newcomer, Order, Publish
from overlay import loops
from pubsub import Node


def hold(pipe: Connection) -> None:
    """The process's main function."""
    loops.run(Holder(pipe).serve())


class Holder:
    """The nodes of this process, by number."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._nodes: dict[int, Node] = {}
        self._topics: dict[int, str] = {}
        self._stacks: list[AsyncExitStack] = []

    async def serve(self) -> None:
        self._pipe.send("ready")
        while True:
            order: Order = await asyncio.to_thread(self._pipe.recv)
            self._pipe.send(await self._obey(order))
            if isinstance(order, Close):
                return

    async def _obey(self, order: Order) -> Any:
        match order:
            case Join():
                joined = await asyncio.gather(*map(self._join, order.newcomers))
                return dict(joined)
            case Publish():
                topic = self._topics[order.number]
                await self._nodes[order.number].publish(topic, "event", upward=order.upward)
            case Look():
                return {n: self._contacts(n) for n in self._nodes}
            case Count():
                return sum(_copies(node) for node in self._nodes.values())
            case Close():
                await asyncio.gather(*(stack.aclose() for stack in self._stacks))
        return None

    def _contacts(self, number: int) -> list[str]:
        _, table, supers = tables_of(self._nodes[number], self._topics[number])
        return [*table, *supers]

    async def _join(self, newcomer: Newcomer) -> tuple[int, tuple[str, str]]:
        stack = AsyncExitStack()
        self._stacks.append(stack)
        settings = newcomer.settings
        node = await stack.enter_async_context(Node(trace=newcomer.trace, **settings))
        events = await stack.enter_async_context(node.subscribe(newcomer.topic, queue=1))
        del events  # what arrives is read from the trace
        self._nodes[newcomer.number] = node
        self._topics[newcomer.number] = newcomer.topic
        return newcomer.number, (node.id.hex(), str(node.address))


def _copies(node: Node) -> int:
    return node.metrics.counter("events_received", "Copies of events received.").value
