"""Changes as bytes, for the append-only files: events packed by hand, the rest as msgpack."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import msgpack

from pubsub.archive.store.changes import (
    AdvanceSync,
    Catenate,
    Change,
    Deregister,
    Drop,
    ForgetReplica,
    ForgetStreams,
    ForgetTopic,
    Gap,
    GapsTold,
    Note,
    PutProfile,
    Register,
    ReplicaStored,
    Reserve,
    StoredEvent,
)
from pubsub.reliable.numbers import Span


@dataclass(frozen=True, slots=True)
class Held:
    """Said at the beginning of a segment: a topic's events, and the lines of its replicas' tables."""

    topic: str
    spans: tuple[Span, ...]
    lines: tuple[tuple[bytes, tuple[Span, ...]], ...]
    """For each replica the numbers there of the events in its table."""


_EVENT = struct.Struct(">QdBHHI")
_KINDS: dict[int, type[Any]] = {
    1: Reserve,
    2: Register,
    3: Deregister,
    4: PutProfile,
    7: AdvanceSync,
    8: Catenate,
    9: ReplicaStored,
    10: ForgetReplica,
    11: Note,
    12: Drop,
    13: GapsTold,
    14: ForgetTopic,
    15: Held,
    16: ForgetStreams,
}
"""Numbers stay as they are: files have them."""
_NUMBERS = {kind: number for number, kind in _KINDS.items()}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _NUMBERS}


def pack_event(event: StoredEvent) -> bytes:
    """Everything but the sequence number, which the record's header has."""
    topic = event.topic.encode()
    audience = _packed_audience(event.destinations) if event.destinations else b""
    head = _EVENT.pack(
        event.catenation,
        event.time,
        len(event.id),
        len(topic),
        len(event.publisher),
        len(audience),
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


def pack_change(change: Change | Held) -> bytes:
    """Any change but an `Append`."""
    kind = type(change)
    values = [_plain(getattr(change, name)) for name in _FIELDS[kind]]
    packed: bytes = msgpack.packb([_NUMBERS[kind], *values])
    return packed


def unpack_change(packed: memoryview) -> Change | Held:
    number, *values = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
    kind = _KINDS[number]
    if kind is Held:
        values[1] = _spans(values[1])
        values[2] = tuple((replica, _spans(spans)) for replica, spans in values[2])
    elif kind is Drop:
        values[1] = _spans(values[1])
        values[2] = tuple(Gap(entity, Span(*span), count) for entity, span, count in values[2])
    change: Change | Held = kind(*values)
    return change


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return [value.entity, list(value.span), value.events] if isinstance(value, Gap) else value


def _spans(raw: tuple[tuple[int, int], ...]) -> tuple[Span, ...]:
    return tuple(Span(first, last) for first, last in raw)
