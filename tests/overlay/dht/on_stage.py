"""Nodes of the DHT with their directory on the stage: no event loop, no datagrams, hundreds of seeds in
seconds."""

from __future__ import annotations

import random
from collections.abc import Callable

from overlay.contact import Address, Contact, PeerId
from overlay.context import Timer
from overlay.dht import DhtConfig, DhtNode, NoBootstrapAnswer
from overlay.directory import DirectoryConfig, DirectoryService, serve_directory
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, StageContext, numbered_contact

ROOM = 1200


class ByAddress:
    """A context of the stage that also sends to whoever listens at an address, of whatever id."""

    def __init__(self, world: World, inner: StageContext) -> None:
        self._world = world
        self._inner = inner
        self.contact = inner.contact
        self.random = inner.random
        self.now = inner.now

    def send(self, to: Contact, message: object) -> None:
        listening = self._world.listening.get(to.address)
        if listening is not None:
            self._inner.send(listening, message)

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._inner.call_later(delay, action)


class Player:
    """One node on the stage."""

    def __init__(self, world: World, number: int) -> None:
        self.contact = numbered_contact(number)
        world.listening[self.contact.address] = self.contact
        context = ByAddress(world, world.stage.context(self.contact))
        metrics = Metrics()
        self.node = DhtNode(context, world.config, world.identity, metrics, ROOM)
        self.directory = DirectoryService(self.node, world.directory, metrics)
        serve_directory(self.node, world.directory, metrics, ROOM)
        world.stage.attach(self.contact, self.node.receive)  # type: ignore[arg-type]
        self.node.start()
        self.joined: list[NoBootstrapAnswer | None] = []


class World:
    """Nodes that join one after another, each through one that is there."""

    def __init__(
        self,
        seed: int,
        size: int,
        faults: StageConfig | None = None,
        config: DhtConfig | None = None,
        directory: DirectoryConfig | None = None,
    ) -> None:
        self.stage = Stage(seed, faults)
        self.random = random.Random(seed)
        self.config = config or DhtConfig()
        self.directory = directory or DirectoryConfig()
        self.identity = Identity.create()
        self.listening: dict[Address, Contact] = {}
        self.players: list[Player] = []
        while len(self.players) < size:
            self.add(min(max(1, len(self.players) // 2), size - len(self.players)))

    def add(self, count: int) -> list[Player]:
        """Add `count` nodes at the same time; they have joined when this returns."""
        doors = [
            [self.random.choice(self.players).contact.address] for _ in range(count) if self.players
        ]
        new = [Player(self, len(self.players) + number) for number in range(count)]
        for player, bootstrap in zip(new, doors or [[]], strict=True):
            player.node.join(bootstrap, (), player.joined.append)
        self.players += new
        while not all(player.joined for player in new):
            self.stage.run_for(0.5)
        assert all(player.joined == [None] for player in new)
        return new

    def crash(self, player: Player) -> None:
        self.stage.crash(player.contact)
        self.players.remove(player)

    def closest(self, key: PeerId, count: int) -> list[Contact]:
        """The true answer."""
        goal = int.from_bytes(key, "big")
        contacts = [player.contact for player in self.players]
        return sorted(contacts, key=lambda c: int.from_bytes(c.id, "big") ^ goal)[:count]
