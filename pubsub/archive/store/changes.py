"""What can be changed in a store: frozen dataclasses, written in batches, all of a batch or none of it.

Numbers are chosen by the archive and not by the store: a sequence number is given once in a topic, and the
store remembers the highest one that was ever used (see `Store.last_sequence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pubsub.reliable.numbers import Span


class StoredEvent(NamedTuple):
    """An inventory event: the event in full, and for whom it was when it was archived."""

    topic: str
    sequence: int
    """This archive's number for it in this topic, from 1."""
    id: bytes
    publisher: bytes
    catenation: int
    """The publisher's number for it in this topic."""
    time: float
    """Seconds since 1970 at which it was archived; retention by age and replay since a time go by it."""
    body: bytes
    """The event as it travels; the store does not look into it."""
    destinations: tuple[str, ...] = ()
    """Names of the entities whose profiles it satisfied; the record of the dissemination table."""


@dataclass(frozen=True, slots=True)
class Append:
    """Archive an event, and raise its publisher's catenation number to it.

    An event that is there already under this sequence number is replaced: so damage is repaired."""

    event: StoredEvent


@dataclass(frozen=True, slots=True)
class Reserve:
    """Use up all sequence numbers to `last`, without an event behind them (yet)."""

    topic: str
    last: int


@dataclass(frozen=True, slots=True)
class Register:
    """Register an entity from `epoch` on, where its sync point begins; a registered one stays as it is."""

    topic: str
    entity: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Deregister:
    """Forget an entity with its profiles, sync point and gaps; nothing is kept for it any more."""

    topic: str
    entity: str


@dataclass(frozen=True, slots=True)
class PutProfile:
    """Add or replace one of an entity's profiles; `sequence` is the number of this operation."""

    topic: str
    entity: str
    name: str
    sequence: int
    profile: bytes


@dataclass(frozen=True, slots=True)
class AdvanceSync:
    """Raise an entity's sync point; it never goes back."""

    topic: str
    entity: str
    sync: int


@dataclass(frozen=True, slots=True)
class Catenate:
    """Raise a publisher's catenation number without an event; it never goes back."""

    topic: str
    publisher: bytes
    catenation: int


@dataclass(frozen=True, slots=True)
class ForgetStreams:
    """Forget the catenation numbers of publishers of which no event is kept."""

    topic: str
    publishers: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReplicaStored:
    """Lines of another replica's table: events, by their ids, and their sequence numbers there."""

    topic: str
    replica: bytes
    stored: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class ForgetReplica:
    """Remove a replica's table."""

    topic: str
    replica: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """Keep a few bytes of the archive's own under a key; None removes them."""

    topic: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that were removed before an entity had had them; kept until it has been told."""

    entity: str
    span: Span
    events: int
    """How many within the span were for this entity."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove events, and remember the gaps that this leaves. Made by `pubsub.archive.store.retention`."""

    topic: str
    spans: tuple[Span, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class GapsTold:
    """An entity knows of its gaps up to `last`: forget them."""

    topic: str
    entity: str
    last: int


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """Remove everything of a topic, as after handing it over."""

    topic: str


Change = (
    Append
    | Reserve
    | Register
    | Deregister
    | PutProfile
    | AdvanceSync
    | Catenate
    | ForgetStreams
    | ReplicaStored
    | ForgetReplica
    | Note
    | Drop
    | GapsTold
    | ForgetTopic
)
