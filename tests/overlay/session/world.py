"""Sessions without sockets: peers on a clock of their own, with loss, repetition and reordering by seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from overlay.contact import Address, Contact
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.session import SessionConfig
from overlay.session.sessions import Sessions
from overlay.transport.frame import Destination, Dropped, FrameBatch

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))


class Timer:
    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None

    def ring(self) -> None:
        if self.action is not None:
            self.action()


class World:
    """The clock, and the wires between peers."""

    def __init__(self, seed: int = 1, loss: float = 0.0, twice: float = 0.0, jitter: float = 0.0):
        self.random = random.Random(seed)
        self.now = 1000.0
        self.loss, self.twice, self.jitter = loss, twice, jitter
        self.peers: dict[Address, Peer] = {}
        self.seen: list[tuple[Address, Address, bytes]] = []
        """Every datagram that was sent, as an outsider on the path sees it."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._due, (when, next(self._order), timer.ring))
        return timer

    def carry(self, datagram: bytes, source: Address, to: Address) -> None:
        self.seen.append((source, to, datagram))
        for _ in range(2 if self.random.random() < self.twice else 1):
            if self.random.random() >= self.loss:
                delay = 0.01 + self.random.uniform(0, self.jitter)
                self.at(self.now + delay, lambda: self.arrive(datagram, source, to))

    def arrive(self, datagram: bytes, source: Address, to: Address) -> None:
        if to in self.peers:
            self.peers[to].take(datagram, source)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = end


class Peer:
    """One node's sessions, and what it was handed."""

    def __init__(
        self,
        world: World,
        name: int,
        keys: tuple[bytes, ...] = (KEY,),
        config: SessionConfig | None = None,
        address: Address | None = None,
    ) -> None:
        self.world = world
        self.identity = Identity(bytes([name]) * 32)
        self.address = address or Address(f"10.0.{name}.1", 4000)
        self.metrics = Metrics()
        self.received: list[tuple[Contact, bytes]] = []
        self.asked_early: list[tuple[Contact, bytes]] = []
        self.dropped_in: list[str] = []
        self.is_flooded = False
        self.dropped_out: list[str] = []
        self.config = config or SessionConfig()
        self.sessions = Sessions(
            keys, self.identity, self.config, self, random.Random(name), self.metrics
        )
        world.peers[self.address] = self

    @property
    def contact(self) -> Contact:
        return Contact(self.identity.id, *self.address)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.received]

    @property
    def handshakes(self) -> dict[str, int]:
        return self.metrics.as_dict()["handshakes"]  # type: ignore[return-value]

    def move(self, address: Address) -> None:
        del self.world.peers[self.address]
        self.address = address
        self.world.peers[address] = self

    def restart(self) -> Peer:
        self.sessions.close()
        again = Peer(self.world, self.identity_name, tuple(self.keys), self.config, self.address)
        again.sessions._random = random.Random(self.world.random.random())  # type: ignore[assignment]
        return again

    @property
    def identity_name(self) -> int:
        return self.identity._key.private_bytes_raw()[0]

    @property
    def keys(self) -> list[bytes]:
        return [key.secret for key in self.sessions._ring]

    def send(self, to: Destination, body: bytes) -> None:
        batch = FrameBatch(1_000)
        batch.parts, batch.size, batch.frames = [body], len(body), 1
        self.release(to, [batch])

    def take(self, datagram: bytes, source: Address) -> None:
        try:
            opened = self.sessions.unwrap(datagram, tuple(source))
        except Dropped as drop:
            self.dropped_in.append(drop.reason)
            return
        if opened is not None:
            self.received.append((opened[0], opened[1]))

    # What sessions need of an endpoint.

    def now(self) -> float:
        return self.world.now

    def call_at(self, when: float, action: Callable[[], None]) -> Timer:
        return self.world.at(when, action)

    def transmit(self, datagram: bytes, to: Address) -> None:
        self.world.carry(datagram, self.address, to)

    def release(self, to: Destination, batches: list[FrameBatch]) -> None:
        wrap = self.sessions.towards(to)
        if wrap is None:
            self.sessions.hold(to, batches)
            return
        address = to.address if isinstance(to, Contact) else to
        for batch in batches:
            self.transmit(wrap(batch.parts), address)

    def drop(self, reason: str, frames: int) -> None:
        self.dropped_out += [reason] * frames

    def is_flooding(self, host: str) -> bool:
        return self.is_flooded

    def early_question(self, batch: FrameBatch) -> bytes:
        return bytes(batch.parts[0]) if batch.parts[0] == b"there?" else b""

    def answer_early(self, sender: Contact, frame: bytes) -> bytes:
        self.asked_early.append((sender, frame))
        return b"yes" if frame == b"there?" else b""


def pair(world: World, **settings: object) -> tuple[Peer, Peer]:
    return Peer(world, 1, **settings), Peer(world, 2, **settings)  # type: ignore[arg-type]
