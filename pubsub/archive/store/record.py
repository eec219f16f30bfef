"""Records of an append-only file: what they look like, and how they are found again in a damaged one.

A record is a header and a body. Both have checksums of their own: with a good header and a bad body it is
known which event is damaged, and where the next record begins. Behind a bad header the next good one is
searched for. Checksums begin with the segment's salt, so that no event's content can pass for a record.

Records of one batch carry its number and count up from 0; the last one is marked. So a batch that is not
whole is recognised, whichever of its sectors are missing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

MAGIC = b"\xc7Rec"
_FIELDS = struct.Struct(">4sBBIIQQI")
_CHECKS = struct.Struct(">II")
HEADER = _FIELDS.size + _CHECKS.size
"""Bytes of a header."""

EVENT, CHANGE, SNAPSHOT = 1, 2, 3
"""Kinds: an event; any other change; a part of the state with which a segment begins."""
_LAST = 1


@dataclass(frozen=True, slots=True)
class Header:
    kind: int
    is_last: bool
    """Of its batch."""
    index: int
    """In its batch, from 0."""
    length: int
    """Bytes of the body."""
    batch: int
    sequence: int
    """Of the event; 0 for other kinds."""
    topic_check: int
    """The checksum of the event's topic."""
    body_check: int


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of a segment: a whole record, or bytes that are none."""

    offset: int
    end: int
    header: Header | None
    """None where no header could be read."""
    body: memoryview | None
    """None when it is damaged or cut short."""


class Packer:
    """Makes the records of a segment."""

    def __init__(self, salt: bytes) -> None:
        self._start = crc32(salt)

    def record(
        self,
        kind: int,
        batch: int,
        index: int,
        is_last: bool,
        sequence: int,
        topic: str,
        body: bytes,
    ) -> bytes:
        fields = _FIELDS.pack(
            MAGIC,
            kind,
            _LAST if is_last else 0,
            index,
            len(body),
            batch,
            sequence,
            topic_check(topic),
        )
        body_check = crc32(body, self._start)
        header_check = crc32(fields + body_check.to_bytes(4, "big"), self._start)
        return b"".join((fields, _CHECKS.pack(body_check, header_check), body))


class Scanner:
    """Reads the records of a segment."""

    def __init__(self, salt: bytes) -> None:
        self._start = crc32(salt)

    def scan(self, data: bytes) -> Iterator[Found]:
        """All records of a segment and the damaged stretches between them, in order."""
        view, place = memoryview(data), 0
        while place < len(data):
            header = self._header(view, place)
            if header is None:
                end = self._next_record(data, view, place + 1)
                yield Found(place, end, None, None)
            else:
                end = min(place + HEADER + header.length, len(data))
                yield Found(place, end, header, self._body(view, place, header))
            place = end

    def read(self, data: bytes) -> memoryview | None:
        """The body of the one record that `data` is; None when it is damaged."""
        view = memoryview(data)
        header = self._header(view, 0)
        return None if header is None else self._body(view, 0, header)

    def _header(self, view: memoryview, place: int) -> Header | None:
        if len(view) - place < HEADER or view[place : place + len(MAGIC)] != MAGIC:
            return None
        body_check, header_check = _CHECKS.unpack_from(view, place + _FIELDS.size)
        if crc32(view[place : place + _FIELDS.size + 4], self._start) != header_check:
            return None
        _, kind, flags, index, length, batch, sequence, check = _FIELDS.unpack_from(view, place)
        return Header(kind, flags & _LAST != 0, index, length, batch, sequence, check, body_check)

    def _body(self, view: memoryview, place: int, header: Header) -> memoryview | None:
        body = view[place + HEADER : place + HEADER + header.length]
        whole = len(body) == header.length and crc32(body, self._start) == header.body_check
        return body if whole else None

    def _next_record(self, data: bytes, view: memoryview, place: int) -> int:
        while (place := data.find(MAGIC, place)) >= 0:
            if self._header(view, place) is not None:
                return place
            place += 1
        return len(data)


@lru_cache(maxsize=1024)
def topic_check(topic: str) -> int:
    return crc32(topic.encode())
