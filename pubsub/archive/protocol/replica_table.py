"""The other replicas of a topic, and what each is known to have (sections 9.2 and 9.4).

The paper's replica-sequence tables have a line for each event, with its number at each replica. Here every
replica stores each stream in order, so that one number a stream says what a replica has and lacks. Sync
points travel as such numbers too (`covering`), and a damaged event is known by its id (`repair`). Nothing
needs the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from overlay.contact import Contact
from overlay.errors import UsageError
from pubsub.archive.protocol.forgetting import pack_time, unpack_time
from pubsub.archive.protocol.frontier import Awaited, Frontier
from pubsub.archive.protocol.messages import EntityUpdates
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Note

PEER = "peer/"
SHARED = "shared until"
"""The note of when a replica was last forgotten."""
MOST_PEERS = 64
MOST_NAME_BYTES = 32


@dataclass(slots=True)
class ReplicaPeer:
    """Another replica."""

    id: bytes
    contact: Contact
    frontier: Frontier = field(default_factory=Frontier)
    """What it has on stable storage, as far as it told."""
    heard_at: float | None = None
    count: int = 0
    is_ready: bool = False
    updates: int = -1
    """The number of the last of its entity updates that came; -1 at first."""
    heard_updates: int = -1
    """The number of the last entity update of ours that it said it has."""
    asked_at: float = 0.0
    """When it was last told what is here, to be told what is there."""
    nonce: int = 0
    """The nonce of that question."""
    equal: bytes = b""
    """The digest of both frontiers when they were last equal."""
    lacking: dict[bytes, None] = field(default_factory=dict)
    """Streams of which it has events that are not here."""
    ahead: dict[bytes, None] = field(default_factory=dict)
    """Streams of which it said to have events that were not here yet: they may be on their way."""
    pulled: Awaited = field(default_factory=Awaited)
    """What it was asked for last."""
    pulled_at: float = 0.0
    settled: int = 0
    """As it said; see `pubsub.archive.protocol.forgetting`."""
    pages: dict[tuple[int, int, int], dict[int, EntityUpdates]] = field(default_factory=dict)
    """Pages that have come of entity updates that are not complete yet."""


class ReplicaTable:
    """Every replica that was ever met and has not left."""

    def __init__(self, world: ArchiveWorld) -> None:
        self._world = world
        self.peers: dict[bytes, ReplicaPeer] = {}
        self._left: dict[bytes, float] = {}
        self._shared_until = unpack_time(world.store.notes(world.topic, SHARED).get(SHARED, b""))
        for key, packed in world.store.notes(world.topic, PEER).items():
            try:
                replica = bytes.fromhex(key.removeprefix(PEER))
                self.peers[replica] = ReplicaPeer(replica, Contact.unpack(packed))
            except (ValueError, UsageError):
                world.count_drop("unreadable_peer")

    def __len__(self) -> int:
        return len(self.peers)

    def met(self, replica: bytes, contact: Contact) -> tuple[ReplicaPeer, bool]:
        """A replica that gave a sign of life, and whether it is a new one."""
        peer = self.peers.get(replica)
        is_new = peer is None
        if peer is None:
            peer = self.peers[replica] = ReplicaPeer(replica, contact)
        if is_new or peer.contact != contact:
            peer.contact = contact
            note = Note(self._world.topic, PEER + replica.hex(), contact.packed())
            self._world.commit([note], lambda: None)
        peer.heard_at = self._world.context.now()
        return peer, is_new

    def of(self, contact: Contact) -> ReplicaPeer | None:
        """The replica at this node, if it is known as one."""
        return next((peer for peer in self.peers.values() if peer.contact.id == contact.id), None)

    def takes(self, replica: bytes) -> bool:
        """Whether this is a name of a replica, and there is room for one more."""
        known = replica in self.peers
        return known or (0 < len(replica) <= MOST_NAME_BYTES and len(self.peers) < MOST_PEERS)

    def forget(self, replica: bytes) -> None:
        """A replica has left for good."""
        now = self._world.context.now()
        self._left = {one: at for one, at in self._left.items() if self._is_recent(at)}
        self._left[replica] = now
        if replica in self.peers:
            self._shared_until = self.shared_until
            del self.peers[replica]
            topic = self._world.topic
            gone = (
                Note(topic, PEER + replica.hex(), None),
                Note(topic, SHARED, pack_time(self._shared_until)),
            )
            self._world.commit(gone, lambda: None)

    @property
    def shared_until(self) -> float:
        """Other replicas may have delivered what was archived by this time, by whichever clock; those too
        that are forgotten. 0 where there never was another one."""
        if not self.peers:
            return self._shared_until
        return self._world.clock() + self._world.config.skew

    def has_just_left(self, replica: bytes) -> bool:
        """Whether a sign of life of it can only be one that its farewell has overtaken."""
        return replica in self._left and self._is_recent(self._left[replica])

    def _is_recent(self, time: float) -> bool:
        return time > self._world.context.now() - self._world.config.patience

    def live(self) -> Iterator[ReplicaPeer]:
        """The replicas that were heard of lately."""
        for peer in self.peers.values():
            if peer.heard_at is not None and self._is_recent(peer.heard_at):
                yield peer

    @property
    def is_lowest(self) -> bool:
        """Whether none of the replicas that are there and serve has a lower name than this one."""
        return all(peer.id > self._world.replica for peer in self.live() if peer.is_ready)

    @property
    def are_all_live(self) -> bool:
        return sum(1 for _ in self.live()) == len(self.peers)

    def safe(self, stream: bytes, here: int) -> tuple[int, ...]:
        """How far a stream is safe on one replica, on two, and so on: all of these, where
        `pubsub.reliable.stability` has what every member has."""
        marks = [here, *(peer.frontier.get(stream) for peer in self.peers.values())]
        return tuple(sorted(marks, reverse=True))
