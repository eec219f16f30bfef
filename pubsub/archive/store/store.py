"""A store of an archive: what every kind of it promises, and all that does not depend on the database
(sections 4.4 and 4.5 of the reliable delivery paper).

A store keeps, for each topic: the inventory of events, each with a sequence number; the dissemination table
(for whom an event is, and who has not had it); the registered entities with their state and sync
points; the catenation number of each publisher.

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

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from overlay.errors import why
from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import Change, StoredEvent
from pubsub.archive.store.registry import Entity
from pubsub.archive.store.sql_tables import (
    MAX_SEQUENCE,
    SEQUENCE_BITS,
    Connection,
    SqlBatch,
    event_checksum,
    load,
)
from pubsub.event import ID_BYTES, ID_PLACE, NUMBER_BYTES
from pubsub.reliable.numbers import Numbers, Span

_EVENT = "place, time, audience, stream, catenation, checksum, id, body"
_ID_IN_BODY = f"substr(body, {ID_PLACE.start + 1}, {ID_BYTES})"
"""An event has its id too."""
_PAGE = 1000
_BYTES = (bytes, memoryview)
_make = partial(tuple.__new__, StoredEvent)
"""An event of its fields: half of what a call of the class takes, once for every row that is read."""


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


class Store:
    """Everything below is said of one topic, and of what has been synced.

    One connection writes and another one reads, which so sees what has been committed and nothing else. The
    checksum of every event is compared when it is read."""

    blocking = True
    """Calls wait for a disk or a server: keep them off the event loop. False on the virtual disk."""
    sync_seconds = 0.0
    """How long a sync takes where nothing blocks, in virtual seconds; 0 otherwise."""
    _by_row = ""
    _by_id = ""
    """What makes a query of events read their rows, or the index of ids, where the database can be told."""

    def __init__(
        self, name: str, writer: Connection, reader: Connection, errors: tuple[type[Exception], ...]
    ) -> None:
        self._name = name
        self._writer = writer
        self._reader = reader
        self._errors = errors
        self._lock = threading.RLock()
        self._reading_lock = threading.RLock()
        self._failure: str | None = None
        self._batch: SqlBatch | None = None
        self._damaged: dict[str, Numbers] = {}
        self._registry, self._names = load(reader)

    # -- changing --

    def write(self, changes: Sequence[Change]) -> None:
        """Write a batch, in order. The next batch waits until this one is synced."""
        with self._failing("cannot be written"):
            if self._batch is not None:
                raise StoreError("a batch was written before the one before it was synced")
            if not changes:
                return
            self._writer.begin()
            self._batch = SqlBatch(self._writer, self._registry, self._names)
            self._batch.write(changes)

    def sync(self) -> None:
        """Return when the batch is on stable storage, and show it to readers."""
        with self._failing("cannot be synced"):
            if self._batch is None:
                return
            self._writer.commit()
            with self._lock:
                self._batch.settle()
                for topic, span in self._batch.mended:
                    self._mend(topic, span)
                self._batch = None

    def close(self) -> None:
        """Release files and connections; a batch that was not synced may be lost."""
        if self._failure is None:
            self._failure = f"the store {self._name} is closed"
            self._writer.close()
            self._reader.close()

    # -- topics, entities, publishers, notes --

    def topics(self) -> tuple[str, ...]:
        """The topics of which anything is kept, sorted."""
        with self._lock:
            return tuple(sorted(self._registry))

    def last_sequence(self, topic: str) -> int:
        """The highest number that was ever used; 0 at first. Numbers above it are free."""
        with self._lock:
            return self._registry.last(topic)

    def entity(self, topic: str, name: str) -> Entity | None:
        with self._lock:
            entity: Entity | None = self._registry.get(topic, "entity", name)
            return entity

    def entities(self, topic: str) -> tuple[Entity, ...]:
        """Every registered entity, in the order of their names."""
        with self._lock:
            return tuple(one for _, one in sorted(self._registry.rows(topic, "entity").items()))

    def catenations(self, topic: str) -> dict[bytes, int]:
        with self._lock:
            return dict(self._registry.rows(topic, "catenation"))

    def notes(self, topic: str, prefix: str = "") -> dict[str, bytes]:
        """The notes whose keys begin with `prefix`, in order of their keys."""
        with self._lock:
            notes = self._registry.rows(topic, "note")
            return {key: notes[key] for key in sorted(notes) if key.startswith(prefix)}

    # -- the inventory --

    def first_sequence(self, topic: str) -> int:
        """The lowest number of an event that is still there; `last_sequence + 1` when there is none."""
        rows = self._ask("SELECT min(place) FROM events WHERE place BETWEEN ? AND ?", topic)
        return self._sequence(rows[0][0]) if rows[0][0] else self.last_sequence(topic) + 1

    def count(self, topic: str) -> int:
        """How many events are there."""
        with self._lock:
            return self._names.amounts.get(topic, (0, 0))[0]

    def size(self, topic: str) -> int:
        """How many bytes their bodies have together."""
        with self._lock:
            return self._names.amounts.get(topic, (0, 0))[1]

    def events(
        self, topic: str, after: int, limit: int, max_bytes: int | None = None
    ) -> list[StoredEvent]:
        """The next events above `after`, in order, at most `limit`, and no more than `max_bytes` of
        bodies after the first. Damaged ones are left out and reported by `damage`."""
        above = Span(after + 1, MAX_SEQUENCE)
        if max_bytes is None:
            return self._events(topic, above, "ORDER BY place LIMIT ?", limit)
        sizes = "SELECT place, size FROM events WHERE place BETWEEN ? AND ? ORDER BY place LIMIT ?"
        last = left = 0
        for place, size in self._ask(sizes, topic, above, limit):
            left = left - size if last else max_bytes - size
            if last and left < 0:
                break
            last = self._sequence(place)
        return self._events(topic, Span(after + 1, last), "ORDER BY place") if last else []

    def read(self, topic: str, sequences: Iterable[int]) -> list[StoredEvent]:
        """These events, as far as they are there and undamaged, in order of their numbers."""
        spans = Numbers.of(sorted(set(sequences))).spans()
        return [one for span in spans for one in self._events(topic, span, "ORDER BY place")]

    def sequences(self, topic: str, ids: Iterable[bytes]) -> dict[bytes, int]:
        """The sequence numbers of these events, as far as they are there."""
        statement = "SELECT place FROM events WHERE place BETWEEN ? AND ? AND id = ?"
        asked = ((id, self._ask(statement, topic, EVERYTHING, id)) for id in ids)
        return {id: self._one_of(topic, id, rows) for id, rows in asked if rows}

    def _one_of(self, topic: str, id: bytes, rows: list[tuple[Any, ...]]) -> int:
        """The number of the row that has this id; of several, one whose id is not the work of damage."""
        numbers = [self._sequence(place) for (place,) in rows]
        if len(numbers) > 1:
            numbers = [one.sequence for one in self.read(topic, numbers)] or numbers
        return numbers[0]

    def by_catenation(
        self, topic: str, publisher: bytes, span: Span, limit: int | None = None
    ) -> list[StoredEvent]:
        """A publisher's events in this span of its catenation numbers, in order of these: the first `limit`
        of them, if that is given. Damaged ones among them are left out; one that is there under two sequence
        numbers, as after a repair, comes once."""
        stream = self._names.streams.get((self._names.topics.get(topic, -1), publisher), -1)
        found = self._events(
            topic,
            EVERYTHING,
            "AND stream = ? AND catenation BETWEEN ? AND ? ORDER BY catenation, place LIMIT ?",
            stream,
            *span,
            MAX_SEQUENCE if limit is None else limit,
        )
        return list({event.catenation: event for event in found}.values())

    def firsts_above(self, topic: str, sequence: int) -> dict[bytes, int]:
        """By publisher: the lowest catenation number of its events that are there under a sequence number
        above this one. Above 0: of all publishers of which an event is there."""
        rows = self._ask(
            "SELECT stream, min(catenation) FROM events WHERE place BETWEEN ? AND ? GROUP BY stream",
            topic,
            Span(sequence + 1, MAX_SEQUENCE),
        )
        with self._lock:
            publishers = self._names.publishers
            return {publishers[stream]: first for stream, first in rows if stream in publishers}

    def first_beyond(self, topic: str, marks: Mapping[bytes, int]) -> int:
        """The lowest number of an event whose catenation number is above its publisher's among `marks`, where
        it is 0 for others; `last_sequence + 1` if there is none."""
        lasts = self._ask(
            "SELECT stream, max(catenation) FROM events WHERE place BETWEEN ? AND ? GROUP BY stream",
            topic,
        )
        statement = (
            "SELECT min(place) FROM events"
            " WHERE place BETWEEN ? AND ? AND stream = ? AND catenation > ?"
        )
        with self._lock:
            publishers = dict(self._names.publishers)
        places = [
            self._ask(statement, topic, EVERYTHING, stream, mark)[0][0]
            for stream, last in lasts
            if last > (mark := marks.get(publishers.get(stream, b""), 0))
        ]
        found = [self._sequence(place) for place in places if place is not None]
        return min(found, default=self.last_sequence(topic) + 1)

    def publishers_of(self, topic: str, runs: Iterable[bytes]) -> dict[bytes, bytes]:
        """By run: the publisher of one of its events that are there. The ids of events begin with their
        run."""
        statement = (
            "SELECT stream FROM events WHERE place BETWEEN ? AND ? AND id BETWEEN ? AND ? LIMIT 1"
        )
        last = b"\xff" * NUMBER_BYTES
        asked = {run: self._ask(statement, topic, EVERYTHING, run, run + last) for run in runs}
        with self._lock:
            publishers = self._names.publishers
            return {
                run: publishers[rows[0][0]]
                for run, rows in asked.items()
                if rows and rows[0][0] in publishers
            }

    def since(self, topic: str, time: float) -> int:
        """The lowest number of an event archived at `time` or later; `last_sequence + 1` if there is none."""
        rows = self._ask(
            "SELECT place FROM events WHERE place BETWEEN ? AND ? AND time >= ? ORDER BY place LIMIT 1",
            topic,
            EVERYTHING,
            time,
        )
        return self._sequence(rows[0][0]) if rows else self.last_sequence(topic) + 1

    # -- the dissemination table --

    def holdings(self, topic: str, after: int, limit: int) -> list[Holding]:
        """The next events above `after`, who waits for each, without reading bodies."""
        rows = self._ask(
            "SELECT place, time, size, audience, id, stream FROM events WHERE place BETWEEN ? AND ?"
            " ORDER BY place LIMIT ?",
            topic,
            Span(after + 1, MAX_SEQUENCE),
            limit,
        )
        with self._lock:
            return [
                Holding(
                    self._sequence(place),
                    time,
                    size,
                    self._registry.waiting(
                        topic, self._sequence(place), self._names.members.get(audience, ())
                    ),
                    bytes(id) if isinstance(id, _BYTES) else b"",
                    self._names.publishers.get(stream, b""),
                )
                for place, time, size, audience, id, stream in rows
            ]

    # -- damage --

    def damage(self) -> tuple[Damage, ...]:
        """What was found damaged so far, at opening or in reading, and has not been repaired or dropped."""
        with self._lock:
            return tuple(
                Damage(topic, span, "corrupt")
                for topic, spoilt in self._damaged.items()
                for span in spoilt.spans()
            )

    def damaged_ids(self, topic: str, spans: Iterable[Span]) -> dict[int, tuple[bytes, ...]]:
        """The ids of events of these numbers, which are damaged, by number and as far as they are known. An
        event has several where the damage may be in the id itself: one of them is right."""
        found: dict[int, dict[bytes, None]] = {}
        in_rows = (
            f"SELECT place, id, {_ID_IN_BODY} FROM events{self._by_row} WHERE place BETWEEN ? AND ?"
        )
        in_index = f"SELECT place, id FROM events{self._by_id} WHERE place BETWEEN ? AND ?"
        others = "SELECT place, id FROM other_ids WHERE place BETWEEN ? AND ?"
        for span in spans:
            for place, *ids in chain(
                self._ask(in_rows, topic, span),
                self._ask(in_index, topic, span),
                self._ask(others, topic, span),
            ):
                for id in ids:
                    if isinstance(id, _BYTES) and len(id) == ID_BYTES:
                        found.setdefault(self._sequence(place), {})[bytes(id)] = None
        return {number: tuple(ids) for number, ids in sorted(found.items())}

    def verify(self) -> tuple[Damage, ...]:
        """Read everything back, compare checksums, and return `damage()`."""
        for topic in self.topics():
            after = 0
            while page := self.holdings(topic, after, _PAGE):
                self.read(topic, [holding.sequence for holding in page])
                after = page[-1].sequence
        return self.damage()

    def _events(self, topic: str, span: Span, rest: str, *values: Any) -> list[StoredEvent]:
        """The events of a span of the topic that `rest` of the query selects and orders."""
        statement = f"SELECT {_EVENT} FROM events WHERE place BETWEEN ? AND ? {rest}"
        return self._checked(topic, self._ask(statement, topic, span, *values))

    def _checked(self, topic: str, rows: list[tuple[Any, ...]]) -> list[StoredEvent]:
        """The events of these rows. Those that are not as they were written, their types included, are noted
        as damaged and left out."""
        events: list[StoredEvent] = []
        publishers, members = self._names.publishers, self._names.members
        for place, time, audience, stream, catenation, checksum, id, body in rows:
            if type(body) is memoryview:
                id, body = bytes(id) if type(id) is memoryview else id, bytes(body)
            if type(time) is float and type(catenation) is int and type(id) is type(body) is bytes:
                publisher, names = publishers.get(stream, b""), members.get(audience, ())
                number = place & MAX_SEQUENCE
                event = _make((topic, number, id, publisher, catenation, time, body, names))
                if catenation >= 0 and event_checksum(event) == checksum:
                    events.append(event)
                    continue
            self._spoil(topic, self._sequence(place))
        return events

    def _spoil(self, topic: str, sequence: int) -> None:
        with self._lock:
            self._damaged.setdefault(topic, Numbers(most=None)).add(sequence)

    def _mend(self, topic: str, span: Span) -> None:
        if topic in self._damaged:
            self._damaged[topic].remove(*span)
            if not self._damaged[topic]:
                del self._damaged[topic]

    # -- asking --

    def _ask(
        self, statement: str, topic: str, span: Span | None = None, *values: Any
    ) -> list[tuple[Any, ...]]:
        """A query whose first two values are the places of a span of the topic."""
        number = self._names.topics.get(topic, -1) << SEQUENCE_BITS
        first, last = span or EVERYTHING
        places = (number | min(first, MAX_SEQUENCE), number | min(last, MAX_SEQUENCE))
        return self._query(statement, (*places, *values))

    def _query(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._failing("cannot be read"), self._reading_lock:
            return self._reader.query(statement, values)

    @staticmethod
    def _sequence(place: int) -> int:
        return place & MAX_SEQUENCE

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn a failing database into a `StoreError`, now and for all later calls."""
        if self._failure is not None:
            raise StoreError(self._failure)
        try:
            yield
        except self._errors as error:
            self._failure = f"the store {self._name} {what}: {why(error)}"
            raise StoreError(self._failure) from None


EVERYTHING = Span(0, MAX_SEQUENCE)
