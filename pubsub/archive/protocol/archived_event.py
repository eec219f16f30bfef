"""An event as archives keep and send it: its publisher's bytes, the signature, the signature's length."""

from __future__ import annotations

from typing import Any, NamedTuple

from overlay.wire import WireError
from pubsub.event import ID_BYTES, ID_PLACE, EventBody, Gossip, read_body, unpack_data


class ReadEvent(NamedTuple):
    """The bytes of an event and what is in them."""

    encoded: bytes
    body: EventBody

    @property
    def id(self) -> bytes:
        return self.body.id

    def gossip(self, managed: str) -> Gossip:
        """The event as it would come to a member of the managed topic, with its signature."""
        end = len(self.encoded) - 1
        start = end - self.encoded[end]
        return Gossip(self.id, managed, 0, False, self.encoded[:start], self.encoded[start:end])

    def data(self) -> Any:
        """What the application published; `WireError` when it is no data."""
        return unpack_data(self.body.data)


def pack_event(body: bytes, signature: bytes = b"") -> bytes:
    """An event's body, as `pubsub.event.pack_body` gave it, and its signature if there is one."""
    return b"".join((body, signature, bytes([len(signature)])))


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
    return ReadEvent(encoded, read_body(encoded[: end - signed], managed))
