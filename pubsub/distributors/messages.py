"""What publishers, distributors and subscribers say to each other, on codes 0x80 to 0x8f.

Among distributors and from publishers messages go over channels; between a distributor and its subscribers
by plain datagrams, since a distributor with thousands of subscribers cannot afford a channel for each.
Every exchange outlives the loss, repetition and reordering of its messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from overlay.wire import message
from pubsub.distributors.protocol.view import NO_GROUP, Ballot, Group, Member

# What is published.


@message(0x80)
@dataclass(frozen=True, slots=True)
class Publication:
    """One message of a service, on its way between publishers and distributors."""

    service: str
    source: bytes
    """The publisher's id and its run, see `pubsub.distributors.protocol.source`."""
    sequence: int
    """Counts the messages of this source in this service, from 1."""
    data: bytes


# The distributors' view.


@message(0x81)
@dataclass(frozen=True, slots=True)
class Hello:
    """The sender's view of the distributors, if it has one; what a newcomer asks, and how a view is told."""

    group: Group
    number: int
    """Of the view in its group; 0 for a distributor without a view."""
    members: tuple[Member, ...]
    run: int
    """Of the sender."""
    leaving: bool
    """The sender is about to stop, and is to be left out of the next view."""


@message(0x82)
@dataclass(frozen=True, slots=True)
class Prepare:
    """A coordinator that takes over asks what may have been agreed on as view `number`."""

    group: Group
    number: int
    ballot: Ballot


@message(0x83)
@dataclass(frozen=True, slots=True)
class Propose:
    """Phase one: the coordinator proposes the members of view `number`."""

    group: Group
    number: int
    ballot: Ballot
    members: tuple[Member, ...]


@message(0x84)
@dataclass(frozen=True, slots=True)
class Vote:
    """The answer to a `Prepare` (with what was accepted before) or a `Propose`."""

    group: Group
    number: int
    ballot: Ballot
    """The one that is answered."""
    promised: Ballot
    """The highest one that the voter has answered; it refuses when this is not `ballot`."""
    accepted: Ballot
    members: tuple[Member, ...]
    """What the voter accepted last, and under which ballot; no members if nothing."""


# Multicast among distributors.


@message(0x85)
@dataclass(frozen=True, slots=True)
class Digest:
    """What the sender has, told periodically; also how new services are publicised."""

    run: int
    """Of the sender: what an earlier run had tells nothing of this one."""
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
@dataclass(frozen=True, slots=True)
class Want:
    """Asks for messages `first` to `last` of a source."""

    service: str
    source: bytes
    first: int
    last: int


@message(0x87)
@dataclass(frozen=True, slots=True)
class Spread:
    """Messages, from a publisher to its distributor, or from one distributor to another."""

    publications: tuple[Publication, ...]
    after: int = 0
    """From a publisher: every distributor of a view had its messages up to this number, and it keeps none of
    them. A distributor that was in this view, and has forgotten the source, begins after this number."""
    group: Group = NO_GROUP
    number: int = 0
    """The view."""


@message(0x88)
@dataclass(frozen=True, slots=True)
class Published:
    """A distributor has a source's messages up to `received`, and all of its view have them to `stable`."""

    service: str
    source: bytes
    received: int
    stable: int
    group: Group
    number: int
    """The view."""


# Services.


class Action(IntEnum):
    """What a publisher or subscriber asks of a distributor."""

    CREATE = 1
    SUBSCRIBE = 2
    UNSUBSCRIBE = 3
    MOVED = 4
    """Unsubscribe, because the subscriber has gone to another distributor."""
    REMOVE = 5
    """Have no such service any more."""


@message(0x89)
@dataclass(frozen=True, slots=True)
class Request:
    """Asked again until it is answered."""

    number: int
    """Grows from each request of a client to its next one."""
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
@dataclass(frozen=True, slots=True)
class Answer:
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
@dataclass(frozen=True, slots=True)
class Piece:
    """A message, or one of the `count` consecutive pieces of a large one."""

    source: bytes
    sequence: int
    lost: int
    """How many messages of the source, just before this one, the distributor will never have."""
    number: int
    """Of the piece in the message, from 0."""
    count: int
    data: bytes


@message(0x8C)
@dataclass(frozen=True, slots=True)
class Deliveries:
    """Consecutive pieces of a stream; the same bytes for every subscriber that is as far."""

    stream: int
    first: int
    """The place of the first piece."""
    oldest: int
    """The earliest place that the distributor still holds; those before it are gone."""
    pace: float
    """Acknowledge within so many seconds."""
    pieces: tuple[Piece, ...]


@message(0x8D)
@dataclass(frozen=True, slots=True)
class Received:
    """A subscriber has everything up to a place, or asks for a sign of life (stream 0: a publisher does)."""

    stream: int
    upto: int
    missing: tuple[int, ...]
    """Places after `upto` that were overtaken by later ones."""
    room: int
    """Pieces beyond `upto` that it will take."""
    ask: bool
    """An `Alive` is wanted in return."""


@message(0x8E)
@dataclass(frozen=True, slots=True)
class Alive:
    """The answer: where the stream's newest piece is."""

    stream: int
    last: int
    knows: bool
    """Whether the asker is a subscriber here."""
    pace: float
    """As in `Deliveries`."""


@message(0x8F)
@dataclass(frozen=True, slots=True)
class Recalled:
    """The answer to a subscriber's `Want`: what was found from `first` on, and no more before `next`."""

    service: str
    source: bytes
    first: int
    next: int
    pieces: tuple[Piece, ...]


# Which services there are, for a group below this one.


@message(0xB1)
@dataclass(frozen=True, slots=True)
class ListServices:
    """Asks a distributor for its services; names after this one, in order."""

    after: str


@message(0xB2)
@dataclass(frozen=True, slots=True)
class Services:
    """The answer: some names in order, and whether there are more."""

    names: tuple[str, ...]
    more: bool


@message(0xB3)
@dataclass(frozen=True, slots=True)
class Raise:
    """Consecutive messages of a source that were published at a group below; answered by `Published`."""

    service: str
    source: bytes
    after: int
    """What is up to this number has arrived, or is not held below any more."""
    publications: tuple[Publication, ...]
