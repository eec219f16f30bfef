"""The tables of the SQL stores, and how their small ones are read into memory.

Every event has a checksum over everything that is stored of it (`event_checksum`). An event's `place` is
its topic's number and its sequence number in one integer, so that the table is its own index and grows at
the end of each topic. Topics, audiences (the sets of entities that events are for) and streams (a publisher
in a topic) are numbered, and events refer to them by number. Rows that are read into memory have a checksum
each; where it is wrong, the store is not opened.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol
from zlib import crc32

import msgpack

from pubsub.archive.store.changes import Gap, StoredEvent
from pubsub.archive.store.interface import Entity, StoreError
from pubsub.archive.store.registry import Registry
from pubsub.reliable.numbers import Span

_NUMBERS = struct.Struct(">QQd")


def event_checksum(event: StoredEvent) -> int:
    start = _of_names(event.topic, event.publisher, event.destinations)
    numbers = _NUMBERS.pack(event.sequence, event.catenation, event.time)
    return crc32(event.body, crc32(numbers + event.id, start))


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
    """CREATE TABLE IF NOT EXISTS topics (
        number {int} PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        last {int} NOT NULL, events {int} NOT NULL, bytes {int} NOT NULL, checksum {int})""",
    """CREATE TABLE IF NOT EXISTS audiences (number {int} PRIMARY KEY, names {blob} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS streams (
        number {int} PRIMARY KEY, topic {int} NOT NULL, publisher {blob} NOT NULL,
        catenation {int} NOT NULL, checksum {int}, UNIQUE (topic, publisher))""",
    CREATE_EVENTS,
    *INDEX_EVENTS,
    """CREATE TABLE IF NOT EXISTS entities (
        topic {int} NOT NULL, name TEXT NOT NULL, position {int} NOT NULL, epoch {int} NOT NULL,
        sync {int} NOT NULL, profiles {blob} NOT NULL, gaps {blob} NOT NULL,
        checksum {int}, PRIMARY KEY (topic, name))""",
    """CREATE TABLE IF NOT EXISTS notes (
        topic {int} NOT NULL, key TEXT NOT NULL, value {blob} NOT NULL, checksum {int},
        PRIMARY KEY (topic, key))""",
    """CREATE TABLE IF NOT EXISTS replica_events (
        topic {int} NOT NULL, replica {blob} NOT NULL, sequence {int} NOT NULL, id {blob} NOT NULL,
        PRIMARY KEY (topic, replica, sequence))""",
    """CREATE INDEX IF NOT EXISTS replica_events_by_id ON replica_events (topic, id)""",
)


CHECKED = ("topics", "streams", "entities", "notes")
"""Tables whose rows have a checksum; those of an earlier release get the column, and no values in it."""

ADD_CHECKSUM = "ALTER TABLE {table} ADD COLUMN checksum {int}"


def checked(*row: Any) -> tuple[Any, ...]:
    """A row with its checksum behind it."""
    return (*row, crc32(msgpack.packb(row)))


def _verified(table: str, row: Sequence[Any]) -> Sequence[Any]:
    """A row without its checksum; `StoreError` when that is wrong."""
    *values, checksum = (bytes(one) if isinstance(one, memoryview) else one for one in row)
    if checksum is not None and checked(*values)[-1] != checksum:
        raise StoreError(f"a row of the table {table} is damaged")
    return values


class Connection(Protocol):
    """A connection to a database; statements have `?` where values go."""

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def insert_events(self, rows: Iterable[Sequence[Any]]) -> None:
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
    """Everything but the events and the replicas' tables; `StoreError` when a row is damaged."""
    registry, names = Registry(), Names()
    topics: dict[int, str] = {}
    for row in connection.query(
        "SELECT number, name, last, events, bytes, checksum FROM topics ORDER BY number"
    ):
        number, name, last, events, size = _verified("topics", row)
        topics[number], names.topics[name] = name, number
        registry.last[name], names.amounts[name] = last, (events, size)
    for number, members in connection.query("SELECT number, names FROM audiences"):
        names.members[number] = tuple(msgpack.unpackb(members))
        names.audiences[names.members[number]] = number
    for row in connection.query(
        "SELECT number, topic, publisher, catenation, checksum FROM streams ORDER BY number"
    ):
        number, topic, publisher, catenation = _verified("streams", row)
        names.streams[topic, publisher] = number
        names.publishers[number] = publisher
        registry.catenations.setdefault(topics[topic], {})[publisher] = catenation
    for row in connection.query(
        "SELECT topic, name, epoch, sync, profiles, gaps, checksum FROM entities ORDER BY position"
    ):
        topic, *fields = _verified("entities", row)
        entity = _entity(*fields)
        registry.entities.setdefault(topics[topic], {})[entity.name] = entity
    for row in connection.query("SELECT topic, key, value, checksum FROM notes"):
        topic, key, value = _verified("notes", row)
        registry.notes.setdefault(topics[topic], {})[key] = value
    return registry, names


def entity_row(entity: Entity) -> tuple[Any, ...]:
    """An entity as it stands in its table, without its topic and its position."""
    gaps = [(gap.entity, *gap.span, gap.events) for gap in entity.gaps]
    packed = (msgpack.packb(part) for part in (dict(entity.profiles), gaps))
    return (entity.name, entity.epoch, entity.sync, *packed)


def _entity(name: str, epoch: int, sync: int, profiles: bytes, gaps: bytes) -> Entity:
    return Entity(
        name,
        epoch,
        sync,
        msgpack.unpackb(profiles),
        tuple(
            Gap(who, Span(first, last), events)
            for who, first, last, events in msgpack.unpackb(gaps)
        ),
    )
