"""What an archive asks of its store (sections 4.4, 4.5 and 9.2 of the reliable delivery paper).

A store keeps, for each topic: the inventory of events, each with a sequence number; the dissemination table
(for whom an event is, and who has not had it); the registered entities with their epochs, profiles and sync
points; the catenation number of each publisher; one table for each other replica, of the numbers that events
have there.

Changes are written in batches:

    store.write(changes)     # may still be lost
    store.sync()             # now they survive: a crash of the process, of the machine, a loss of power

A batch survives as a whole or not at all. Reads show what has been synced and nothing else, so that nobody is
told of a number that a crash could take back. `write` and `sync` come from one thread at a time; reads may
come from another while they run.

A store that fails while it writes or syncs is of no more use: what the disk has is not known (the kernel may
have dropped the dirty pages). It raises `StoreError`, then and at every later call that writes or has to
read the disk; open it anew to go on with what survived. In memory, and so never failing, are topics, amounts,
highest numbers, entities, catenation numbers, notes and what is known to be damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from overlay.errors import CamcastError
from pubsub.archive.store.changes import Change, StoredEvent
from pubsub.archive.store.gaps import EntityGap
from pubsub.reliable.numbers import Span


class StoreError(CamcastError):
    """The store cannot be read or written; whatever was not synced must be taken for lost."""


class Entity(NamedTuple):
    """A registered entity of a topic."""

    name: str
    epoch: int
    """The sequence number of its registration: it is to have what comes after."""
    sync: int
    """It has had everything for it up to this number."""
    profiles: Mapping[str, bytes]
    gaps: tuple[EntityGap, ...]
    """What was removed before it had it, and it has not been told of."""


@dataclass(frozen=True, slots=True)
class Holding:
    """An event of the inventory, without its body."""

    sequence: int
    time: float
    size: int
    """Bytes of its body."""
    waiting: tuple[str, ...]
    """The registered entities that it is for and that have not had it."""
    id: bytes
    publisher: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Events that were stored and cannot be read any more, to be fetched from a replica.

    Repaired by an event written under the same sequence number, or given up by a `Drop`."""

    topic: str
    """Empty when it is not known."""
    span: Span
    """The numbers that may be among them. From 0 to 0, without a topic: not events but some of the state,
    such as entities and sync points."""
    reason: str
    """`torn`: the last write is not whole, so that nothing of it had been acknowledged, unless the disk lies;
    `corrupt`: bytes have changed since they were written."""


class Store(Protocol):
    """Everything below is said of one topic, and of what has been synced."""

    blocking: bool
    """Calls wait for a disk or a server: keep them off the event loop. False on the virtual disk."""
    sync_seconds: float
    """How long a sync takes where nothing blocks, in virtual seconds; 0 otherwise."""

    # -- changing --

    def write(self, changes: Sequence[Change]) -> None:
        """Write a batch, in order. The next batch waits until this one is synced."""
        ...

    def sync(self) -> None:
        """Return when the batch is on stable storage, and show it to readers."""
        ...

    def close(self) -> None:
        """Release files and connections; a batch that was not synced may be lost."""
        ...

    # -- the inventory --

    def topics(self) -> tuple[str, ...]:
        """The topics of which anything is kept, sorted."""
        ...

    def last_sequence(self, topic: str) -> int:
        """The highest number that was ever used; 0 at first. Numbers above it are free."""
        ...

    def first_sequence(self, topic: str) -> int:
        """The lowest number of an event that is still there; `last_sequence + 1` when there is none."""
        ...

    def count(self, topic: str) -> int:
        """How many events are there."""
        ...

    def size(self, topic: str) -> int:
        """How many bytes their bodies have together."""
        ...

    def events(
        self, topic: str, after: int, limit: int, max_bytes: int | None = None
    ) -> list[StoredEvent]:
        """The next events above `after`, in order, at most `limit`, and no more than `max_bytes` of
        bodies after the first. Damaged ones are left out and reported by `damage`."""
        ...

    def read(self, topic: str, sequences: Iterable[int]) -> list[StoredEvent]:
        """These events, as far as they are there and undamaged, in order of their numbers."""
        ...

    def sequences(self, topic: str, ids: Iterable[bytes]) -> dict[bytes, int]:
        """The sequence numbers of these events, as far as they are there."""
        ...

    def by_catenation(
        self, topic: str, publisher: bytes, span: Span, limit: int | None = None
    ) -> list[StoredEvent]:
        """A publisher's events in this span of its catenation numbers, in order of these: the first `limit`
        of them, if that is given. Damaged ones among them are left out; one that is there under two sequence
        numbers, as after a repair, comes once."""
        ...

    def firsts_above(self, topic: str, sequence: int) -> dict[bytes, int]:
        """By publisher: the lowest catenation number of its events that are there under a sequence number
        above this one. Above 0: of all publishers of which an event is there."""
        ...

    def first_beyond(self, topic: str, marks: Mapping[bytes, int]) -> int:
        """The lowest number of an event whose catenation number is above its publisher's among `marks`, where
        it is 0 for others; `last_sequence + 1` if there is none."""
        ...

    def publishers_of(self, topic: str, runs: Iterable[bytes]) -> dict[bytes, bytes]:
        """By run: the publisher of one of its events that are there. The ids of events begin with their
        run."""
        ...

    def since(self, topic: str, time: float) -> int:
        """The lowest number of an event archived at `time` or later; `last_sequence + 1` if there is none."""
        ...

    # -- the dissemination table --

    def holdings(self, topic: str, after: int, limit: int) -> list[Holding]:
        """The next events above `after`, who waits for each, without reading bodies."""
        ...

    # -- entities, publishers, notes --

    def entity(self, topic: str, name: str) -> Entity | None: ...

    def entities(self, topic: str) -> tuple[Entity, ...]:
        """Every registered entity, in the order of their names."""
        ...

    def catenations(self, topic: str) -> dict[bytes, int]: ...

    def notes(self, topic: str, prefix: str = "") -> dict[str, bytes]:
        """The notes whose keys begin with `prefix`, in order of their keys."""
        ...

    # -- tables of other replicas --

    def replica_ids(self, topic: str, replica: bytes, span: Span) -> dict[int, bytes]:
        """The events that have these numbers at a replica, in order, as far as it told."""
        ...

    # -- damage --

    def damage(self) -> tuple[Damage, ...]:
        """What was found damaged so far, at opening or in reading, and has not been repaired or dropped."""
        ...

    def damaged_ids(self, topic: str) -> dict[int, tuple[bytes, ...]]:
        """The ids that damaged events had, by sequence number, as far as they are known. An event has several
        where the damage may be in the id itself: one of them is right."""
        ...

    def verify(self) -> tuple[Damage, ...]:
        """Read everything back, compare checksums, and return `damage()`."""
        ...
