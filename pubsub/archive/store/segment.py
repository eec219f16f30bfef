"""One file of an append-only log."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.entropy import entropy
from pubsub.archive.store.change_codec import (
    Held,
    pack_change,
    pack_event,
    unpack_change,
    unpack_event,
)
from pubsub.archive.store.changes import Append, Change, StoredEvent
from pubsub.archive.store.event_index import Place
from pubsub.archive.store.filesystem import File, FileSystem
from pubsub.archive.store.record import CHANGE, EVENT, SNAPSHOT, Found, Packer, Scanner

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
        self, batch: int, changes: Sequence[Change | Held], *, snapshot: bool = False
    ) -> list[tuple[Change | Held, Place | None]]:
        """Write a batch with one call; where each event of it went."""
        records: list[bytes] = []
        placed: list[tuple[Change | Held, Place | None]] = []
        offset, last = self.size, len(changes) - 1
        for index, change in enumerate(changes):
            if type(change) is Append:
                event = change.event
                record = self._packer.record(
                    EVENT,
                    batch,
                    index,
                    index == last,
                    event.sequence,
                    event.topic,
                    pack_event(event),
                )
                placed.append((change, Place(self.number, offset, len(record))))
            else:
                assert not isinstance(change, Append)
                kind = SNAPSHOT if snapshot else CHANGE
                body = pack_change(change)
                record = self._packer.record(kind, batch, index, index == last, 0, "", body)
                placed.append((change, None))
            records.append(record)
            offset += len(record)
        self._file.append(b"".join(records))
        self.size = offset
        return placed

    def sync(self) -> None:
        self._file.sync()

    def truncate(self, size: int) -> None:
        """Cut the end off, for good."""
        self._file.truncate(size)
        self._file.sync()
        self.size = size

    def scan(self) -> list[Found]:
        """Everything in it, from the beginning."""
        return list(self._scanner.scan(self._file.read(0, self.size)))

    def event(self, sequence: int, place: Place) -> StoredEvent | None:
        """The event whose record is there; None when it is damaged."""
        body = self._scanner.read(self._file.read(place.offset, place.length))
        return None if body is None else unpack_event(sequence, body)

    def close(self) -> None:
        self._file.close()


def change_in(found: Found) -> Change | Held:
    """What an undamaged record says."""
    assert found.header is not None
    assert found.body is not None
    if found.header.kind == EVENT:
        return Append(unpack_event(found.header.sequence, found.body))
    return unpack_change(found.body)
