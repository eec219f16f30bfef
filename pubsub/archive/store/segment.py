"""One file of an append-only log: its records, and how they are found again in a damaged one.

A record is a header, a body, and the header once more. Header and body have checksums of their own: with a
good header and a bad body it is known which event is damaged, and where the next record begins. A header that
cannot be read is taken from its copy behind the body; where both are damaged, the next good one is searched
for. Checksums begin with the segment's salt, so that no event's content can pass for a record.

Records of one batch carry its number, their place in it, and how many there are. So a batch that is not whole
is recognised, whichever of its sectors are missing.

`SyncMark` is the number of the last batch that was synced, in a file beside the log that is never synced
itself. It is written after the sync of the batch. So it may be behind the truth and is never ahead of it:
when it names the last batch of the log, that batch was whole on the disk once.
"""

from __future__ import annotations

import struct
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

MAGIC, COPY = b"\xc7Rec", b"\xc7Cop"
"""How a header begins, and how its copy does; the rest of both is the same."""
_FIELDS = struct.Struct(">BIIIQQI16s")
_CHECKS = struct.Struct(">II")
HEADER = len(MAGIC) + _FIELDS.size + _CHECKS.size
"""Bytes of a header."""

EVENT, CHANGE, SNAPSHOT = 1, 2, 3
"""Kinds: an event; any other change; a part of the state with which a segment begins."""


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
    count: int
    """Records of the batch."""
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

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return HEADER + self.length + HEADER


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A piece of a segment: a whole record, or bytes that are none."""

    offset: int
    end: int
    header: Header | None
    """None where no header could be read."""
    body: memoryview | None
    """None when it is damaged or cut short."""

    @property
    def is_whole(self) -> bool:
        """Whether the record can be read, and is not cut short."""
        return self.body is not None and self.header is not None and self.is_uncut

    @property
    def is_uncut(self) -> bool:
        return self.header is not None and self.end - self.offset == self.header.size


class Records:
    """Makes the records of a segment, and reads them."""

    def __init__(self, salt: bytes) -> None:
        self._start = crc32(salt)

    def record(
        self,
        kind: int,
        batch: int,
        index: int,
        count: int,
        body: bytes,
        sequence: int = 0,
        topic: str = "",
        id: bytes = b"",
    ) -> bytes:
        fields = _FIELDS.pack(
            kind, index, count, len(body), batch, sequence, topic_check(topic), id
        )
        body_check = crc32(body, self._start)
        header_check = crc32(fields + body_check.to_bytes(4, "big"), self._start)
        header = fields + _CHECKS.pack(body_check, header_check)
        return b"".join((MAGIC, header, body, COPY, header))

    def scan(self, data: bytes) -> list[FoundRecord]:
        """All records of a segment and the damaged stretches between them, in order."""
        view = memoryview(data)
        found: list[FoundRecord] = []
        place = 0
        while place < len(data):
            header = self._header(view, place)
            if header is None:
                found += self._search(data, view, place)
            else:
                end = min(place + header.size, len(data))
                found.append(FoundRecord(place, end, header, self._body(view, place, header)))
            place = found[-1].end
        return found

    def _search(self, data: bytes, view: memoryview, start: int) -> Iterator[FoundRecord]:
        """What is at a place where no header can be read: a record whose copy of the header can, or bytes up
        to where the next record begins."""
        place = start
        while (place := data.find(MAGIC[:1], place + 1)) >= 0:
            if self._header(view, place) is not None:
                yield FoundRecord(start, place, None, None)
                return
            copy = self._header(view, place, COPY)
            if copy is not None and (begin := place + HEADER - copy.size) >= start:
                if begin > start:
                    yield FoundRecord(start, begin, None, None)
                body = self._body(view, begin, copy)
                yield FoundRecord(begin, place + HEADER, copy, body)
                return
        yield FoundRecord(start, len(data), None, None)

    def read(self, data: bytes) -> memoryview | None:
        """The body of the one record that `data` is; None when it is damaged."""
        view = memoryview(data)
        header = self._header(view, 0) or self._header(view, len(data) - HEADER, COPY)
        return None if header is None else self._body(view, 0, header)

    def _header(self, view: memoryview, place: int, magic: bytes = MAGIC) -> Header | None:
        begin, checks = place + len(MAGIC), place + HEADER - _CHECKS.size
        if len(view) - place < HEADER or view[place:begin] != magic:
            return None
        body_check, header_check = _CHECKS.unpack_from(view, checks)
        if crc32(view[begin : checks + 4], self._start) != header_check:
            return None
        kind, index, count, length, batch, sequence, check, id = _FIELDS.unpack_from(view, begin)
        return Header(kind, index, count, length, batch, sequence, check, id, body_check)

    def _body(self, view: memoryview, place: int, header: Header) -> memoryview | None:
        body = view[place + HEADER : place + HEADER + header.length]
        whole = len(body) == header.length and crc32(body, self._start) == header.body_check
        return body if whole else None


@lru_cache(maxsize=1024)
def topic_check(topic: str) -> int:
    return crc32(topic.encode())


_NAME = "synced"
_MARK = struct.Struct(">QI")
_MOST = 4096
"""Bytes after which the file begins again."""


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


_ID = struct.Struct(">QI16s")
_CHECKED = struct.Struct(">QI16sI")
IDS_SUFFIX = ".ids"
IDS_SYNC = 32
"""Batches."""


def _id_record(event: StoredEvent) -> bytes:
    packed = _ID.pack(event.sequence, topic_check(event.topic), event.id)
    return packed + crc32(packed).to_bytes(4, "big")


def ids_in(files: FileSystem, directory: str) -> Iterator[tuple[int, int, bytes]]:
    """The sequence number, the checksum of the topic, and the id of each event that any segment has or had,
    as far as the files of ids beside them can be read."""
    for name in files.names(directory):
        if name.endswith(IDS_SUFFIX):
            file = files.open(f"{directory}/{name}")
            data = file.read(0, file.size() // _CHECKED.size * _CHECKED.size)
            file.close()
            for sequence, topic, id, check in _CHECKED.iter_unpack(data):
                if crc32(_ID.pack(sequence, topic, id)) == check:
                    yield sequence, topic, id


SUFFIX = ".log"
_SALT = 8


def remove_lone_ids(files: FileSystem, directory: str) -> None:
    """Remove the files of ids whose segments are gone."""
    names = files.names(directory)
    for name in names:
        if name.endswith(IDS_SUFFIX) and name.removesuffix(IDS_SUFFIX) + SUFFIX not in names:
            files.remove(f"{directory}/{name}")


class Segment:
    """Its name has its number and the salt of its checksums: `00000001-<salt>.log`. Beside it is a file of
    the ids of its events, which is synced every `IDS_SYNC` batches: after a loss of power it may lack the
    latest."""

    def __init__(self, files: FileSystem, directory: str, name: str) -> None:
        number, _, salt = name.removesuffix(SUFFIX).partition("-")
        self.number = int(number)
        self.path = f"{directory}/{name}"
        self._records = Records(bytes.fromhex(salt))
        self._files = files
        self._file: File = files.open(self.path)
        self._ids_path = self.path.removesuffix(SUFFIX) + IDS_SUFFIX
        self._ids: File = files.open(self._ids_path)
        self._batches_of_ids = 0
        """Batches whose ids are not synced."""
        if torn := self._ids.size() % _CHECKED.size:
            self._ids.truncate(self._ids.size() - torn)
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
        ids: list[bytes] = []
        placed: list[tuple[Change, EventPlace | None]] = []
        offset = self.size
        for index, change in enumerate(changes):
            if type(change) is StoredEvent:
                record = self._records.record(
                    EVENT,
                    batch,
                    index,
                    len(changes),
                    pack_event(change),
                    change.sequence,
                    change.topic,
                    change.id,
                )
                placed.append((change, EventPlace(self.number, offset, len(record))))
                ids.append(_id_record(change))
            else:
                assert not isinstance(change, StoredEvent)
                kind = SNAPSHOT if snapshot else CHANGE
                record = self._records.record(kind, batch, index, len(changes), pack_change(change))
                placed.append((change, None))
            records.append(record)
            offset += len(record)
        self._file.append(b"".join(records))
        if ids:
            self._ids.append(b"".join(ids))
            self._batches_of_ids += 1
        self.size = offset
        return placed

    def sync(self) -> None:
        self._file.sync()
        if self._batches_of_ids >= IDS_SYNC:
            self._ids.sync()
            self._batches_of_ids = 0

    def truncate(self, size: int) -> None:
        """Cut the end off, for good."""
        self._file.truncate(size)
        self._file.sync()
        self.size = size

    def scan(self) -> list[FoundRecord]:
        """Everything in it, from the beginning."""
        return self._records.scan(self._file.read(0, self.size))

    def event(self, sequence: int, place: EventPlace) -> StoredEvent | None:
        """The event whose record is there; None when it is damaged."""
        body = self._records.read(self._file.read(place.offset, place.length))
        return None if body is None else unpack_event(sequence, body)

    def close(self) -> None:
        self._file.close()
        self._ids.close()

    def remove(self) -> None:
        """Remove its files, once it is closed."""
        self._files.remove(self.path)
        self._files.remove(self._ids_path)


def change_in(found: FoundRecord) -> Change:
    """What an undamaged record says."""
    assert found.header is not None
    assert found.body is not None
    if found.header.kind == EVENT:
        return unpack_event(found.header.sequence, found.body)
    return unpack_change(found.body)
