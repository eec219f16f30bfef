"""A checksum over everything that is stored of an event, for stores whose database keeps none."""

from __future__ import annotations

import struct
from functools import lru_cache
from zlib import crc32

from pubsub.archive.store.changes import StoredEvent

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
