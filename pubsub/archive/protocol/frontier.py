"""A frontier: for each stream, the catenation number up to which all of its events are meant.

Every archive stores a stream's events in order and without a gap. So a frontier says exactly which events a
replica has, whatever their sequence numbers there; and, since a subscriber is given a stream's events in
order, which ones its application is done with. It means the same at every replica, which sequence numbers
do not: this is how sync points are mapped from one replica to another. Frontiers only grow; merging the
same one twice, or in another order, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgpack

from overlay.contact import ID_BYTES

RUN_BYTES = 8
STREAM_BYTES = ID_BYTES + RUN_BYTES
DIGEST_BYTES = 8


def stream_of(publisher: bytes, run: bytes) -> bytes:
    """The stream of a publisher in one of its lives."""
    return publisher + run


def publisher_of(stream: bytes) -> bytes:
    return stream[:ID_BYTES]


def run_of(stream: bytes) -> bytes:
    return stream[ID_BYTES:]


class Frontier:
    """Catenation numbers by stream; 0 for a stream that it does not have."""

    __slots__ = ("_marks",)

    def __init__(self, marks: Iterable[tuple[bytes, int]] = ()) -> None:
        self._marks: dict[bytes, int] = {}
        self.merge(marks)

    def get(self, stream: bytes) -> int:
        return self._marks.get(stream, 0)

    def covers(self, stream: bytes, catenation: int) -> bool:
        return catenation <= self._marks.get(stream, 0)

    def raise_to(self, stream: bytes, catenation: int) -> bool:
        """Whether this was news."""
        if catenation <= self._marks.get(stream, 0):
            return False
        self._marks[stream] = catenation
        return True

    def merge(self, marks: Iterable[tuple[bytes, int]]) -> bool:
        """Whether any of it was news."""
        news = [self.raise_to(stream, catenation) for stream, catenation in marks]
        return any(news)

    def drop(self, stream: bytes) -> None:
        self._marks.pop(stream, None)

    def includes(self, other: Frontier) -> bool:
        """Whether every event of `other` is among these."""
        return all(self.covers(stream, catenation) for stream, catenation in other)

    def marks(self) -> tuple[tuple[bytes, int], ...]:
        return tuple(self._marks.items())

    def digest(self) -> bytes:
        """The same for the same marks, in whichever order they came."""
        digest = blake2b(digest_size=DIGEST_BYTES)
        for stream in sorted(self._marks):
            digest.update(stream + self._marks[stream].to_bytes(8, "big"))
        return digest.digest()

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb(self.marks())
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Frontier:
        """The frontier that `packed` gave; an empty one for no bytes."""
        return cls(map(tuple, msgpack.unpackb(packed)) if packed else ())

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter(self._marks.items())

    def __len__(self) -> int:
        return len(self._marks)
