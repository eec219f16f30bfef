"""An event as archives keep and send it: a block of one, its publisher's signature, the signature's length.

The publisher makes the block of one for its archive, and signs it, beside the block in which the event
spreads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from overlay.wire import WireError
from pubsub.event import ID_BYTES, ID_PLACE, MALFORMED, Block, read_block


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
    return b"".join((block, signature, bytes([len(signature)])))


def id_of(encoded: bytes) -> bytes:
    """The id of a packed event, or of one of which only the id is known."""
    return encoded if is_id_alone(encoded) else encoded[ID_PLACE]


def is_id_alone(encoded: bytes) -> bool:
    return len(encoded) == ID_BYTES


def read_event(encoded: bytes, managed: str) -> ReadEvent:
    """The event in these bytes; `WireError` unless it is one of the managed topic or a subtopic."""
    end = len(encoded) - 1
    if end <= ID_BYTES or end <= (signed := encoded[end]):
        raise WireError("malformed_event")
    block = read_block(encoded[: end - signed], managed, encoded[end - signed : end])
    if block.count != 1:
        raise WireError("malformed_event")
    return ReadEvent(encoded, block)
