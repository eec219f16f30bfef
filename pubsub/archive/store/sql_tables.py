"""The tables of the SQL stores, and how their small ones are read into memory.

Every event has a checksum over everything that is stored of it (`event_checksum`). An event's `place` is
its topic's number and its sequence number in one integer, so that the table is its own index and grows at
the end of each topic. Topics, audiences (the sets of entities that events are for) and streams (a publisher
in a topic) are numbered, in the table of names, and events refer to them by number. The rows of the registry
are in the table of state, with how much each topic has. Rows of both have a checksum each; where it is wrong,
the store is not opened.

`SqlBatch` writes one batch of changes, within one transaction. The same tables, in memory, are the index of
the append-only files (`pubsub.archive.store.log_state`): there a row has the event's place in the files where
its body would be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol
from zlib import crc32

import msgpack

from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import (
    Change,
    Drop,
    ForgetTopic,
    StoredEvent,
)
from pubsub.archive.store.gaps import EntityGap
from pubsub.archive.store.registry import Entity, Pending, Registry
from pubsub.reliable.numbers import Span

_NUMBERS = struct.Struct(">QQd")


def event_checksum(event: StoredEvent) -> int:
    topic, sequence, id, publisher, catenation, time, body, destinations = event
    start = _of_names(topic, publisher, destinations)
    return crc32(body, crc32(_NUMBERS.pack(sequence, catenation, time) + id, start))


@lru_cache(maxsize=1024)
def _of_names(topic: str, publisher: bytes, destinations: tuple[str, ...]) -> int:
    check = crc32(topic.encode())
    for name in (publisher, *(destination.encode() for destination in destinations)):
        check = crc32(len(name).to_bytes(4, "big") + name, check)
    return check


SEQUENCE_BITS = 40
MAX_SEQUENCE = (1 << SEQUENCE_BITS) - 1

EVENT_COLUMNS = (
    "place",
    "time",
    "size",
    "audience",
    "stream",
    "catenation",
    "checksum",
    "id",
    "body",
)

CREATE_EVENTS = """CREATE TABLE IF NOT EXISTS events (
        place {int} PRIMARY KEY, time {real} NOT NULL, size {int} NOT NULL, audience {int} NOT NULL,
        stream {int} NOT NULL, catenation {int} NOT NULL, checksum {int} NOT NULL,
        id {blob} NOT NULL, body {blob} NOT NULL)"""
INDEX_EVENTS = (
    "CREATE INDEX IF NOT EXISTS events_by_id ON events (id)",
    "CREATE INDEX IF NOT EXISTS events_by_stream ON events (stream, catenation)",
)
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS names (
        number {int} PRIMARY KEY, kind TEXT NOT NULL, topic {int} NOT NULL, name {blob} NOT NULL,
        checksum {int} NOT NULL)""",
    CREATE_EVENTS,
    *INDEX_EVENTS,
    """CREATE TABLE IF NOT EXISTS other_ids (place {int} NOT NULL, id {blob} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS state (
        topic {int} NOT NULL, kind TEXT NOT NULL, key {blob} NOT NULL, value {blob} NOT NULL,
        checksum {int} NOT NULL, PRIMARY KEY (topic, kind, key))""",
)


def checked(*row: Any) -> tuple[Any, ...]:
    """A row with its checksum behind it."""
    return (*row, crc32(msgpack.packb(row)))


def _verified(table: str, row: Sequence[Any]) -> Sequence[Any]:
    """A row without its checksum; `StoreError` when that is wrong."""
    *values, checksum = (bytes(one) if isinstance(one, memoryview) else one for one in row)
    if checked(*values)[-1] != checksum:
        raise StoreError(f"a row of the table {table} is damaged")
    return values


class Connection(Protocol):
    """A connection to a database; statements have `?` where values go."""

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def insert_events(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of `EVENT_COLUMNS` whose places are free, as fast as the database can."""
        ...

    def begin(self) -> None: ...

    def commit(self) -> None:
        """Return when the transaction is on stable storage."""
        ...

    def close(self) -> None: ...


class Names:
    """The numbers of topics, streams and audiences, and how much each topic has."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.streams: dict[tuple[int, bytes], int] = {}
        self.publishers: dict[int, bytes] = {}
        """The publisher of each stream."""
        self.audiences: dict[tuple[str, ...], int] = {}
        self.members: dict[int, tuple[str, ...]] = {}
        """The names in each audience."""
        self.amounts: dict[str, tuple[int, int]] = {}
        """Events and bytes of each topic."""
        self._used = 0

    def free_number(self) -> int:
        """A number that nothing has had since the store was opened."""
        taken = (*self.topics.values(), *self.publishers, *self.members) if not self._used else ()
        self._used = max((self._used, *taken)) + 1
        return self._used

    def forget_stream(self, topic: str, publisher: bytes) -> None:
        number = self.streams.pop((self.topics.get(topic, -1), publisher), None)
        if number is not None:
            del self.publishers[number]

    def forget(self, topic: str) -> None:
        number = self.topics.pop(topic, None)
        self.amounts.pop(topic, None)
        for key in [key for key in self.streams if key[0] == number]:
            del self.publishers[self.streams.pop(key)]


def load(connection: Connection) -> tuple[Registry, Names]:
    """Everything but the events; `StoreError` when a row is damaged."""
    registry, names = Registry(), Names()
    for row in connection.query(
        "SELECT number, kind, topic, name, checksum FROM names ORDER BY number"
    ):
        number, kind, topic, name = _verified("names", row)
        if kind == "topic":
            names.topics[name.decode()] = number
        elif kind == "stream":
            names.streams[topic, name] = number
            names.publishers[number] = name
        else:
            names.members[number] = tuple(msgpack.unpackb(name))
            names.audiences[names.members[number]] = number
    topics = {number: topic for topic, number in names.topics.items()}
    for row in connection.query("SELECT topic, kind, key, value, checksum FROM state"):
        topic, kind, key, packed = _verified("state", row)
        value = msgpack.unpackb(packed)
        if kind == "amount":
            names.amounts[topics[topic]] = (value[0], value[1])
        elif kind == "entity":
            name, done, sync, state, gaps = value
            entity = Entity(name, done, sync, state, tuple(map(EntityGap.unpack, gaps)))
            registry.put(topics[topic], kind, name, entity)
        else:
            key = key if kind == "catenation" else key.decode()
            registry.put(topics[topic], kind, key, value)
    return registry, names


_PUT_EVENT = "INSERT INTO events ({}) VALUES ({}) ON CONFLICT (place) DO UPDATE SET {}".format(
    ", ".join(EVENT_COLUMNS),
    ", ".join("?" for _ in EVENT_COLUMNS),
    ", ".join(f"{column} = excluded.{column}" for column in EVENT_COLUMNS[1:]),
)
_PUT_NAME = "INSERT INTO names (number, kind, topic, name, checksum) VALUES (?, ?, ?, ?, ?)"
_PUT_STATE = (
    "INSERT INTO state (topic, kind, key, value, checksum) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (topic, kind, key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)


@dataclass(slots=True)
class _Appended:
    """New events of one topic that a batch has gathered."""

    number: int
    """The topic's."""
    last: int
    """The highest number used so far."""
    count: int = 0
    size: int = 0
    streams: dict[bytes, int] = field(default_factory=dict)
    """The numbers of the streams."""
    marks: dict[bytes, int] = field(default_factory=dict)
    """By publisher, the highest catenation number."""


class SqlBatch:
    """Writes a batch; `settle` makes it visible in memory once it is committed.

    Events that follow each other are gathered: what they change of their topic is noted once for all."""

    def __init__(
        self,
        connection: Connection,
        registry: Registry,
        names: Names,
        *,
        keeps_registry: bool = True,
        freed: Callable[[bytes], None] | None = None,
    ) -> None:
        """`keeps_registry`: whether the small tables are written too. `freed` is called with the column
        `body` of each event that is replaced or removed."""
        self._connection = connection
        self._keeps_registry = keeps_registry
        self._freed = freed
        self._registry = registry
        self._names = names
        self._pending = Pending(registry)
        self._events: list[tuple[Any, ...]] = []
        self._appended: dict[str, _Appended] = {}
        """By topic: what is known of `_events`."""
        self._topics: dict[str, int | None] = {}
        """Numbers of topics that this batch begins; None for one that it ends."""
        self._amounts: dict[str, tuple[int, int]] = {}
        self.mended: list[tuple[str, Span]] = []
        """Spans that were written anew or removed, so that there is no damage in them any more."""

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.add(change)
        self.finish()

    def add(self, change: Change, place: bytes = b"") -> None:
        """Write a change; `place`: where the event is kept, if not in the table."""
        if isinstance(change, StoredEvent):
            self._append(change, place)
        else:
            self._flush()
            self._write(change)
            self._pending.apply(change)

    def finish(self) -> None:
        """Write what `add` has gathered."""
        self._flush()
        if self._keeps_registry:
            self._write_registry()

    def settle(self) -> None:
        self._registry.settle(self._pending)
        for (topic, kind, key), value in self._pending.changed.items():
            if kind == "catenation" and value is None and isinstance(key, bytes):
                self._names.forget_stream(topic, key)
        for topic in self._pending.forgotten:
            self._names.forget(topic)
        self._names.amounts |= self._amounts
        self._names.topics |= {
            t: number for t, number in self._topics.items() if number is not None
        }

    # -- events --

    def _append(self, event: StoredEvent, kept_at: bytes) -> None:
        known = self._appended.get(event.topic) or self._begin(event.topic)
        if event.sequence <= known.last:
            self._replace(event, kept_at)
            return
        publisher, catenation = event.publisher, event.catenation
        known.last = event.sequence
        known.count += 1
        known.size += len(event.body)
        if catenation > known.marks.get(publisher, -1):
            known.marks[publisher] = catenation
        self._events.append(self._row(known, event, kept_at))

    def _begin(self, topic: str) -> _Appended:
        last = self._pending.get(topic, "last") or 0
        known = self._appended[topic] = _Appended(self._topic(topic), last)
        return known

    def _row(self, known: _Appended, event: StoredEvent, kept_at: bytes) -> tuple[Any, ...]:
        _, sequence, id, publisher, catenation, time, body, destinations = event
        stream = known.streams.get(publisher)
        if stream is None:
            stream = known.streams[publisher] = self._stream(known.number, publisher)
        audience = self._names.audiences.get(destinations)
        return (
            known.number << SEQUENCE_BITS | sequence,
            time,
            len(body),
            self._new_audience(destinations) if audience is None else audience,
            stream,
            catenation,
            0 if kept_at else event_checksum(event),
            id,
            kept_at or body,
        )

    def _replace(self, event: StoredEvent, kept_at: bytes) -> None:
        """Write an event whose number has been used, in the place of one that may be there."""
        self._flush()
        row = self._row(_Appended(self._topic(event.topic), 0), event, kept_at)
        self._tell_freed((row[0], row[0]))
        for (size,) in self._connection.query("SELECT size FROM events WHERE place = ?", (row[0],)):
            self._add(event.topic, -1, -size)
        self._connection.execute(_PUT_EVENT, row)
        self._add(event.topic, 1, len(event.body))
        self._pending.apply(event)
        self.mended.append((event.topic, Span(event.sequence, event.sequence)))

    def _flush(self) -> None:
        if self._events:
            self._connection.insert_events(self._events)
        for topic, known in self._appended.items():
            self._pending.appended(topic, known.last, known.marks)
            self._add(topic, known.count, known.size)
        self._events, self._appended = [], {}

    def _write(self, change: Change) -> None:
        match change:
            case Drop(topic, spans, _):
                for span in spans:
                    self._drop(topic, span)
            case ForgetTopic(topic):
                self._forget(topic)

    def _drop(self, topic: str, span: Span) -> None:
        number = self._topic(topic)
        last = min(span.last, MAX_SEQUENCE)
        places = (number << SEQUENCE_BITS | span.first, number << SEQUENCE_BITS | last)
        self._tell_freed(places)
        [(count, size)] = self._connection.query(
            "SELECT count(*), coalesce(sum(size), 0) FROM events WHERE place BETWEEN ? AND ?",
            places,
        )
        self._connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", places)
        self._add(topic, -count, -int(size))
        self.mended.append((topic, span))

    def _tell_freed(self, places: tuple[int, int]) -> None:
        if self._freed is not None:
            gone = "SELECT body FROM events WHERE place BETWEEN ? AND ?"
            for (body,) in self._connection.query(gone, places):
                self._freed(body)

    def _forget(self, topic: str) -> None:
        """Remove a topic's rows; it gets another number when it comes back."""
        self._drop(topic, Span(0, MAX_SEQUENCE))
        number = self._topic(topic)
        self._topics[topic] = None
        for table in ("names", "state"):
            self._connection.execute(f"DELETE FROM {table} WHERE topic = ?", (number,))
        self._connection.execute("DELETE FROM names WHERE number = ?", (number,))
        self._amounts[topic] = (0, 0)

    # -- the registry --

    def _write_registry(self) -> None:
        rows: list[tuple[Any, ...]] = []
        for (topic, kind, key), value in self._pending.changed.items():
            number, raw = self._topic(topic), key.encode() if isinstance(key, str) else key
            if value is not None:
                rows.append(checked(number, kind, raw, msgpack.packb(value)))
                continue
            this = "topic = ? AND kind = ? AND key = ?"
            self._connection.execute(f"DELETE FROM state WHERE {this}", (number, kind, raw))
            if kind == "catenation":
                stream = self._names.streams.get((number, raw), -1)
                self._connection.execute("DELETE FROM names WHERE number = ?", (stream,))
        for topic, amount in self._amounts.items():
            if self._topics.get(topic, 0) is not None:
                rows.append(checked(self._topic(topic), "amount", b"", msgpack.packb(amount)))
        if rows:
            self._connection.execute_many(_PUT_STATE, rows)

    # -- numbers --

    def _topic(self, topic: str) -> int:
        number = self._topics[topic] if topic in self._topics else self._names.topics.get(topic)
        if number is None:
            number = self._topics[topic] = self._names.free_number()
            self._name(number, "topic", 0, topic.encode())
        return number

    def _stream(self, topic: int, publisher: bytes) -> int:
        number = self._names.streams.get((topic, publisher))
        if number is None:
            number = self._names.free_number()
            self._names.streams[topic, publisher] = number
            self._names.publishers[number] = publisher
            self._name(number, "stream", topic, publisher)
        return number

    def _new_audience(self, destinations: tuple[str, ...]) -> int:
        number = self._names.free_number()
        self._names.audiences[destinations] = number
        self._names.members[number] = destinations
        self._name(number, "audience", 0, msgpack.packb(destinations))
        return number

    def _name(self, number: int, kind: str, topic: int, name: bytes) -> None:
        """Write down what has got a number."""
        if self._keeps_registry:
            self._connection.execute(_PUT_NAME, checked(number, kind, topic, name))

    # -- amounts --

    def _amount(self, topic: str) -> tuple[int, int]:
        return self._amounts.get(topic) or self._names.amounts.get(topic, (0, 0))

    def _add(self, topic: str, events: int, size: int) -> None:
        count, total = self._amount(topic)
        self._amounts[topic] = (count + events, total + size)
