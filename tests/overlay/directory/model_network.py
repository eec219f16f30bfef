"""A DHT of modelled nodes for the directory's logic: synchronous, in memory, by seed, on a virtual clock.

Lookups are exact, over the live nodes of the asker's side of a partition. A datagram is lost with
probability `loss`; a request that is not answered is sent three times, as the DHT does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import TypeVar

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.dht.trust import AddressTokens
from overlay.directory import (
    DirectoryConfig,
    DirectoryServer,
    DirectoryService,
    ShardReplication,
    TopicSize,
)
from overlay.metrics import Metrics
from overlay.steps import Steps, Work
from overlay.wire import decode, encode

T = TypeVar("T")
TOPIC = "/soccer/italy"
TRIES = 3
Answer = Callable[[Contact, object], object | None]


def drive(work: Work[T]) -> T:
    """Run steps of the directory that never have to wait."""
    results: list[T] = []
    Steps(work, results.append)
    assert results, "the model network never suspends"
    return results[0]


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
            neighbours=lambda key, count: network.closest(key, count, self.side),
            ask_alive=lambda contact, answered: answered(contact.id in network.members),
            began=lambda shard: self.replication.begin(shard),
            own=contact,
        )
        self.asker = ModelPeer(contact, network)
        self.replication = ShardReplication(self.asker, self.server, network.config)
        self.answer: Answer = self.server.handle
        self.served = 0

    @property
    def side(self) -> int:
        return self.asker.side


class Over:
    """Something that was over at once."""

    def cancel(self) -> None: ...


class ModelTimer:
    """A timer on the network's clock."""

    def __init__(self, peer: ModelPeer, action: Callable[[], None]) -> None:
        self.peer = peer
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None

    def fire(self) -> None:
        if self.action is not None and self.peer.is_alive:
            self.action()


class ModelPeer:
    """A process that uses the directory: its port to the DHT, its context, and the directory on both."""

    def __init__(self, contact: Contact, network: ModelNetwork, side: int = 0) -> None:
        self.contact = contact
        self.network = network
        self.random: Randomness = network.random
        self.side = side
        self.is_alive = True
        self.metrics = Metrics()
        self.service = DirectoryService(self, network.config, self.metrics)
        self.asks = 0
        self.lookups = 0

    # What a test asks of it.

    def announce(self) -> None:
        self.service.announce(TOPIC)

    def withdraw(self) -> None:
        self.service.withdraw(TOPIC)

    def sample(self, count: int, topic: str = TOPIC) -> list[Contact]:
        found: list[tuple[Contact, ...]] = []
        self.service.sample(topic, count, found.append)
        return list(found[0])

    def contacts(self, count: int, topic: str = TOPIC) -> list[Contact]:
        found: list[tuple[Contact, ...]] = []
        self.service.contacts(topic, count, found.append)
        return list(found[0])

    def size(self, topic: str = TOPIC) -> TopicSize:
        found: list[TopicSize] = []
        self.service.count(topic, found.append)
        return found[0]

    # Its context.

    @property
    def context(self) -> ModelPeer:
        return self

    def now(self) -> float:
        return self.network.clock

    def send(self, to: Contact, message: object) -> None:
        raise AssertionError("the directory speaks through the DHT only")

    def call_later(self, delay: float, action: Callable[[], None]) -> ModelTimer:
        timer = ModelTimer(self, action)
        self.network.schedule(delay, timer.fire)
        return timer

    # Its node of the DHT.

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> Over:
        self.lookups += 1
        done(list(self.network.closest(key, wide, self.side)))
        return Over()

    def apart(self, key: PeerId, count: int, done: Callable[[list[list[Contact]]], None]) -> Over:
        return self.around(key, count, count, lambda found: done([found]))

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        return self.network.closest(key, count, self.side)

    def neighbours(self, count: int) -> tuple[Contact, ...]:
        near = self.network.closest(self.contact.id, count + 1, self.side)
        return tuple(contact for contact in near if contact != self.contact)[:count]

    def token(self, to: Contact) -> bytes:
        node = self.network.nodes.get(to.id)
        return node.tokens.token_for(self.contact, self.now()) if node else b""

    def ask(self, to: Contact, request: object, done: Callable[[object | None], None]) -> Over:
        reply = None
        for _ in range(TRIES):
            self.asks += 1
            reply = self.network.deliver(self, to, request)
            if reply is not None:
                break
        done(reply)
        return Over()


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
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
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
            node.asker.side = int(in_second_half(node.contact))
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
            member.call_later(self.random.uniform(0, over), member.announce)
        if not over:
            self.run(0)
        return joined

    def kill(self, member: ModelPeer) -> None:
        del self.members[member.contact.id]
        member.is_alive = False

    def run(self, seconds: float) -> None:
        """Let the members announce themselves for so long."""
        until = self.clock + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, action = heapq.heappop(self._timers)
            self.clock = max(self.clock, when)
            action()
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

    def schedule(self, delay: float, action: Callable[[], None]) -> None:
        self._made += 1
        heapq.heappush(self._timers, (self.clock + delay, self._made, action))

    def _contact(self) -> Contact:
        self._made += 1
        return contact_of(self.random, self._made)

    def _topology_changed(self) -> None:
        self._ids.clear()
        self._closest.clear()
