"""What strong collections send each other: additions by topic reliable broadcast, the rest point to point."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import PeerId
from overlay.wire import WireError, decode, message

MOST_COUNTS = 4096
"""Publishers that one announcement may tell of."""


@message(0x6A)
@dataclass(frozen=True, slots=True)
class Addition:
    """An element that was added to a collection."""

    topic: str
    """The collection that it was added to: the topic of the broadcast, or a subtopic."""
    clock: int
    """Its publisher's logical clock."""
    data: bytes
    """The element as msgpack."""


@message(0x6B)
@dataclass(frozen=True, slots=True)
class Announcement:
    """One member's part in the total order (see `pubsub.collections.total_order`)."""

    view: bytes
    stay: int
    """Counts the stable views that the sender has come to."""
    echo: int
    """The receiver's own `stay`, as the sender knows it; 0 when it does not."""
    clock: int
    """Whatever the sender publishes from now on has a higher clock."""
    whole: bool
    """All publishers are told of, rather than those heard in this stay."""
    counts: tuple[tuple[PeerId, int, int], ...]
    """Publisher, its life, and the number of its latest addition that the sender has."""

    def __post_init__(self) -> None:
        if len(self.counts) > MOST_COUNTS or min(self.stay, self.echo, self.clock) < 0:
            raise ValueError("an announcement is out of bounds")


@message(0x6C)
@dataclass(frozen=True, slots=True)
class Offer:
    """An element that is to be taken by its receiver alone (see `pubsub.collections.one_of_n`)."""

    life: int
    number: int
    topic: str
    data: bytes


@message(0x6D)
@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an offer: taken for good, or given back."""

    life: int
    number: int
    taken: bool


Direct = Announcement | Offer | Answer
"""What travels point to point."""


def decode_direct(payload: bytes) -> Direct:
    """`WireError` for anything else."""
    message = decode(payload)
    if not isinstance(message, Direct):
        raise WireError("unexpected_type")
    return message


def decode_addition(payload: bytes) -> Addition:
    """`WireError` for anything else."""
    message = decode(payload)
    if not isinstance(message, Addition) or message.clock < 0:
        raise WireError("unexpected_type")
    return message
