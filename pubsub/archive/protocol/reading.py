"""Reading an archive without a subscription: which streams it has, and a stream's events by their numbers.

A reader that keeps its own account of what it has read (a Spark query with a checkpoint, an export) asks for
a range of a stream's catenation numbers and is sent one page. The archive remembers nothing of who asks, so a
question can be asked again, of this replica or of another one, and the answer has the same events as long as
retention leaves them. Every answer is bounded: `PAGE_BYTES` of events or one event, `PAGE_STREAMS` streams.

`ReplayPolicy` holds here as well: who asks gives a name, and gets no events from before the time at which a
new durable subscriber of this name may begin.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from overlay.contact import Contact, PeerId
from overlay.wire import WireError, message
from pubsub.archive.protocol.archived_event import read_event
from pubsub.archive.protocol.frontier import STREAM_BYTES, ComparedFrontier, publisher_of
from pubsub.archive.protocol.world import LARGEST_NUMBER, ArchiveWorld
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.store import Store
from pubsub.camcast.latest import Kept, LatestBlocks, answer_with
from pubsub.reliable.numbers import Span
from pubsub.topic import included

PAGE_BYTES = 512 * 1024
"""Bytes of events in one page, unless one event alone has more."""

PAGE_STREAMS = 1024
"""Streams in one page."""

READ_AT_ONCE = 1024
"""Events that are read before their size is looked at."""

FIRST_READ = 16
"""As above, at the beginning of a page: the first events tell about how large the next ones are."""

LATEST_READ = 256
"""Events that are read at once where the last ones of each topic are sought."""

SCANNED = 4096
"""Events that are looked at for one page; of those that the question does not ask for nothing is sent."""

MOST_OF_PEER, MOST_WAITING = 256, 4096
"""Questions that wait for the disk at one time, of one peer and of all: who asks on and on fills no memory,
and does not have others wait behind it for long."""

T = TypeVar("T")


@message(0x96)
class AskStreams:
    """Which streams are there?"""

    topic: str
    nonce: int
    after: bytes
    """The streams whose names sort behind this one; empty for the first page."""


@message(0x97)
class Streams:
    """A page of the streams, sorted by name, and for each the number up to which all of it is stored here."""

    topic: str
    nonce: int
    marks: tuple[tuple[bytes, int], ...]
    more: bool
    floor: int
    """Streams that began before this time are forgotten: nothing of them comes any more."""


@message(0x98)
class AskEvents:
    """The events of a stream from one number to another, both included."""

    topic: str
    nonce: int
    name: str
    """Who asks, for the archive's policy of replay."""
    stream: bytes
    first: int
    last: int
    below: str
    """Only events of this topic and its subtopics."""
    since: float
    until: float
    """Only events that were archived from one time on and before the other, in seconds since 1970. Where none
    can be, one event is looked at, to tell its number."""

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.last < LARGEST_NUMBER or len(self.stream) != STREAM_BYTES:
            raise WireError("wrong_fields")


@message(0x99)
class EventPage:
    """Events of a stream in the order of their numbers, column by column; numbers are little-endian."""

    topic: str
    nonce: int
    read_to: int
    """The page has everything that is here up to this number; one below `first` when it has nothing."""
    first: int
    """The lowest number asked for whose event is here; 0 when none is."""
    seen: int
    """How many events are here up to there, those that were not asked for included."""
    forked: bool
    """Some numbers may have no event, since the events are here in another stream of their publisher."""
    refused: str
    """Why there are no events for this name; empty otherwise."""
    numbers: bytes
    """The catenation number of each event, 8 bytes."""
    times: bytes
    """When each event was archived, a double of 8 bytes."""
    sizes: bytes
    """The bytes of each event, 4 bytes."""
    events: bytes
    """The events (`pubsub.archive.protocol.archived_event`), one behind the other."""


@message(0x9A)
class AskLast:
    """The last events of a topic and its subtopics; the answer is a `Latest` of that topic."""

    topic: str
    nonce: int
    name: str
    """Who asks, for the archive's policy of replay."""
    below: str


class Reading:
    """Answers questions about one managed topic; a core."""

    def __init__(self, world: ArchiveWorld, here: ComparedFrontier) -> None:
        """`here`: what is on stable storage."""
        self._world = world
        self._here = here
        self._open: Counter[PeerId] = Counter()
        """Questions that wait for the disk, by who asks."""

    def receive_streams(self, sender: Contact, question: AskStreams) -> None:
        names = sorted(name for name, _ in self._here if name > question.after)
        page = names[:PAGE_STREAMS]
        marks = tuple((name, self._here.get(name)) for name in page)
        answer = Streams(
            self._world.topic, question.nonce, marks, len(names) > len(page), self._here.floor
        )
        self._world.context.send(sender, answer)

    def receive_events(self, sender: Contact, question: AskEvents) -> None:
        world = self._world
        age = world.clock() - question.since
        if refusal := world.replay_refusal(question.name, sender.id, age, question.below):
            world.context.send(sender, _page(question, _nothing(question), False, refusal))
            return
        here = min(question.last, self._here.get(question.stream))
        forked = self._here.is_forked(publisher_of(question.stream))

        def send(found: _Found) -> None:
            world.context.send(sender, _page(question, found, forked))

        if here < question.first:
            send(_nothing(question))
        else:
            self._read(sender, lambda store: _read(store, question, here), send)

    def receive_last(self, sender: Contact, question: AskLast) -> None:
        world = self._world

        def send(found: list[Kept]) -> None:
            now = world.clock()
            allowed = [
                kept
                for kept in found
                if not world.replay_refusal(question.name, sender.id, now - kept.at, question.below)
            ]
            answer = answer_with(allowed, question.below, question.nonce, now)
            world.context.send(sender, answer)

        self._read(sender, lambda store: _read_last(store, question), send)

    def _read(
        self, sender: Contact, query: Callable[[Store], T], then: Callable[[T], None]
    ) -> None:
        """Ask the disk, unless too much waits for it; then the question is dropped, and comes again."""
        if self._open[sender.id] >= MOST_OF_PEER or self._open.total() >= MOST_WAITING:
            self._world.count_drop("too_many_questions")
            return
        self._open[sender.id] += 1

        def read(found: T) -> None:
            self._open[sender.id] -= 1
            if not self._open[sender.id]:
                del self._open[sender.id]
            then(found)

        self._world.read(query, read)


class _Found(NamedTuple):
    read_to: int
    first: int
    seen: int
    events: list[StoredEvent]


def _nothing(question: AskEvents) -> _Found:
    return _Found(question.first - 1, 0, 0, [])


def _read(store: Store, question: AskEvents, last: int) -> _Found:
    """What a page has of the stream's events up to a number. A few events are read at first: they tell
    about how large the next ones are."""
    found: list[StoredEvent] = []
    first = seen = size = 0
    read_to = question.first - 1
    # Where no time is asked for, the first number is all that is asked.
    most = SCANNED if question.since < question.until else 1
    limit = FIRST_READ
    while read_to < last:
        span = Span(read_to + 1, last)
        events = store.by_catenation(question.topic, question.stream, span, min(limit, most - seen))
        if not events:
            break
        first = first or events[0].catenation
        wanted = _wanted(events, question)
        size += sum([len(event.body) for event in wanted])
        found += wanted
        if size > PAGE_BYTES and len(found) > 1:
            while size > PAGE_BYTES and len(found) > 1:
                size -= len(found.pop().body)
            read_to = max(read_to, found[-1].catenation)
            seen += bisect_right(events, read_to, key=_catenation)
            return _Found(read_to, first, seen, found)
        read_to = events[-1].catenation
        seen += len(events)
        if seen >= most:
            return _Found(read_to, first, seen, found)
        mean = sum([len(event.body) for event in events]) // len(events) + 1
        limit = max(1, min(READ_AT_ONCE, (PAGE_BYTES - size) // mean + 1))
    return _Found(last, first, seen, found)


def _wanted(events: list[StoredEvent], question: AskEvents) -> list[StoredEvent]:
    """Those of the events that were archived within the times and are of the topic asked for."""
    since, until = question.since, question.until
    within = [event for event in events if since <= event.time < until]
    if question.below == question.topic:
        return within
    return [event for event in within if _is_below(event, question)]


def _is_below(event: StoredEvent, question: AskEvents) -> bool:
    try:
        block = read_event(event.body, question.topic).block
    except WireError:
        return False
    return included(question.below, block.topic, block.lineage)


_catenation = attrgetter("catenation")


def _read_last(store: Store, question: AskLast) -> list[Kept]:
    """The last event of each topic asked for, among the latest `SCANNED` events."""
    latest = LatestBlocks()
    stop = store.last_sequence(question.topic) + 1
    end = max(1, stop - SCANNED)
    while stop > end:
        start = max(end, stop - LATEST_READ)
        for event in store.read(question.topic, range(start, stop)):
            try:
                block = read_event(event.body, question.topic).block
            except WireError:
                continue
            if included(question.below, block.topic, block.lineage):
                latest.add(block, event.time)
        stop = start
    return list(latest)


def _page(question: AskEvents, read: _Found, forked: bool, refused: str = "") -> EventPage:
    found = read.events
    many = len(found)
    return EventPage(
        question.topic,
        question.nonce,
        read.read_to,
        read.first,
        read.seen,
        forked,
        refused,
        struct.pack(f"<{many}Q", *[event.catenation for event in found]),
        struct.pack(f"<{many}d", *[event.time for event in found]),
        struct.pack(f"<{many}I", *[len(event.body) for event in found]),
        b"".join([event.body for event in found]),
    )
