"""An event as archives keep and send it: a block of one, its publisher's signature, the signature's length.

The publisher makes the block of one for its archive, and signs it, beside the block in which the event
spreads. `Row` is an event on its way from one replica to another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from overlay.wire import WireError
from pubsub.archive.store.changes import StoredEvent
from pubsub.event import ID_BYTES, ID_PLACE, MALFORMED, Block, read_block

LENGTH_BYTES = 2
"""Bytes of the field that gives the length of a signature, which may have a right behind it."""


class ReadEvent(NamedTuple):
    """The bytes of an event and the block in them."""

    encoded: bytes
    block: Block

    @property
    def id(self) -> bytes:
        return self.block.id

    def data(self) -> Any:
        """What the application published; `WireError` when it cannot be read."""
        (data,), _ = self.block.data()
        if data is MALFORMED:
            raise WireError("malformed_data")
        return data


def pack_event(block: bytes, signature: bytes = b"") -> bytes:
    """The bytes of a block of one event, and its signature if there is one."""
    return b"".join((block, signature, len(signature).to_bytes(LENGTH_BYTES, "big")))


def id_of(encoded: bytes) -> bytes:
    """The id of a packed event, or of one of which only the id is known."""
    return encoded if is_id_alone(encoded) else encoded[ID_PLACE]


def is_id_alone(encoded: bytes) -> bool:
    return len(encoded) == ID_BYTES


def read_event(encoded: bytes, managed: str) -> ReadEvent:
    """The event in these bytes; `WireError` unless it is one of the managed topic or a subtopic."""
    end = len(encoded) - LENGTH_BYTES
    if end <= ID_BYTES or end <= (signed := int.from_bytes(encoded[end:], "big")):
        raise WireError("malformed_event")
    block = read_block(encoded[: end - signed], managed, encoded[end - signed : end])
    if block.count != 1:
        raise WireError("malformed_event")
    return ReadEvent(encoded, block)


Row = tuple[bytes, int, int, float, bytes, int, bool]
"""One event, as a row of `pubsub.archive.protocol.messages.StoredEvents`."""


def row_of(event: StoredEvent, base: int, resent: bool, number: int | None = None) -> Row:
    """`resent`: as in `pubsub.archive.protocol.inventory`. `number`: the sequence number that is told, if not
    the event's own."""
    return (
        event.publisher,
        base,
        event.catenation,
        event.time,
        event.body,
        event.sequence if number is None else number,
        resent,
    )
