"""What strong collections send each other: additions by topic reliable broadcast, the rest point to point."""

from __future__ import annotations

from overlay.contact import PeerId
from overlay.wire import WireError, decode, message

MOST_COUNTS = 4096
"""Publishers that one announcement may tell of."""


MOST_PARTS = 64
"""Messages that one member's holdings may come in."""

ElementId = tuple[PeerId, int, int]
"""An element that is to be taken once: its publisher, the incarnation in which the publisher gives it away,
and its number. A publisher that returns with its log goes on numbering in its old run, but in another
incarnation: it does not remember what it had to give."""


@message(0x6A)
class Addition:
    """An element that was added to a collection."""

    topic: str
    """The collection that it was added to: the topic of the broadcast, or a subtopic."""
    clock: int
    """Its publisher's logical clock."""
    incarnation: int
    """The incarnation of its publisher, for one-of-n delivery."""
    data: bytes
    """The element as msgpack."""

    def __post_init__(self) -> None:
        if min(self.clock, self.incarnation) < 0:
            raise ValueError("clocks and incarnations are not negative")


@message(0x6B)
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
    counts: tuple[tuple[PeerId, bytes, int], ...]
    """Publisher, its run, and the number of its latest addition that the sender has."""
    new: bool = False
    """The sender has not been settled with anybody yet."""

    def __post_init__(self) -> None:
        if len(self.counts) > MOST_COUNTS or min(self.stay, self.echo, self.clock) < 0:
            raise ValueError("an announcement is out of bounds")


@message(0x6C)
class ElementOffer:
    """An element to its receiver alone (see `pubsub.collections.one_of_n`)."""

    element_id: ElementId
    topic: str
    data: bytes
    to: int
    """The receiver's incarnation, as its assigner knows it: what is meant for an earlier one does not
    count, for the assigner will hear that this one is gone."""


@message(0x6D)
class TakerAnswer:
    """What became of an offer: taken for good, or given back."""

    element_id: ElementId
    taken: bool
    unseen: bool = False
    """It was given back because the taker does not see its assigner, which says nothing about the element."""


@message(0x6E)
class Holdings:
    """Part of what the sender knows, in a stable view, of elements whose publishers are gone."""

    view: bytes
    round: int
    """Counts the times that the view's members have told their holdings."""
    part: int
    """The number of this part, from 0."""
    parts: int
    """How many parts the holdings have in this round."""
    claimed: tuple[ElementId, ...]
    """The elements that the sender has in hand, gives away, or has taken while that is not known to all."""
    spare: tuple[ElementId, ...]
    """The elements that the sender has a copy of."""

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts <= MOST_PARTS:
            raise ValueError("a part of holdings is out of bounds")


@message(0x6F)
class Taken:
    """Elements that nobody needs to be offered any more; broadcast to all who take."""

    element_ids: tuple[ElementId, ...]


Direct = Announcement | ElementOffer | TakerAnswer | Holdings
"""What travels point to point."""


def decode_direct(payload: bytes) -> Direct:
    """`WireError` for anything else."""
    message = decode(payload)
    if not isinstance(message, Direct):
        raise WireError("unexpected_type")
    return message


def decode_broadcast(payload: bytes) -> Addition | Taken:
    """`WireError` for anything else."""
    message = decode(payload)
    if not isinstance(message, Addition | Taken):
        raise WireError("unexpected_type")
    return message
