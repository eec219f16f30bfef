"""What can be changed in a store: frozen dataclasses, written in batches, all of a batch or none of it.

Numbers are chosen by the archive and not by the store: a sequence number is given once in a topic, and the
store remembers the highest one that was ever used (see `Store.last_sequence`).

`pack_change` and others are changes as bytes, for the append-only files: events by hand, the rest as msgpack.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import msgpack

from pubsub.archive.store.gaps import EntityGap
from pubsub.reliable.numbers import Span

T = TypeVar("T")


class StoredEvent(NamedTuple):
    """An inventory event: the event in full, and for whom it was when it was archived.

    As a change: archive the event, and raise its publisher's catenation number to it. An event that is there
    already under this sequence number is replaced: so damage is repaired."""

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


_KINDS: dict[int, type[Any]] = {}
_NUMBERS: dict[type[Any], int] = {}


@dataclass_transform(frozen_default=True)
def _numbered(number: int) -> Callable[[type[T]], type[T]]:
    """Class decorator of a small change; its number stays as it is, for files have it."""

    def register(cls: type[T]) -> type[T]:
        kind = dataclass(frozen=True, slots=True)(cls)
        _KINDS[number], _NUMBERS[kind] = kind, number
        return kind

    return register


@dataclass(frozen=True, slots=True)
class SmallChange:
    """Anything but an event."""

    topic: str


Change = StoredEvent | SmallChange


@_numbered(1)
class Reserve(SmallChange):
    """Use up all sequence numbers to `last`, without an event behind them (yet)."""

    last: int


@_numbered(2)
class PutEntity(SmallChange):
    """Register an entity that has had everything up to `done`; of a registered one, replace the state."""

    entity: str
    done: int
    state: bytes
    """What the archive itself keeps of the entity."""


@_numbered(3)
class Deregister(SmallChange):
    """Forget an entity with its state, sync point and gaps; nothing is kept for it any more."""

    entity: str


@_numbered(7)
class AdvanceSync(SmallChange):
    """Raise what an entity is done with, and its sync point; neither goes back."""

    entity: str
    done: int
    sync: int = 0


@_numbered(8)
class Catenate(SmallChange):
    """Raise a publisher's catenation number without an event; it never goes back."""

    publisher: bytes
    catenation: int


@_numbered(16)
class ForgetStreams(SmallChange):
    """Forget the catenation numbers of publishers of which no event is kept."""

    publishers: tuple[bytes, ...]


@_numbered(11)
class Note(SmallChange):
    """Keep a few bytes of the archive's own under a key; None removes them."""

    key: str
    value: bytes | None


@_numbered(12)
class Drop(SmallChange):
    """Remove events, and remember the gaps that this leaves."""

    spans: tuple[Span, ...]
    gaps: tuple[EntityGap, ...] = ()


@_numbered(13)
class GapsTold(SmallChange):
    """An entity knows of all of its gaps: forget them."""

    entity: str


@_numbered(14)
class ForgetTopic(SmallChange):
    """Remove everything of a topic, as after handing it over."""


@_numbered(15)
class Held(SmallChange):
    """Said at the beginning of a segment: the numbers of a topic's events."""

    spans: tuple[Span, ...]


_EVENT = struct.Struct(">QdBHHI")
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS.values()}


def pack_event(event: StoredEvent) -> bytes:
    """Everything but the sequence number, which the record's header has."""
    topic = event.topic.encode()
    audience = _packed_audience(event.destinations) if event.destinations else b""
    head = _EVENT.pack(
        event.catenation, event.time, len(event.id), len(topic), len(event.publisher), len(audience)
    )
    return b"".join((head, event.id, topic, event.publisher, audience, event.body))


@lru_cache(maxsize=1024)
def _packed_audience(names: tuple[str, ...]) -> bytes:
    packed: bytes = msgpack.packb(names)
    return packed


def unpack_event(sequence: int, packed: memoryview) -> StoredEvent:
    catenation, time, *lengths = _EVENT.unpack_from(packed)
    parts, place = [], _EVENT.size
    for length in lengths:
        parts.append(bytes(packed[place : place + length]))
        place += length
    id, topic, publisher, audience = parts
    destinations = tuple(msgpack.unpackb(audience)) if audience else ()
    body = bytes(packed[place:])
    return StoredEvent(
        topic.decode(), sequence, id, publisher, catenation, time, body, destinations
    )


def pack_change(change: SmallChange) -> bytes:
    """Any change but an event."""
    kind = type(change)
    values = [getattr(change, name) for name in _FIELDS[kind]]
    packed: bytes = msgpack.packb([_NUMBERS[kind], *values])
    return packed


def unpack_change(packed: memoryview) -> SmallChange:
    number, *values = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
    kind = _KINDS[number]
    if kind is Held:
        values[1] = _spans(values[1])
    elif kind is Drop:
        values[1] = _spans(values[1])
        values[2] = tuple(map(EntityGap.unpack, values[2]))
    change: SmallChange = kind(*values)
    return change


def _spans(raw: tuple[tuple[int, int], ...]) -> tuple[Span, ...]:
    return tuple(Span(first, last) for first, last in raw)
