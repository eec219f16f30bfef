"""Many DHT nodes on one virtual network, and what is true of them all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from overlay.contact import Contact, PeerId
from overlay.dht import Dht, DhtConfig
from overlay.dht.exchange import Call
from overlay.dht.node import DhtNode
from overlay.entropy import entropy
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.virtual import Network, nth_host

T = TypeVar("T")


def key(name: object) -> PeerId:
    """A place in the id space for each name."""
    return PeerId(hashlib.sha1(str(name).encode()).digest())


@dataclass
class Member:
    """One node and the parts that a test looks at."""

    host: str
    endpoint: Endpoint
    dht: Dht
    config: DhtConfig

    @property
    def contact(self) -> Contact:
        return self.endpoint.contact

    @property
    def metrics(self) -> Metrics:
        return self.endpoint.metrics

    def counted(self, family: str, label: str) -> int:
        """The value of one counter of a family."""
        values = self.metrics.as_dict()[family]
        assert isinstance(values, dict)
        return values.get(label, 0)

    @property
    def protocol(self) -> DhtNode:
        return self.dht.node

    async def ping(self, to: Contact) -> Call:
        """Ask for a sign of life, and wait for the end of that."""
        over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self.dht.node.ping(to, over.set_result)
        return await over

    async def close(self) -> None:
        self.dht.close()
        await self.endpoint.close()


async def open_member(
    host: str,
    config: DhtConfig | None = None,
    identity: Identity | None = None,
    port: int = 4000,
    datagram_size: int = 1400,
) -> Member:
    listening = EndpointConfig(listen=f"{host}:{port}", datagram_size=datagram_size)
    endpoint = await Endpoint.open(listening, identity or Identity.create(), Metrics())
    config = config or DhtConfig()
    return Member(host, endpoint, Dht(endpoint, config), config)


@dataclass
class Swarm:
    """The members of one network, each on a host of its own."""

    net: Network
    config: DhtConfig = field(default_factory=DhtConfig)
    members: list[Member] = field(default_factory=list)
    hosts: int = 0

    def run_on(self, member: Member, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Let a member do something on its own host."""
        return self.net.spawn(member.host, work)

    async def add(self, config: DhtConfig | None = None, join: bool = True) -> Member:
        """Start a member on the next host and let it join through a member that serves."""
        self.hosts += 1
        host = nth_host(self.hosts)
        serving = [m for m in self.members if m.config.serve]
        bootstrap = [entropy().choice(serving).contact.address] if serving else []

        async def start() -> Member:
            member = await open_member(host, config or self.config)
            if join:
                await member.dht.join(bootstrap)
            return member

        member: Member = await self.net.spawn(host, start())
        self.members.append(member)
        return member

    async def grow(self, size: int, at_once: int = 8) -> None:
        """Add members until there are `size`, a few at the same time."""
        while len(self.members) < size:
            count = min(at_once if self.members else 1, size - len(self.members))
            await asyncio.gather(*(self.add() for _ in range(count)))

    def crash(self, member: Member) -> None:
        self.net.crash(member.host)
        self.members.remove(member)

    def closest(self, target: PeerId, count: int = 20) -> list[Contact]:
        """The true answer: the serving members closest to `target`, nearest first."""
        goal = int.from_bytes(target, "big")
        serving = [m.contact for m in self.members if m.config.serve]
        return sorted(serving, key=lambda c: int.from_bytes(c.id, "big") ^ goal)[:count]
