"""What publishers, archives, subscribers and replicas send each other.

An event travels and is stored as `pubsub.archive.protocol.archived_event` says. `topic` is always the
topic that the archive manages, which may be a super-topic of the event's own. Streams and *catenation*
numbers are those of `pubsub.archive.protocol.frontier`. Whatever may become long travels in several messages,
each of at most `DurableConfig.batch_bytes` bytes.

Messages check themselves, so that no number arrives that a store could not keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import get_args

from overlay.wire import WireError, message
from pubsub.archive.protocol.frontier import BUCKETS, DIGEST_BYTES, Marks
from pubsub.archive.protocol.world import LARGEST_NUMBER
from pubsub.reliable.runs import Reason, is_source

Spans = tuple[tuple[int, int], ...]
"""Numbers as first and last, both included."""

GapRows = tuple[tuple[bytes, int, int, str], ...]
"""Gaps: the source, and the first and last of its numbers, of which nothing comes, and the reason. The source
is empty where it is not known; the numbers are the archive's then."""


MARK_BYTES = 40
"""Of a stream and its catenation number in a message."""


def mark_size(mark: tuple[bytes, int]) -> int:
    return MARK_BYTES


def _check(numbers: Iterable[int]) -> None:
    for number in numbers:  # a loop and no generator: some are checked for every event
        if not 0 <= number < LARGEST_NUMBER:
            raise WireError("number_out_of_range")


def _check_spans(*spans: Spans) -> None:
    _check(number for span in chain(*spans) for number in span)


def _check_gaps(gaps: GapRows) -> None:
    for source, first, last, reason in gaps:
        _check((first, last))
        if first > last or (source and not is_source(source)) or reason not in get_args(Reason):
            raise WireError("malformed_gap")


def _check_marks(*marks: Marks) -> None:
    _check(mark for _, mark in chain(*marks))


REGISTER_AGAIN = "register again"
"""The archive does not know the session: it was started anew, or another life of the subscriber came
after."""

MOVED = "moved"
"""The archive no longer manages the topic, or stops: find another one."""

BUSY = "busy"
"""Another subscriber has this name, and is there; ask again."""

TAKEN = "taken"
"""Another subscriber has taken the name over from this session."""

DEREGISTERED = "deregistered"
"""The entity is forgotten, as it asked."""


@message(0x70)
class Discover:
    """Who manages this topic? Sent to the nodes that the directory names."""

    topic: str
    nonce: int
    publisher: bytes
    """The publisher that wants its catenation number back; empty for others."""


@message(0x71)
class Offer:
    """I do, and this is how busy I am. Replicas that are still catching up do not answer."""

    topic: str
    nonce: int
    replica: bytes
    load: float
    """Events stored and sent a second, of late."""
    catenation: int
    """The highest catenation number archived of the publisher that asked, over all its runs that are
    remembered."""
    time: int
    """Of this archive's clock, in whole seconds since 1970: a stream that begins now begins at this time."""


@message(0x72)
class Companion:
    """Consecutive events of a stream for the archive, with what tells their order and every loss."""

    topic: str
    stream: bytes
    base: int
    """The stream's first event has the catenation number after this one."""
    first: int
    """The catenation number of the first event here; the others follow."""
    blocks: tuple[bytes, ...]
    """The events, in blocks of one or several."""
    resent: int
    """Those up to this number were sent to another archive, which may have stored and delivered them."""

    def __post_init__(self) -> None:
        _check((self.base, self.first, self.resent))


@message(0x73)
class Negotiation:
    """The archive's answer: an ACK of what is safe, a NAK of what is missing, or both."""

    topic: str
    stream: bytes
    safe: tuple[int, ...] = ()
    """All events up to safe[k] are on stable storage at k + 1 replicas or more."""
    replicas: int = 0
    """How many replicas there are, this one included; 0 when this one serves no more: find another one."""
    missing: Spans = ()
    begin: int = 0
    """Not 0: nothing of this stream is taken, for it began too long ago to be remembered, or by a wrong
    clock. Begin another one at this time."""
    wanted: tuple[bytes, ...] = ()
    """Ids of events that were damaged here: a NAK by id of what is still kept."""

    def __post_init__(self) -> None:
        _check((*self.safe, self.replicas, self.begin))
        _check_spans(self.missing)


@message(0x74)
class Register:
    """Register or recover a durable subscriber; sent until an `AckResponse` of the session comes."""

    topic: str
    entity: str
    session: bytes
    """Names this life of the subscriber with this archive."""
    interest: bytes
    """See `pubsub.archive.protocol.dissemination`; empty to keep the one that is registered."""
    since: str
    """Where a new entity begins: `now`, `beginning`, `sequence` or `time`."""
    value: float
    """The sequence number or the seconds since 1970."""
    ordered: bool
    """Send the events themselves, not only notifications: the subscriber does not listen elsewhere."""
    position: Marks
    """What the application is done with, where the subscriber or the application remembers; of the streams
    that it got on with last, as many as go into a message."""
    leave: bool
    """Forget the entity instead: nothing is kept for it any more."""
    shared: bool = False
    """Others may have the same name at the same time: see `pubsub.archive.protocol.dissemination.Serving`."""
    taking: str = ""
    """A word for the subscriber that has the name, from which this one takes it over; empty: wait until that
    one has left or is silent."""

    def __post_init__(self) -> None:
        _check_marks(self.position)


@message(0x75)
class AckResponse:
    """The archive's word on a subscriber's sync point, and what it believes the subscriber has missed."""

    topic: str
    entity: str
    session: bytes
    replica: bytes
    sync: int = 0
    highest: int = 0
    """The newest number that the subscriber has been notified of."""
    missing: Spans = ()
    gaps: GapRows = ()
    """What was removed before the subscriber had it."""
    began: float = 0.0
    """The entity has the events that were archived at this time or later; seconds since 1970. A subscriber
    that goes to a replica which has not heard of the registration begins there."""
    refused: str = ""
    """Why there is no registration; empty otherwise. See the words above."""
    floor: int = 0
    """No event of a stream that began before this time comes any more."""
    word: str = ""
    """Of the subscriber that has taken the name over."""

    def __post_init__(self) -> None:
        _check((self.sync, self.highest, self.floor))
        _check_spans(self.missing)
        _check_gaps(self.gaps)


@message(0x76)
class Notice:
    """Archival notifications and recovery events."""

    topic: str
    entity: str
    session: bytes
    streams: tuple[bytes, ...]
    items: tuple[tuple[int, int, int, int, bytes, bool], ...]
    """Sequence number; that of the previous event for this entity; place of its stream above; catenation
    number; the event, or its id alone; whether the subscriber may have been given it in an earlier life.

    Or the same of several events, in one block: these are the numbers of the first, and those of the others
    follow."""

    def __post_init__(self) -> None:
        for sequence, previous, _, catenation, _, _ in self.items:
            _check((sequence, previous, catenation))


@message(0x77)
class Invoice:
    """A subscriber's ACK of what it has, NAK of what it wants, and what its application is done with."""

    topic: str
    entity: str
    session: bytes
    received: Spans
    missing: Spans
    done: int
    """The application is done with everything up to this number."""
    gaps: GapRows
    """Those that the last response told of: the archive need not tell them again."""
    leaving: bool
    """The session ends with this."""
    unnumbered: tuple[bytes, ...] = ()
    """Ids of events that the subscriber has, and whose numbers it was not told: a NAK by id."""

    def __post_init__(self) -> None:
        _check((self.done,))
        _check_spans(self.received, self.missing)
        _check_gaps(self.gaps)


@message(0x78)
class StoredEvents:
    """Events that a replica has stored, for another one, in the order of its sequence numbers."""

    topic: str
    replica: bytes
    events: tuple[tuple[bytes, int, int, float, bytes, bool], ...] = ()
    """Stream; base; catenation number; time of archiving; the event; whether yet another archive may have
    delivered it before that time. Or the same of several events, in one block: the catenation number is that
    of the first, and those of the others follow."""
    repaired: bool = False
    """Asked for to repair damage."""
    lacking: tuple[bytes, ...] = ()
    """Ids of events that were asked for to repair damage and are not here."""
    skips: Marks = ()
    """Of these streams there is nothing up to this catenation number that the receiver lacks: it was removed,
    or is in another stream."""

    def __post_init__(self) -> None:
        _check_marks(self.skips)
        _check(chain.from_iterable((row[1], row[2]) for row in self.events))


@message(0x79)
class ReplicaInvoice:
    """What a replica has: an ACK to all the others, and a NAK to the one that it is to be sent more by."""

    topic: str
    replica: bytes
    have: Marks = ()
    """By stream: everything up to this catenation number."""
    want: bool = False
    """Send what comes after those."""
    damaged: tuple[bytes, ...] = ()
    """Ids of events that were damaged there and are wanted again."""

    def __post_init__(self) -> None:
        _check_marks(self.have)


@message(0x94)
class ReplicaSummary:
    """What a replica has, in digests: a replica that has something else answers with those parts."""

    topic: str
    replica: bytes
    nonce: int
    sums: bytes
    """See `pubsub.archive.protocol.frontier.ComparedFrontier`."""

    def __post_init__(self) -> None:
        if len(self.sums) != BUCKETS * DIGEST_BYTES:
            raise WireError("wrong_fields")


@message(0x95)
class ReplicaParts:
    """Everything that a replica has in some parts of its frontier: the answer to a summary, or part of it."""

    topic: str
    replica: bytes
    nonce: int
    of: int
    """Parts in the whole answer, which may be in several messages."""
    buckets: tuple[int, ...]
    have: Marks
    """Streams of these parts that are not mentioned are not there at all."""

    def __post_init__(self) -> None:
        _check((self.of, *self.buckets))
        _check_marks(self.have)


@message(0x7A)
class ReplicaInfo:
    """A replica is there, or leaves, or asks another node to become one."""

    topic: str
    replica: bytes
    kind: str
    """`alive`, `leaving` or `manage`."""
    count: int
    """Events stored of the topic."""
    digest: bytes
    """A digest of the events that it has: replicas with equal digests have the same events."""
    updates: int
    """The number of the last entity update that it has sent."""
    ready: bool
    """It serves publishers and subscribers."""
    heard: int
    """The number of the receiver's last entity update that came, and none before it is missing; -1 when none
    has."""
    settled: int
    """Of streams that began before this time nothing is here any more, nothing is lacking, and nothing is
    taken. See `pubsub.archive.protocol.forgetting`."""
    floor: int
    """Streams that began before this time are forgotten here."""

    def __post_init__(self) -> None:
        _check((self.settled, self.floor))


@message(0x7B)
class EntityUpdates:
    """Registrations, removals and progress of durable subscribers, from one replica to the others."""

    topic: str
    replica: bytes
    number: int = 0
    """Counts the updates of a replica's life, so that a lost one is noticed."""
    sending: int = 0
    """Tells apart what is sent under one number."""
    page: int = 0
    pages: int = 1
    """What is sent may be in several messages: it counts when all of them are there."""
    base: Marks = ()
    """What this replica has, or a part of it: most applications are done with nearly all of that."""
    updates: tuple[tuple[str, bytes, bool, bool, Marks, float, float], ...] = ()
    """Entity; interest; whether it is gone; whether its application is done with everything in `base` but for
    the streams mentioned; what it is done with, possibly in several rows; when it was registered or removed,
    and since when it has this interest, in seconds since 1970: the later one counts."""
    full: bool = False
    """Everything that the replica knows, of all its entities."""
    wanted: bool = False
    """Send me all of yours."""

    def __post_init__(self) -> None:
        _check((self.sending, self.page, self.pages))
        _check_marks(self.base, *(update[4] for update in self.updates))
