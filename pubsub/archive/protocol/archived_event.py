"""Events as archives keep and send them: a block, its publisher's signature, the signature's length.

An archive keeps each event as a block of one, so that it can give away each alone. On the way to an archive,
and from there to a subscriber or another replica, consecutive events of one run travel as one block: one
head, one check. Where the network signs, each event travels alone, with its own signature, which its readers
check.

The publisher makes the block of one for its archive, and signs it, beside the block in which the event
spreads. `Row` is an event on its way from one replica to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from overlay.wire import WireError
from pubsub.archive.store.changes import StoredEvent
from pubsub.data import unpack_data
from pubsub.event import (
    ARRAY_HEAD_BYTES,
    ID_BYTES,
    ID_PLACE,
    LAST_NUMBER,
    MOST_EVENTS,
    NUMBER_BYTES,
    RUN_BYTES,
    Block,
    Origin,
    join_blocks,
    origin_of,
    read_block,
    split_block,
)

LENGTH_BYTES = 2
"""Bytes of the field that gives the length of a signature, which may have a right behind it."""

_UNSIGNED = bytes(LENGTH_BYTES)


class ReadEvent(NamedTuple):
    """The bytes of one event, and the block in which it came, perhaps with others."""

    encoded: bytes
    block: Block

    @property
    def id(self) -> bytes:
        return self.encoded[ID_PLACE]

    def data(self) -> Any:
        """What the application published; `WireError` when it cannot be read."""
        start, end = self.block.data_at + ARRAY_HEAD_BYTES, len(self.encoded) - LENGTH_BYTES
        return unpack_data(self.encoded[start : end - len(self.block.signature)])


def pack_event(block: bytes, signature: bytes = b"") -> bytes:
    """The bytes of a block, and its signature if there is one."""
    return b"".join((block, signature, len(signature).to_bytes(LENGTH_BYTES, "big")))


def id_of(encoded: bytes) -> bytes:
    """The id of a packed event."""
    return encoded[ID_PLACE]


def join(events: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packed events in as few packed blocks as possible: how many events, and the bytes, of each."""
    return join_blocks(events, _UNSIGNED)


def read_packed(encoded: bytes, managed: str) -> Block:
    """The block in these bytes; `WireError` unless it is one of the managed topic or a subtopic."""
    end = len(encoded) - LENGTH_BYTES
    if end <= ID_BYTES or end <= (signed := int.from_bytes(encoded[end:], "big")):
        raise WireError("malformed_event")
    return read_block(encoded[: end - signed], managed, encoded[end - signed : end])


def read_events(encoded: bytes, managed: str) -> list[ReadEvent]:
    """The events in the bytes of a packed block; `WireError` as above, or for several with one signature."""
    block = read_packed(encoded, managed)
    if block.count == 1:
        return [ReadEvent(encoded, block)]
    if block.signature:
        raise WireError("malformed_event")
    return [ReadEvent(one, block) for one in split_block(block, _UNSIGNED)]


def read_event(encoded: bytes, managed: str) -> ReadEvent:
    """The one event in these bytes; `WireError` as above, or for several."""
    block = read_packed(encoded, managed)
    if block.count != 1:
        raise WireError("malformed_event")
    return ReadEvent(encoded, block)


COUNT_BYTES = 4


def join_ids(ids: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """The ids of consecutive events of one run as one: how many, and the first with this count behind it."""
    place = 0
    while place < len(ids):
        first, count = ids[place], 1
        run, number = first[:RUN_BYTES], int.from_bytes(first[RUN_BYTES:], "big")
        while place + count < len(ids) and ids[place + count] == run + _number(number + count):
            count += 1
        yield count, first + count.to_bytes(COUNT_BYTES, "big")
        place += count


def _number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


class Received:
    """A packed block, or ids alone, from an archive: read and checked once for all of its events."""

    __slots__ = ("_encoded", "_read", "ids", "is_whole")

    def __init__(self, encoded: bytes) -> None:
        """Bytes that are neither count as one event, which cannot be opened."""
        self._encoded = encoded
        self.is_whole = len(encoded) != ID_BYTES + COUNT_BYTES
        """The events themselves are here."""
        id = encoded[ID_PLACE] if self.is_whole else encoded[:ID_BYTES]
        run, first = id[:RUN_BYTES], int.from_bytes(id[RUN_BYTES:], "big")
        origin = origin_of(encoded) if self.is_whole else None
        count = 1 if origin is None else origin[2]
        if not self.is_whole and 0 < first < LAST_NUMBER - MOST_EVENTS:
            count = max(min(int.from_bytes(encoded[ID_BYTES:], "big"), MOST_EVENTS), 1)
        self.ids = [run + _number(number) for number in range(first, first + count)]
        """The id of each event."""
        self._read: tuple[Origin, int, Sequence[Any]] | None = None

    def open(
        self, managed: str, refusal: Callable[[Block], str | None], signed: bool
    ) -> tuple[Origin, int, Sequence[Any]]:
        """What the events have in common, the first number, and the data of each; `WireError` unless the
        block is well-formed and `refusal` accepts it. `signed`: what is said of the events' signatures."""
        if self._read is None:
            block = read_packed(self._encoded, managed)
            if (reason := refusal(block)) is not None:
                raise WireError(reason)
            batch, _ = block.batch(0, signed)
            self._read = (batch.origin, batch.first, batch.data)
        return self._read


Row = tuple[bytes, int, int, float, bytes, bool]
"""An event, or several in one block, as a row of `pubsub.archive.protocol.messages.StoredEvents`."""


def row_of(event: StoredEvent, base: int, resent: bool) -> Row:
    """`resent`: as in `pubsub.archive.protocol.inventory`."""
    return event.publisher, base, event.catenation, event.time, event.body, resent


def join_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """The same events in as few rows as possible: one for those whose numbers all follow each other, and that
    can be one block."""
    at = 0
    while at < len(rows):
        first, stop = rows[at], at + 1
        while stop < len(rows) and _is_next(rows[stop], first, stop - at):
            stop += 1
        for count, block in join([row[4] for row in rows[at:stop]]):
            stream, base, catenation, time, _, resent = rows[at]
            yield stream, base, catenation, time, block, resent
            at += count


def _is_next(row: Row, first: Row, after: int) -> bool:
    stream, base, catenation, time, _, resent = first
    return row[:4] == (stream, base, catenation + after, time) and row[5] == resent
