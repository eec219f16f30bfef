"""A DHT of modelled nodes for the directory's logic: synchronous, in memory, by seed, on a virtual clock.

Lookups are exact, over the live nodes of the asker's side of a partition. A datagram is lost with
probability `loss`; a request that is not answered is sent three times, as the DHT does.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from overlay.contact import Contact, PeerId
from overlay.dht.address_tokens import AddressTokens
from overlay.directory import Directory, DirectoryConfig, DirectoryServer
from overlay.metrics import Metrics
from overlay.wire import decode, encode

T = TypeVar("T")
TOPIC = "/soccer/italy"
TRIES = 3
Answer = Callable[[Contact, object], object | None]


def drive(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of the directory that never has to wait."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the model network never suspends")


def contact_of(random: Random, index: int) -> Contact:
    host = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
    return Contact(PeerId(random.randbytes(20)), host, 4000)


class ModelNode:
    """A serving node. `answer` may be replaced by a hostile one."""

    def __init__(self, contact: Contact, network: ModelNetwork) -> None:
        self.contact = contact
        self.metrics = Metrics()
        self.tokens = AddressTokens(network.random.randbytes, 300.0, network.clock)
        self.server = DirectoryServer(
            network.config,
            network.now,
            lambda sender, token: self.tokens.accepts(sender, token, network.clock),
            self.metrics,
            give_token=lambda sender: self.tokens.token_for(sender, network.clock),
            neighbours=lambda key: tuple(network.closest(key, network.config.replicas, self.side)),
            ask_alive=lambda contact, answered: answered(contact.id in network.members),
        )
        self.answer: Answer = self.server.handle
        self.served = 0
        self.side = 0


class ModelPeer:
    """A process that uses the directory: the port, and the directory on it."""

    def __init__(self, contact: Contact, network: ModelNetwork, side: int = 0) -> None:
        self.contact = contact
        self.network = network
        self.random = network.random
        self.side = side
        self.metrics = Metrics()
        self.directory = Directory(self, network.config, self.metrics)
        self.asks = 0
        self.lookups = 0

    def now(self) -> float:
        return self.network.clock

    async def closest(self, key: PeerId, count: int) -> Sequence[Contact]:
        self.lookups += 1
        return self.network.closest(key, count, self.side)

    async def around(self, key: PeerId, exact: int, wide: int) -> Sequence[Contact]:
        self.lookups += 1
        return self.network.closest(key, wide, self.side)

    def token(self, to: Contact) -> bytes:
        node = self.network.nodes.get(to.id)
        return node.tokens.token_for(self.contact, self.now()) if node else b""

    async def ask(self, to: Contact, request: object) -> object | None:
        for _ in range(TRIES):
            self.asks += 1
            reply = self.network.deliver(self, to, request)
            if reply is not None:
                return reply
        return None

    async def together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        return [await call for call in calls]


class ModelNetwork:
    """Nodes, members that keep announcing themselves, and a clock that `run` moves on."""

    def __init__(
        self, seed: int, nodes: int, config: DirectoryConfig | None = None, loss: float = 0.0
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.config = config or DirectoryConfig()
        self.loss = loss
        self.clock = 1_000.0
        self.partitioned = False
        self.nodes: dict[PeerId, ModelNode] = {}
        self.members: dict[PeerId, ModelPeer] = {}
        self.delivered = 0
        self._made = 0
        self._refreshes: list[tuple[float, int, PeerId]] = []
        self._ids: dict[int, list[int]] = {}
        self._closest: dict[tuple[PeerId, int], tuple[Contact, ...]] = {}
        for _ in range(nodes):
            self.add_node()

    def now(self) -> float:
        return self.clock

    def add_node(self) -> ModelNode:
        node = ModelNode(self._contact(), self)
        self.nodes[node.contact.id] = node
        self._topology_changed()
        return node

    def kill_node(self, node: ModelNode) -> None:
        del self.nodes[node.contact.id]
        self._topology_changed()

    def partition(self, in_second_half: Callable[[Contact], bool]) -> None:
        for node in self.nodes.values():
            node.side = int(in_second_half(node.contact))
        for member in self.members.values():
            member.side = int(in_second_half(member.contact))
        self.partitioned = True
        self._topology_changed()

    def heal(self) -> None:
        self.partitioned = False
        self._topology_changed()

    def peer(self) -> ModelPeer:
        """A process that is no member."""
        return ModelPeer(self._contact(), self)

    def join(self, count: int, over: float = 0.0) -> list[ModelPeer]:
        """New members, that announce themselves in the next `over` seconds."""
        joined = [self.peer() for _ in range(count)]
        for member in joined:
            self.members[member.contact.id] = member
            self._schedule(member, self.random.uniform(0, over))
        if not over:
            self.run(0)
        return joined

    def kill(self, member: ModelPeer) -> None:
        del self.members[member.contact.id]

    def run(self, seconds: float) -> None:
        """Let the members announce themselves for so long."""
        until = self.clock + seconds
        while self._refreshes and self._refreshes[0][0] <= until:
            when, _, key = heapq.heappop(self._refreshes)
            member = self.members.get(key)
            self.clock = max(self.clock, when)
            if member is not None:
                self._schedule(member, drive(member.directory.announce(TOPIC)))
        self.clock = until

    def closest(self, key: PeerId, count: int, side: int) -> tuple[Contact, ...]:
        side = side if self.partitioned else -1
        found = self._closest.get((key, side))
        if found is None:
            if side not in self._ids:
                self._ids[side] = [
                    int.from_bytes(node.contact.id, "big")
                    for node in self.nodes.values()
                    if side in (-1, node.side)
                ]
            target = int.from_bytes(key, "big")
            ids = heapq.nsmallest(20, self._ids[side], key=lambda i: i ^ target)
            found = tuple(self.nodes[PeerId(i.to_bytes(20, "big"))].contact for i in ids)
            self._closest[key, side] = found
        return found[:count]

    def deliver(self, sender: ModelPeer, to: Contact, request: object) -> object | None:
        node = self.nodes.get(to.id)
        if node is None or (self.partitioned and node.side != sender.side):
            return None
        if self.loss and self.random.random() < self.loss:
            return None
        node.served += 1
        reply = node.answer(sender.contact, request)
        self.delivered += 1
        if self.delivered % 64 == 0 and node.answer == node.server.handle:
            request, reply = self._over_the_wire(request), self._over_the_wire(reply)
        if self.loss and self.random.random() < self.loss:
            return None
        return reply

    @staticmethod
    def _over_the_wire(message: object) -> object:
        if message is None:
            return None
        data = encode(message)
        assert len(data) <= 1_250, f"{type(message).__name__} has {len(data)} bytes"
        assert decode(data) == message
        return message

    def _schedule(self, member: ModelPeer, delay: float) -> None:
        self._made += 1
        heapq.heappush(self._refreshes, (self.clock + delay, self._made, member.contact.id))

    def _contact(self) -> Contact:
        self._made += 1
        return contact_of(self.random, self._made)

    def _topology_changed(self) -> None:
        self._ids.clear()
        self._closest.clear()
