"""What publishers, distributors and subscribers say to each other, on codes 0x80 to 0x8f.

Among distributors and from publishers messages go over channels; between a distributor and its subscribers
by plain datagrams, since a distributor with thousands of subscribers cannot afford a channel for each.
Every exchange outlives the loss, repetition and reordering of its messages.

What a message of a service carries: an application's data, or an event of the topic behind the service;
and what a service may be called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgpack

from overlay.contact import ID_BYTES, PeerId
from overlay.errors import UsageError
from overlay.wire import WireError, message
from pubsub.data import pack_data, unpack_data
from pubsub.distributors.protocol.view import NO_GROUP, Ballot, Group, ViewMember
from pubsub.event import ID_BYTES as EVENT_ID_BYTES
from pubsub.event import Event
from pubsub.reliable.batches import batches
from pubsub.reliable.runs import is_source

# What is published.


@message(0x80)
class ServiceBlock:
    """Consecutive messages of one source of a service, on their way between publishers and distributors:
    those that were published within one turn of the loop. A lone message is a block of one."""

    service: str
    source: bytes
    """The publisher's id and its run, see `pubsub.reliable.runs`."""
    first: int
    """The number of the first message; a source's messages of a service are counted from 1."""
    payloads: tuple[bytes, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.payloads) - 1

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.payloads))

    @property
    def is_sound(self) -> bool:
        """Whether this can be a block; what a peer sends may not be one."""
        return is_source(self.source) and self.first > 0 and bool(self.payloads)


# The distributors' view.


@message(0x81)
class ViewHello:
    """The sender's view of the distributors, if it has one; what a newcomer asks, and how a view is told."""

    group: Group
    number: int
    """The number of the view in its group; 0 for a distributor without a view."""
    members: tuple[ViewMember, ...]
    run: int
    """The sender's run."""
    leaving: bool
    """The sender is about to stop, and is to be left out of the next view."""


@message(0x82)
class Prepare:
    """A coordinator that takes over asks what may have been agreed on as view `number`."""

    group: Group
    number: int
    ballot: Ballot


@message(0x83)
class Propose:
    """Phase one: the coordinator proposes the members of view `number`."""

    group: Group
    number: int
    ballot: Ballot
    members: tuple[ViewMember, ...]


@message(0x84)
class Vote:
    """The answer to a `Prepare` (with what was accepted before) or a `Propose`."""

    group: Group
    number: int
    ballot: Ballot
    """The one that is answered."""
    promised: Ballot
    """The highest one that the voter has answered; it refuses when this is not `ballot`."""
    accepted: Ballot
    members: tuple[ViewMember, ...]
    """What the voter accepted last, and under which ballot; no members if nothing."""


# Multicast among distributors.


@message(0x85)
class Digest:
    """What the sender has, told periodically; also how new services are publicised."""

    run: int
    """The sender's run: what an earlier run had tells nothing of this one."""
    whole: bool
    """Whether all sources are in this one or those before it since the last whole one."""
    services: tuple[tuple[str, int, bool], ...]
    """Services that it has, or knows to be removed; the version of each (see `Service.version`), and whether
    it has subscribers without gaps of it."""
    sources: tuple[tuple[str, bytes, int, int, int, int], ...]
    """Service, source, the number after which it begins here, lowest number still held, highest received,
    highest that all subscribers here have. A lowest number of 0 answers one that still tells of a source that
    the sender has forgotten since it had everything up to the highest number."""


@message(0x86)
class Want:
    """Asks for messages `first` to `last` of a source."""

    service: str
    source: bytes
    first: int
    last: int


@message(0x87)
class SpreadBlocks:
    """Blocks, from a publisher to its distributor, or from one distributor to another."""

    blocks: tuple[ServiceBlock, ...]
    after: int = 0
    """From a publisher: every distributor of a view had its messages up to this number, and it keeps none of
    them. A distributor that was in this view, and has forgotten the source, begins after this number."""
    group: Group = NO_GROUP
    number: int = 0
    """The view."""


@message(0x88)
class PublicationAck:
    """A distributor has a source's messages up to `received`, and all of its view have them to `stable`."""

    service: str
    source: bytes
    received: int
    stable: int
    group: Group
    number: int
    """The view."""
    run: int = 0
    """The distributor's: what an earlier run had received, this one may lack."""


# Services.


class ClientAction(IntEnum):
    """What a publisher or subscriber asks of a distributor."""

    CREATE = 1
    SUBSCRIBE = 2
    UNSUBSCRIBE = 3
    MOVED = 4
    """Unsubscribe, because the subscriber has gone to another distributor."""
    REMOVE = 5
    """Have no such service any more."""


@message(0x89)
class ClientRequest:
    """Asked again until it is answered."""

    number: int
    """Grows from each request of a client to its next one; a client that begins anew draws its first one."""
    action: int
    service: str
    no_gap: bool
    """A subscriber's semantics."""
    have: dict[bytes, int] | None
    """What a subscriber that comes from another distributor has of each source, or of those that it heard
    last if they are many; None for a new one. Of a publisher's own source, the number up to which all
    distributors had it."""
    since: float
    """Seconds since the subscription began."""


@message(0x8A)
class ClientAnswer:
    """The acknowledgement of a request, or why it was refused."""

    number: int
    refusal: str
    """Empty when it was done."""
    stream: int
    """Under which the service's messages come to a subscriber."""
    position: int
    """The place in the stream before the subscriber's first piece."""
    have: tuple[tuple[bytes, int], ...]
    """Sources, and of each the number before the first message that will come; of very many, those that were
    active last."""


# Multicast to subscribers.


@message(0x8B)
class StreamPiece:
    """A block's messages, as many as fit a datagram; or one of the `count` consecutive pieces of a large
    message."""

    source: bytes
    first: int
    """The number of the first message."""
    lost: int
    """How many messages of the source, just before the first one, the distributor will never have."""
    number: int
    """The number of the piece in the message, from 0."""
    count: int
    payloads: tuple[bytes, ...]
    """The messages, or the one part of a message."""

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.first if self.count > 1 else self.first + len(self.payloads) - 1

    @property
    def size(self) -> int:
        """About how many bytes it has as it travels."""
        return (
            PIECE_HEAD_BYTES
            + sum(map(len, self.payloads))
            + PAYLOAD_HEAD_BYTES * len(self.payloads)
        )


PIECE_HEAD_BYTES = 48
PAYLOAD_HEAD_BYTES = 3


def pieces_of(
    source: bytes, first: int, payloads: Sequence[bytes], room: int, lost: int = 0
) -> Iterator[StreamPiece]:
    """Consecutive messages in pieces of at most `room` bytes as they travel."""
    most = room - PIECE_HEAD_BYTES - PAYLOAD_HEAD_BYTES
    for some in batches(
        payloads, lambda one: len(one) + PAYLOAD_HEAD_BYTES, room - PIECE_HEAD_BYTES
    ):
        count = -(-len(some[0]) // most)
        if count > 1:
            for number in range(count):
                part = some[0][number * most : (number + 1) * most]
                yield StreamPiece(source, first, lost, number, count, (part,))
        else:
            yield StreamPiece(source, first, lost, 0, 1, tuple(some))
        first += len(some)
        lost = 0


@message(0x8C)
class StreamDeliveries:
    """Consecutive pieces of a stream; the same bytes for every subscriber that is as far."""

    stream: int
    first: int
    """The place of the first piece."""
    oldest: int
    """The earliest place that the distributor still holds; those before it are gone."""
    pace: float
    """The receiver acknowledges within this many seconds."""
    pieces: tuple[StreamPiece, ...]


@message(0x8D)
class StreamAck:
    """A subscriber has everything up to a place, or asks for a sign of life (stream 0: a publisher does)."""

    stream: int
    upto: int
    missing: tuple[int, ...]
    """Places after `upto` that were overtaken by later ones."""
    room: int
    """Messages, or pieces of large ones, beyond `upto` that it will take."""
    ask: bool
    """An `Alive` is wanted in return."""


@message(0x8E)
class Alive:
    """The answer: where the stream's newest piece is."""

    stream: int
    last: int
    knows: bool
    """Whether the asker is a subscriber here."""
    pace: float
    """As in `StreamDeliveries`."""


@message(0x8F)
class Recalled:
    """The answer to a subscriber's `Want`: what was found from `first` on, and no more before `next`."""

    service: str
    source: bytes
    first: int
    next: int
    pieces: tuple[StreamPiece, ...]


# Which services there are, for a group below this one.


@message(0xB1)
class ListServices:
    """Asks a distributor for its services; names after this one, in order."""

    after: str


@message(0xB2)
class ServiceList:
    """The answer: some names in order, and whether there are more."""

    names: tuple[str, ...]
    more: bool


@message(0xB3)
class Raise:
    """A block that was published at a group below; answered by `PublicationAck`. What is before it has
    arrived, or is not held below any more."""

    block: ServiceBlock


MAX_NAME_BYTES = 200


class ServiceNameError(UsageError):
    """The text is not a valid name of a service."""


def check_service(name: str) -> str:
    """Return `name` when it can be a service's: 1 to 200 bytes of printable UTF-8."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ServiceNameError(f"{name!r} is not a valid service: a name is printable text")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ServiceNameError(f"{name!r} is not a valid service: more than {MAX_NAME_BYTES} bytes")
    return name


_DATA = b"\x00"
_EVENT = b"\x01"


@dataclass(frozen=True, slots=True)
class Carried:
    """An event of a topic, or an application's own data (then all but `data` is None)."""

    data: Any
    topic: str | None = None
    publisher: PeerId | None = None
    event_id: bytes | None = None


def pack_application_data(data: Any) -> bytes:
    """`DataError` when the data cannot travel, or is too large."""
    return _DATA + pack_data(data)


def pack_event(event: Event) -> bytes:
    head: bytes = msgpack.packb([event.topic, bytes(event.publisher), event.id])
    return _EVENT + len(head).to_bytes(2, "big") + head + pack_data(event.data)


def unpack_content(content: bytes) -> Carried:
    """What a publisher or a distributor packed; `WireError` for any other bytes."""
    if content[:1] == _DATA:
        return Carried(unpack_data(content[1:]))
    if content[:1] != _EVENT:
        raise WireError("malformed_data")
    size = int.from_bytes(content[1:3], "big")
    head = unpack_data(content[3 : 3 + size])
    if not (
        isinstance(head, list)
        and [type(one) for one in head] == [str, bytes, bytes]
        and len(head[1]) == ID_BYTES
        and len(head[2]) == EVENT_ID_BYTES
    ):
        raise WireError("malformed_data")
    return Carried(unpack_data(content[3 + size :]), head[0], PeerId(head[1]), head[2])


def event_id_of(content: bytes) -> bytes | None:
    """The id of the event that a message carries, without reading the rest; None for other data."""
    if content[:1] != _EVENT:
        return None
    size = int.from_bytes(content[1:3], "big")
    return content[3 + size - EVENT_ID_BYTES : 3 + size]
