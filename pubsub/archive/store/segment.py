"""One file of an append-only log: its records, and how they are found again in a damaged one.

A record is a header and a body. Both have checksums of their own: with a good header and a bad body it is
known which event is damaged, and where the next record begins. Behind a bad header the next good one is
searched for. Checksums begin with the segment's salt, so that no event's content can pass for a record.

Records of one batch carry its number and count up from 0. The last one is the batch's *footer*, which has all
headers of the batch once more. So a batch that is not whole is recognised, whichever of its sectors are
missing, and a header that cannot be read is taken from the footer: which numbers the batch used is known, and
which events they were, unless two places of one batch are damaged.

`SyncMark` is the number of the last batch that was synced, in a file beside the log that is never synced
itself. It is written after the sync of the batch. So it may be behind the truth and is never ahead of it:
when it names the last batch of the log, that batch was whole on the disk once.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from overlay.entropy import entropy
from pubsub.archive.store.changes import (
    Change,
    StoredEvent,
    pack_change,
    pack_event,
    unpack_change,
    unpack_event,
)
from pubsub.archive.store.filesystem import File, FileSystem

MAGIC = b"\xc7Rec"
_FIELDS = struct.Struct(">4sBIIQQI16s")
_CHECKS = struct.Struct(">II")
HEADER = _FIELDS.size + _CHECKS.size
"""Bytes of a header."""
_COPY = HEADER - len(MAGIC)
"""Bytes of a header in a footer: without its beginning, so that it does not pass for a record there."""

EVENT, CHANGE, SNAPSHOT, FOOTER = 1, 2, 3, 4
"""Kinds: an event; any other change; a part of the state with which a segment begins; the end of a batch."""


_PLACE = struct.Struct(">IQI")


class EventPlace(NamedTuple):
    """Where an event's record is."""

    segment: int
    offset: int
    length: int

    def packed(self) -> bytes:
        return _PLACE.pack(*self)

    @classmethod
    def unpack(cls, packed: bytes) -> EventPlace:
        return cls(*_PLACE.unpack(packed))


@dataclass(frozen=True, slots=True)
class Header:
    kind: int
    index: int
    """In its batch, from 0."""
    length: int
    """Bytes of the body."""
    batch: int
    sequence: int
    """The event's sequence number; 0 for other kinds."""
    topic_check: int
    """The checksum of the event's topic."""
    id: bytes
    """Of the event, which the body has too: so it is known which event a damaged body was. Zeros for other
    kinds."""
    body_check: int


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A piece of a segment: a whole record, or bytes that are none."""

    offset: int
    end: int
    header: Header | None
    """None where no header could be read."""
    body: memoryview | None
    """None when it is damaged or cut short."""
    is_restored: bool = False
    """Its own header cannot be read, and this one is from the footer."""


class Packer:
    """Makes the records of a segment."""

    def __init__(self, salt: bytes) -> None:
        self._start = crc32(salt)

    def record(
        self,
        kind: int,
        batch: int,
        index: int,
        sequence: int,
        topic: str,
        body: bytes,
        id: bytes = b"",
    ) -> bytes:
        fields = _FIELDS.pack(
            MAGIC,
            kind,
            index,
            len(body),
            batch,
            sequence,
            topic_check(topic),
            id,
        )
        body_check = crc32(body, self._start)
        header_check = crc32(fields + body_check.to_bytes(4, "big"), self._start)
        return b"".join((fields, _CHECKS.pack(body_check, header_check), body))


class Scanner:
    """Reads the records of a segment."""

    def __init__(self, salt: bytes) -> None:
        self._start = crc32(salt)

    def scan(self, data: bytes) -> list[FoundRecord]:
        """All records of a segment and the damaged stretches between them, in order; what is known of
        stretches from the footers of their batches included."""
        view = memoryview(data)
        found = list(self._records(data, view))
        if all(one.header is not None for one in found):
            return found
        for one in list(found):
            if one.header is not None and one.header.kind == FOOTER and one.body is not None:
                self._restore(view, found, one)
        _find_footers(found)
        return found

    def _restore(self, view: memoryview, found: list[FoundRecord], footer: FoundRecord) -> None:
        """Put a batch's records in the place of what was found where they are, as its footer tells."""
        assert footer.body is not None
        headers = [
            self._header(memoryview(MAGIC + bytes(footer.body[place : place + _COPY])), 0)
            for place in range(0, len(footer.body), _COPY)
        ]
        size = sum(HEADER + one.length for one in headers if one is not None)
        # By its place: to compare records made opening a damaged segment quadratic in its batches.
        end = bisect_left(found, footer.offset, key=lambda one: one.offset)
        start, place = end, footer.offset - size
        while start and found[start - 1].offset >= place:
            start -= 1
        is_damaged = any(one.header is None for one in found[start:end])
        if start and found[start - 1].end > place:  # a stretch that began before this batch
            is_damaged = True
            start -= 1
        if not is_damaged or place < 0:
            return
        records: list[FoundRecord] = []
        if start < end and found[start].offset < place:
            records.append(FoundRecord(found[start].offset, place, None, None))
        for header in headers:
            assert header is not None
            ending = place + HEADER + header.length
            is_restored = self._header(view, place) is None
            body = self._body(view, place, header)
            records.append(FoundRecord(place, ending, header, body, is_restored))
            place = ending
        found[start:end] = records

    def _records(self, data: bytes, view: memoryview) -> Iterator[FoundRecord]:
        place = 0
        while place < len(data):
            header = self._header(view, place)
            if header is None:
                end = self._next_record(data, view, place + 1)
                yield FoundRecord(place, end, None, None)
            else:
                end = min(place + HEADER + header.length, len(data))
                yield FoundRecord(place, end, header, self._body(view, place, header))
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
        _, kind, index, length, batch, sequence, check, id = _FIELDS.unpack_from(view, place)
        return Header(kind, index, length, batch, sequence, check, id, body_check)

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


_NAME = "synced"
_MARK = struct.Struct(">QI")
_MOST = 4096
"""Bytes after which the file begins again."""


def _find_footers(found: list[FoundRecord]) -> None:
    """A stretch of the size of a footer, behind all records of its batch, is the footer."""
    for place, one in enumerate(found):
        if one.header is not None or not place:
            continue
        count, first = 0, place
        while first and (header := found[first - 1].header) is not None:
            last = found[place - 1].header
            assert last is not None
            if header.batch != last.batch or header.kind == FOOTER:
                break
            count, first = count + 1, first - 1
        records = [piece.header for piece in found[first:place]]
        indexes = [header.index for header in records if header is not None]
        if (
            count
            and indexes == list(range(count))
            and one.end - one.offset == HEADER + _COPY * count
        ):
            last = found[place - 1].header
            assert last is not None
            footer = Header(FOOTER, count, _COPY * count, last.batch, 0, 0, b"", 0)
            found[place] = FoundRecord(one.offset, one.end, footer, None)


class SyncMark:
    """The last readable mark counts."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._file = files.open(f"{directory}/{_NAME}")
        self._size = self._file.size()
        self.batch = max(self._marks(), default=0)

    def put(self, batch: int) -> None:
        if self._size >= _MOST:
            self._file.truncate(0)
            self._size = 0
        number = batch.to_bytes(8, "big")
        self._file.append(number + crc32(number).to_bytes(4, "big"))
        self._size += _MARK.size

    def close(self) -> None:
        self._file.close()

    def _marks(self) -> list[int]:
        data = self._file.read(0, self._size - self._size % _MARK.size)
        return [
            batch
            for batch, check in _MARK.iter_unpack(data)
            if crc32(batch.to_bytes(8, "big")) == check
        ]


SUFFIX = ".log"
_SALT = 8


class Segment:
    """Its name has its number and the salt of its checksums: `00000001-<salt>.log`."""

    def __init__(self, files: FileSystem, directory: str, name: str) -> None:
        number, _, salt = name.removesuffix(SUFFIX).partition("-")
        self.number = int(number)
        self.path = f"{directory}/{name}"
        self._packer = Packer(bytes.fromhex(salt))
        self._scanner = Scanner(bytes.fromhex(salt))
        self._file: File = files.open(self.path)
        self.size = self._file.size()
        self.is_damaged = False
        """Something in it cannot be read: it is kept as it is."""

    @classmethod
    def create(cls, files: FileSystem, directory: str, number: int) -> Segment:
        return cls(files, directory, f"{number:08d}-{entropy().randbytes(_SALT).hex()}{SUFFIX}")

    def append(
        self, batch: int, changes: Sequence[Change], *, snapshot: bool = False
    ) -> list[tuple[Change, EventPlace | None]]:
        """Write a batch with one call; where each event of it went."""
        records: list[bytes] = []
        placed: list[tuple[Change, EventPlace | None]] = []
        offset = self.size
        for index, change in enumerate(changes):
            if type(change) is StoredEvent:
                body = pack_event(change)
                record = self._packer.record(
                    EVENT, batch, index, change.sequence, change.topic, body, change.id
                )
                placed.append((change, EventPlace(self.number, offset, len(record))))
            else:
                assert not isinstance(change, StoredEvent)
                kind = SNAPSHOT if snapshot else CHANGE
                body = pack_change(change)
                record = self._packer.record(kind, batch, index, 0, "", body)
                placed.append((change, None))
            records.append(record)
            offset += len(record)
        headers = b"".join(record[len(MAGIC) : HEADER] for record in records)
        records.append(self._packer.record(FOOTER, batch, len(changes), 0, "", headers))
        self._file.append(b"".join(records))
        self.size = offset + len(records[-1])
        return placed

    def sync(self) -> None:
        self._file.sync()

    def truncate(self, size: int) -> None:
        """Cut the end off, for good."""
        self._file.truncate(size)
        self._file.sync()
        self.size = size

    def scan(self) -> list[FoundRecord]:
        """Everything in it, from the beginning."""
        return self._scanner.scan(self._file.read(0, self.size))

    def event(self, sequence: int, place: EventPlace) -> StoredEvent | None:
        """The event whose record is there; None when it is damaged."""
        body = self._scanner.read(self._file.read(place.offset, place.length))
        return None if body is None else unpack_event(sequence, body)

    def close(self) -> None:
        self._file.close()


def change_in(found: FoundRecord) -> Change:
    """What an undamaged record says."""
    assert found.header is not None
    assert found.body is not None
    if found.header.kind == EVENT:
        return unpack_event(found.header.sequence, found.body)
    return unpack_change(found.body)
