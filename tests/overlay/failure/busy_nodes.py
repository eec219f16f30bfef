"""Nodes on the virtual network that all watch each other and may chatter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from overlay.contact import Contact
from overlay.entropy import entropy
from overlay.failure import FailureConfig
from overlay.identity import Identity
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Network, nth_host
from overlay.wire import message


@message(0x2F01)
@dataclass(frozen=True)
class Chatter:
    text: str


@dataclass
class Watcher:
    """A node that watches all others, and what it was told of them, with the time."""

    runtime: Runtime
    suspected: list[tuple[float, Contact]] = field(default_factory=list)
    restored: list[tuple[float, Contact]] = field(default_factory=list)
    crashed: list[Contact] = field(default_factory=list)

    def watch(self, others: list[Watcher], *, in_turn: bool = False) -> None:
        now = asyncio.get_running_loop().time
        failure = self.runtime.failure
        failure.subscribe(
            lambda peer: self.suspected.append((now(), peer)),
            lambda peer: self.restored.append((now(), peer)),
        )
        failure.subscribe(self.crashed.append, strict=True)
        for other in others:
            if other is not self:
                failure.watch(other.runtime.contact, in_turn=in_turn)

    async def chatter(self, others: list[Watcher], pause: float) -> None:
        self.runtime.on(Chatter, lambda sender, text: None)
        peers = [other.runtime.contact for other in others if other is not self]
        while True:
            await asyncio.sleep(entropy().uniform(0.5, 1.5) * pause)
            self.runtime.send(entropy().choice(peers), Chatter("so many words"))


async def open_node(
    net: Network, index: int, identity: Identity | None = None, helpers: int = 3
) -> Watcher:
    host = nth_host(index)
    config = RuntimeConfig(EndpointConfig(f"{host}:4000"), failure=FailureConfig(helpers=helpers))
    return Watcher(await net.spawn(host, Runtime.open(config, identity)))


async def watching_nodes(net: Network, count: int, chatter: float | None = None) -> list[Watcher]:
    """Nodes that watch each other; `chatter`: seconds between two messages of each."""
    nodes = [await open_node(net, index) for index in range(1, count + 1)]
    for index, node in enumerate(nodes, 1):
        node.watch(nodes)
        if chatter is not None:
            net.spawn(nth_host(index), node.chatter(nodes, chatter))
    return nodes
