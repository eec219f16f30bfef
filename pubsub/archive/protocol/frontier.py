"""Streams of events, and frontiers: for each stream, the number up to which all of its events are meant.

A *stream* is some of the events of a publisher's run in one managed topic, numbered without a gap by their
*catenation* numbers. It is named by the publisher's id, the time at which it began in whole seconds, by the
clock of the archive that it began at, and three bytes of chance. The last bit says whether it is a *fork*,
which a publisher begins when it cannot go on with the one before (`pubsub.archive.protocol.publisher`), and
the bit before it whether it *renews* another one, with which it goes on in mid-run.

Every archive stores a stream's events in order and without a gap. So a frontier says exactly which events a
replica has, whatever their sequence numbers there; and, since a subscriber is given a stream's events in
order, which ones its application is done with. It means the same at every replica, which sequence numbers
do not: this is how sync points are mapped from one replica to another. Frontiers only grow; merging the
same one twice, or in another order, changes nothing.

Streams are forgotten by their age: a frontier has a *floor*, and covers every stream that began before it
(`pubsub.archive.protocol.forgetting` says when).

`Given` says which events an application was given, or is done with, once each, whichever stream brought
them. A publisher that cannot fill what an archive lacks goes on as another stream in mid-run (see
`pubsub.archive.protocol.publisher`). An event keeps its id and its catenation number then, but may be in
one stream at one replica and in another one at the next. What stays is its *origin*: its publisher and the
run, whose number begins the event's id. So events are told apart by origin and catenation number; and what
was given in each stream is, as every archive keeps a stream in order, all from its first event to its last
one. A stream that neither is a fork nor renews another one begins with all that its run had before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Generic, TypeVar
from zlib import crc32

import msgpack

from overlay.contact import ID_BYTES
from pubsub.reliable.order import Bounds, Order
from pubsub.reliable.runs import RUN_BYTES, SOURCE_BYTES

T = TypeVar("T")

STREAM_BYTES = SOURCE_BYTES
BEGIN_BYTES = 5
DIGEST_BYTES = 8
BUCKETS = 1024
"""Parts of a frontier that are compared each by itself. A part is told in one message: with up to 1,000
streams in it, hence with a million streams in all, such a message has some 35,000 bytes."""

LONGEST_BEGIN = 1 << 8 * BEGIN_BYTES

_DIGESTS = 1 << 8 * DIGEST_BYTES
_SUMS = Struct(f">{BUCKETS}Q")

Marks = tuple[tuple[bytes, int], ...]
"""Catenation numbers by stream."""


def new_stream(
    publisher: bytes, begin: int, chance: int, *, fork: bool = False, renews: bool = False
) -> bytes:
    """The name of a stream that begins now; `chance`: bits of chance, of which 22 are used."""
    rest = (chance & 0x3FFFFF) << 2 | renews << 1 | fork
    return (
        publisher
        + min(begin, LONGEST_BEGIN - 1).to_bytes(BEGIN_BYTES, "big")
        + rest.to_bytes(3, "big")
    )


def stream_of(publisher: bytes, run: bytes) -> bytes:
    return publisher + run


def publisher_of(stream: bytes) -> bytes:
    return stream[:ID_BYTES]


def begin_of(stream: bytes) -> int:
    """When a stream began, in whole seconds since 1970."""
    return int.from_bytes(stream[ID_BYTES : ID_BYTES + BEGIN_BYTES], "big")


def is_fork(stream: bytes) -> bool:
    return bool(stream[-1] & 1)


def goes_on(stream: bytes) -> bool:
    """Whether events of its run may be in another stream before it."""
    return bool(stream[-1] & 3)


def bucket_of(stream: bytes) -> int:
    return crc32(stream) % BUCKETS


class Frontier:
    """Catenation numbers by stream; 0 for a stream that it does not have."""

    __slots__ = ("_marks", "floor")

    def __init__(self, marks: Iterable[tuple[bytes, int]] = ()) -> None:
        self._marks: dict[bytes, int] = {}
        self.floor = 0
        """Every stream that began before this time is covered."""
        self.merge(marks)

    def get(self, stream: bytes) -> int:
        return self._marks.get(stream, 0)

    def covers(self, stream: bytes, catenation: int) -> bool:
        if catenation <= self._marks.get(stream, 0):
            return True
        return self.floor > 0 and begin_of(stream) < self.floor

    def raise_to(self, stream: bytes, catenation: int) -> bool:
        """Whether this was news."""
        if catenation <= self._marks.get(stream, 0) or begin_of(stream) < self.floor:
            return False
        self._marks[stream] = catenation
        return True

    def merge(self, marks: Iterable[tuple[bytes, int]]) -> bool:
        """Whether any of it was news."""
        news = [self.raise_to(stream, catenation) for stream, catenation in marks]
        return any(news)

    def drop(self, stream: bytes) -> None:
        self._marks.pop(stream, None)

    def forget(self, floor: int) -> list[bytes]:
        """Cover every stream that began before this time, and drop them: which these were."""
        self.floor = max(self.floor, floor)
        gone = [stream for stream in self._marks if begin_of(stream) < floor]
        for stream in gone:
            self.drop(stream)
        return gone

    def marks(self) -> tuple[tuple[bytes, int], ...]:
        return tuple(self._marks.items())

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb(self.marks())
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Frontier:
        """The frontier that `packed` gave; an empty one for no bytes."""
        return cls(map(tuple, msgpack.unpackb(packed)) if packed else ())

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter(self._marks.items())

    def __len__(self) -> int:
        return len(self._marks)


class Awaited:
    """Marks that a frontier is to reach. It only grows: so each mark is looked at once after it was reached,
    however often it is asked."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[tuple[bytes, int]] = []

    def add(self, marks: Iterable[tuple[bytes, int]]) -> None:
        self._marks.extend(marks)

    def are_reached_by(self, frontier: Frontier) -> bool:
        """Whether every mark is reached; always ask for the same frontier."""
        marks = self._marks
        while marks and frontier.covers(*marks[-1]):
            marks.pop()
        return not marks


class ComparedFrontier(Frontier):
    """One that is compared with those of other replicas, and asked for the streams of a publisher.

    Its digest is a sum over all marks, kept up with each change; so are those of its buckets."""

    __slots__ = ("_by_bucket", "_by_publisher", "_forked", "sums", "total")

    def __init__(self, marks: Iterable[tuple[bytes, int]] = ()) -> None:
        self.sums = [0] * BUCKETS
        self.total = 0
        self._by_bucket: list[dict[bytes, None]] = [{} for _ in range(BUCKETS)]
        self._by_publisher: dict[bytes, dict[bytes, None]] = {}
        self._forked: dict[bytes, int] = {}
        """By publisher: how many forks it has here."""
        super().__init__(marks)

    def raise_to(self, stream: bytes, catenation: int) -> bool:
        before = self._marks.get(stream)
        if not super().raise_to(stream, catenation):
            return False
        bucket = bucket_of(stream)
        change = _digest(stream, catenation)
        if before is None:
            self._by_bucket[bucket][stream] = None
            self._by_publisher.setdefault(publisher_of(stream), {})[stream] = None
            if is_fork(stream):
                publisher = publisher_of(stream)
                self._forked[publisher] = self._forked.get(publisher, 0) + 1
        else:
            change -= _digest(stream, before)
        self._change(bucket, change)
        return True

    def drop(self, stream: bytes) -> None:
        before = self._marks.pop(stream, None)
        if before is None:
            return
        bucket, publisher = bucket_of(stream), publisher_of(stream)
        self._change(bucket, -_digest(stream, before))
        del self._by_bucket[bucket][stream]
        del self._by_publisher[publisher][stream]
        if not self._by_publisher[publisher]:
            del self._by_publisher[publisher]
        if is_fork(stream):
            self._forked[publisher] -= 1
            if not self._forked[publisher]:
                del self._forked[publisher]

    def _change(self, bucket: int, by: int) -> None:
        self.sums[bucket] = (self.sums[bucket] + by) % _DIGESTS
        self.total = (self.total + by) % _DIGESTS

    def digest(self) -> bytes:
        """The same for the same marks, in whichever order they came."""
        return self.total.to_bytes(DIGEST_BYTES, "big")

    def packed_sums(self) -> bytes:
        """The digests of all buckets."""
        return _SUMS.pack(*self.sums)

    def differing(self, packed: bytes) -> list[int]:
        """The buckets whose digests are others in what `packed_sums` gave elsewhere."""
        others = _SUMS.unpack(packed)
        return [bucket for bucket, one in enumerate(self.sums) if one != others[bucket]]

    def in_bucket(self, bucket: int) -> list[tuple[bytes, int]]:
        return [(stream, self._marks[stream]) for stream in self._by_bucket[bucket]]

    def streams_of(self, publisher: bytes) -> Iterable[bytes]:
        return self._by_publisher.get(publisher, ())

    def forked_streams(self) -> list[bytes]:
        """All streams of publishers that have forks."""
        return [one for publisher in self._forked for one in self._by_publisher[publisher]]

    def is_forked(self, publisher: bytes) -> bool:
        """Whether a publisher has forks here: an event may be in another stream than elsewhere."""
        return publisher in self._forked


def _digest(stream: bytes, mark: int) -> int:
    whole = stream + mark.to_bytes(8, "big")
    return int.from_bytes(blake2b(whole, digest_size=DIGEST_BYTES).digest(), "big")


MOST_EARLY = Bounds(ahead=4096, sources=1024, bytes=32 * 1024 * 1024)
"""What waits for an earlier event of its stream; what does not fit is dropped, and asked for again."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[T]):
    """What became of some events of a stream."""

    first: int
    """The catenation number of the first new event."""
    events: Sequence[T]
    """New, and next in their stream."""
    missing: tuple[int, int] | None
    """What is needed before anything else of the stream can be taken."""


class Intake(Generic[T]):
    """Which event of a stream is next at an archive, and which is missing (section 4.3).

    Each stream's events are handed on in order, once, and without a gap. What was handed on counts as taken,
    though it may not be stored yet."""

    def __init__(
        self,
        stored: Frontier,
        on_drop: Callable[[int], None] = lambda count: None,
        size: Callable[[T], int] = len,  # type: ignore[assignment]
    ) -> None:
        """`on_drop` is called with the number of events that came early and were dropped. `size`: the bytes
        of an event."""
        self._floor = 0
        self._order: Order[bytes, T] = Order(
            lambda stream, number, event: self._released.append(event),
            bounds=MOST_EARLY,
            size=size,
            dropped=on_drop,
        )
        self._released: list[T] = []
        for stream, mark in stored:
            self._order.begin(stream, mark)

    def __len__(self) -> int:
        """How many streams are known."""
        return len(self._order)

    def last(self, stream: bytes) -> int:
        """Everything up to this number was taken."""
        return self._order.last(stream)

    def covers(self, stream: bytes, catenation: int) -> bool:
        """Whether an event was taken, or is of a stream of which nothing is taken any more."""
        return catenation <= self._order.last(stream) or begin_of(stream) < self._floor

    def forget(self, floor: int) -> None:
        """Streams that began before this time are over: nothing of them is taken."""
        self._floor = max(self._floor, floor)
        for stream in self._order.sources():
            if begin_of(stream) < floor:
                self._order.forget(stream)

    def skip_to(self, stream: bytes, base: int) -> Accepted[T]:
        """The stream's events up to this number will never come: it goes on after them, with what waited."""
        first = max(base, self.last(stream)) + 1
        if begin_of(stream) >= self._floor:
            self._order.begin(stream, base)
        released, self._released = self._released, []
        return Accepted(first, released, self._order.hole(stream))

    def accept(self, stream: bytes, base: int, first: int, events: Sequence[T]) -> Accepted[T]:
        """Take consecutive events, of which the first has the number `first`.

        `base` counts for a stream that is not known yet: it begins with the number after it."""
        if begin_of(stream) < self._floor:
            return Accepted(first, (), None)
        if not events and stream not in self._order:
            # A question alone does not make the archive remember a stream.
            return Accepted(base + 1, (), (base + 1, first - 1) if first > base + 1 else None)
        begun = self.skip_to(stream, base if stream not in self._order else 0)
        expected = self.last(stream) + 1
        taken = self._order.take_run(stream, first, events)
        missing = (expected, first - 1) if first > expected else self._order.hole(stream)
        return Accepted(begun.first, [*begun.events, *taken] if begun.events else taken, missing)


NUMBER_BYTES = 8
_KEY_BYTES = STREAM_BYTES + RUN_BYTES
_FORKED_BYTES = _KEY_BYTES + NUMBER_BYTES


def origin_of(stream: bytes, id: bytes) -> bytes:
    """The publisher and run of the event with this id."""
    return stream_of(publisher_of(stream), id[:RUN_BYTES])


class Given:
    """Events, as spans of catenation numbers by origin and stream; it only grows, but for `forget`."""

    __slots__ = ("_latest", "_origins")

    def __init__(self, position: Iterable[tuple[bytes, int]] = ()) -> None:
        """`position`: what `marks` gave."""
        self._origins: dict[bytes, dict[bytes, tuple[int, int]]] = {}
        """The one that something was added to last at the end."""
        self._latest = b""
        for key, last in position:
            stream, first = key[:STREAM_BYTES], 0
            origin = stream_of(publisher_of(stream), key[STREAM_BYTES:_KEY_BYTES])
            if len(key) == _FORKED_BYTES:
                first = int.from_bytes(key[-NUMBER_BYTES:], "big")
            self._origins.setdefault(origin, {})[stream] = (first, last)

    def covers(self, origin: bytes, catenation: int) -> bool:
        spans = self._origins.get(origin)
        if spans is None:
            return False
        if len(spans) > 1:
            return any(first <= catenation <= last for first, last in spans.values())
        for first, last in spans.values():  # one as a rule, and this is asked for every event
            return first <= catenation <= last
        return False

    def add(self, origin: bytes, stream: bytes, catenation: int) -> bool:
        """Whether this was news."""
        spans = self._origins.get(origin)
        if spans is None:
            spans = self._origins[origin] = {}
        span = spans.get(stream)
        is_next = span is not None and len(spans) == 1 and catenation > span[1]  # as a rule
        if not is_next and self.covers(origin, catenation):
            return False
        if span is None:
            spans[stream] = (catenation if goes_on(stream) else 0, catenation)
        elif catenation > span[1]:
            spans[stream] = (span[0], catenation)
        else:
            spans[stream] = (catenation, span[1])
        if self._latest != origin:
            self._origins[origin] = self._origins.pop(origin)
            self._latest = origin
        return True

    def forget(self, floor: int) -> None:
        """Streams that began before this time bring no event any more."""
        for origin, spans in list(self._origins.items()):
            for stream in [one for one in spans if begin_of(one) < floor]:
                del spans[stream]
            if not spans:
                del self._origins[origin]

    def streams(self, most: int) -> Marks:
        """The last number of each stream, as archives understand it, of those that were added to last."""
        marks: list[tuple[bytes, int]] = []
        for spans in reversed(self._origins.values()):
            if len(marks) + len(spans) > most:
                break
            marks += [(stream, last) for stream, (_, last) in spans.items()]
        return tuple(marks)

    def marks(self) -> Marks:
        """All of it, to be kept by the application; a fork has where it begins in its key."""
        return tuple(
            (_key(origin, stream, first), last)
            for origin, spans in self._origins.items()
            for stream, (first, last) in spans.items()
        )

    def __len__(self) -> int:
        return len(self._origins)


def _key(origin: bytes, stream: bytes, first: int) -> bytes:
    key = stream + origin[-RUN_BYTES:]
    return key + first.to_bytes(NUMBER_BYTES, "big") if first else key
