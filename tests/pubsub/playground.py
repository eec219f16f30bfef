"""Nodes on the virtual network, in any mode, with every datagram read for parasite events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from overlay.virtual import Network, nth_host
from pubsub import Event, Node, Subscription
from tests.pubsub.parasites import ParasiteWatch

PORT = 4000
MODES = ["unstructured", "semi-structured", "structured", "hyparview"]


class Playground:
    """Starts nodes, one a host, and lets them go at the end of the test."""

    def __init__(self, network: Network, mode: str, **settings: Any) -> None:
        self.network = network
        self.mode = mode
        self.settings = settings
        self.watch = ParasiteWatch()
        self.stack = AsyncExitStack()
        self.nodes: list[Node] = []
        self._gateways: dict[str, list[str]] = {}

    async def node(self, **settings: Any) -> Node:
        """One more node, which knows the first one, or the gateways that there are so far."""
        node = await self._start(len(self.nodes), PORT, settings)
        self.nodes.append(node)
        return node

    async def replace(self, node: Node) -> Node:
        """Close a node, and start another on its host."""
        number = self.nodes.index(node)
        await node.close()
        self.nodes[number] = await self._start(number, 0, {})
        return self.nodes[number]

    def crash(self, number: int) -> None:
        """Stop a node where it stands, together with its host."""
        self.watch.forget(self.nodes[number])
        self.network.crash(nth_host(number))

    async def restart_subscriber(self, number: int, topic: str) -> Subscription:
        """Begin anew on the host of a crashed node, at the same address."""
        self.network.restart(nth_host(number))
        node = self.nodes[number] = await self._start(number, PORT, {})
        return await self.stack.enter_async_context(node.subscribe(topic))

    async def _start(self, number: int, port: int, settings: dict[str, Any]) -> Node:
        known: dict[str, Any] = {"gateways": dict(self._gateways)}
        if self.mode != "unstructured":
            known = {"bootstrap": [str(n.address) for n in self.nodes[:1]]}
        settings = {**known, **self.settings, **settings}
        node = Node(listen=f"{nth_host(number)}:{port}", mode=self.mode, **settings)
        entering = self.stack.enter_async_context(node)
        await self.network.spawn(nth_host(number), entering)
        self.watch.add(node)
        return node

    async def subscriber(self, topic: str | type, **options: Any) -> tuple[Node, Subscription]:
        """A new node that subscribes; the first two of each topic are its gateways."""
        node = await self.node()
        events = await self.stack.enter_async_context(node.subscribe(topic, **options))
        gateways = self._gateways.setdefault(events.pattern.topic.name, [])
        if len(gateways) < 2:
            gateways.append(str(node.address))
        return node, events

    async def subscribers(self, topic: str | type, count: int) -> list[Subscription]:
        return [(await self.subscriber(topic))[1] for _ in range(count)]


def play(
    seed: int,
    main: Callable[[Playground], Awaitable[None]],
    mode: str = "unstructured",
    network: Network | None = None,
    **settings: Any,
) -> Playground:
    """Run `main` on a virtual network, and look after it.

    Nothing may be left running, no parasite have been sent, and no message have come that nobody takes.
    """
    network = network or Network(seed)
    playground = Playground(network, mode, **settings)

    async def run() -> None:
        before = asyncio.all_tasks()
        async with playground.stack:
            await main(playground)
        left = asyncio.all_tasks() - before
        assert not left, f"still running: {left}"

    with network.rule(playground.watch):
        network.run(run())
    assert not playground.watch.parasites, playground.watch.parasites[:3]
    for node in playground.nodes:
        assert "no_handler" not in node.metrics.as_dict()["messages_dropped_in"]
    return playground


async def received(events: Subscription, count: int, within: float = 10.0) -> list[Event]:
    """The next `count` events; fails when they do not come within so many virtual seconds."""
    result: list[Event] = []
    try:
        async with asyncio.timeout(within):
            while len(result) < count:
                result.append(await anext(events))
    except TimeoutError:
        pytest.fail(f"{len(result)} of {count} events came within {within} s")
    return result
