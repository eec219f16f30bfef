"""What one distributor holds of one service: the messages of every source in order, in a stream of pieces.

Messages of a source are taken in the order of their numbers, whatever order they arrive in (sender-based
FIFO, section 3.2). What comes in a block enters the stream as a block, in pieces that fit a datagram, each
at the next place; subscribers are sent the stream and acknowledge places in it, so that a subscriber costs
one number, not one for each source. Messages leave the stream at its beginning only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pubsub.distributors.messages import ServiceBlock, StreamPiece, pieces_of
from pubsub.reliable.batches import batches
from pubsub.reliable.order import Bounds, Order, Verdict

OVERHEAD = 96
"""Bytes that a held message, or a piece of a large one, is charged beyond its data, so that empty ones are
bounded too."""

LEFT_BEHIND = 16
"""Sources whose last number is remembered after they were forgotten, for each one of `most_sources`."""

EARLY = Bounds(ahead=8192, sources=1024, bytes=32 * 1024 * 1024)
"""What may wait for messages that are missing; more is dropped, and asked for again in time."""


@dataclass(slots=True)
class SourceState:
    """What is held of one source."""

    active_at: float
    began: int = 0
    """What is up to this number was everywhere before the source was known here."""
    lost: int = 0
    """Messages that were skipped since the last one was taken."""
    high: int = 0
    """The number of the last message taken, or skipped."""
    low: int = 1
    """From here to `high` everything is held; one more than `high` when nothing is."""
    places: dict[int, int] = field(default_factory=dict)
    """By number, the place of the piece that a held message is in, or begins in."""


class ServiceLog:
    """The stream of one service; places count from 1."""

    def __init__(
        self,
        service: str,
        stream: int,
        piece_bytes: int,
        taken: Callable[[ServiceBlock], None] = lambda block: None,
    ) -> None:
        """`piece_bytes`: what a piece may have as it travels. `taken` is called with the messages that enter
        the stream together."""
        self.service = service
        self.stream = stream
        self.sources: dict[bytes, SourceState] = {}
        self.left_behind: dict[bytes, int] = {}
        """By forgotten source, the number of the last message that was taken of it; the latest forgotten only
        (see `forget_sources`). Another distributor may hold such a source for longer, and tell of it: without
        these numbers it would be taken anew."""
        self.bytes = 0
        """Held, each message or piece of a large one charged `OVERHEAD` beyond its data."""
        self.first = 1
        """The earliest place that is still held."""
        self._piece_bytes = piece_bytes
        self._taken = taken
        self._order: Order[bytes, bytes] = Order(
            self._take, gap=self._skipped, bounds=EARLY, size=len
        )
        self._taking: list[bytes] = []
        """Messages of one source up to its `high` that are to enter the stream as one block."""
        self._pieces: list[StreamPiece] = []
        self._counts: list[int] = []
        """How many messages, or pieces of large ones, have ever been in the stream with the piece and before
        it."""
        self.busy = 0
        """Sources of which anything is held."""
        self._start = 0
        """Where in the list the piece at `first` is; what is before it has been let go."""
        self._counts_before = 0
        """The count of the last piece that was let go."""

    @property
    def last(self) -> int:
        """The newest place; one less than `first` when nothing is held."""
        return self.first + len(self._pieces) - self._start - 1

    def at(self, place: int) -> StreamPiece:
        return self._pieces[self._start + place - self.first]

    def count(self, place: int) -> int:
        """How many messages, or pieces of large ones, there were ever up to a place; for one that is gone, up
        to the last that is."""
        index = min(self._start + place - self.first, len(self._counts) - 1)
        return self._counts[index] if index >= self._start else self._counts_before

    # Taking messages.

    def add(self, block: ServiceBlock, now: float) -> bool:
        """Take a block, and what waited for it; False if all of it is here already, or far too early."""
        state = self.source(block.source, now)
        is_new = False
        for number, payload in enumerate(block.payloads, block.first):
            verdict = self._order.take(block.source, number, payload)
            is_new = is_new or verdict is Verdict.TAKEN or verdict is Verdict.EARLY
        self._close_block(block.source)
        if is_new:
            state.active_at = now
        return is_new

    def source(self, source: bytes, now: float) -> SourceState:
        state = self.sources.get(source)
        return state if state is not None else self._begin(source, 0, now)

    def skip(self, source: bytes, before: int, now: float) -> None:
        """Give up what is missing of a source up to the number `before`, which nobody has any more."""
        self.source(source, now)
        self._order.skip_to(source, before)
        self._close_block(source)

    def begin(self, source: bytes, after: int, now: float) -> None:
        """Know a source from this number on; no effect on one that is known. One that was forgotten goes on
        where it was."""
        if source not in self.sources:
            self._begin(source, after, now)

    def _begin(self, source: bytes, after: int, now: float) -> SourceState:
        after = max(after, self.left_behind.pop(source, 0))
        state = SourceState(now, began=after, high=after, low=after + 1)
        self.sources[source] = state
        self._order.begin(source, after)
        return state

    def _take(self, source: bytes, number: int, payload: bytes) -> None:
        self._taking.append(payload)
        self.sources[source].high = number

    def _skipped(self, source: bytes, first: int, last: int) -> None:
        self._close_block(source)
        state = self.sources[source]
        state.high = last
        state.low = last + 1
        state.lost += last - first + 1

    def _close_block(self, source: bytes) -> None:
        """Put what was taken into the stream, as one block."""
        payloads, self._taking = self._taking, []
        if not payloads:
            return
        state = self.sources[source]
        if not state.places:
            self.busy += 1
        lost, state.lost = state.lost, 0
        first = state.high - len(payloads) + 1
        for piece in pieces_of(source, first, payloads, self._piece_bytes, lost):
            if piece.number == 0:
                state.places.update(
                    dict.fromkeys(range(piece.first, piece.last + 1), self.last + 1)
                )
            self._pieces.append(piece)
            self._counts.append(self.count(self.last) + len(piece.payloads))
            self.bytes += _held_bytes(piece)
        self._taken(ServiceBlock(self.service, source, first, tuple(payloads)))

    # Reading.

    def block(self, source: bytes, first: int, last: int, most_bytes: int) -> ServiceBlock | None:
        """The messages of a source from `first` on, to `last` or the first that is not here, that are held or
        wait for their turn; at most `most_bytes` unless one alone is larger. None if `first` is not here."""
        found = next(batches(self._payloads(source, first, last), len, most_bytes), None)
        return None if found is None else ServiceBlock(self.service, source, first, tuple(found))

    def _payloads(self, source: bytes, first: int, last: int) -> Iterator[bytes]:
        for number in range(first, last + 1):
            payload = self._payload(source, number)
            if payload is None:
                return
            yield payload

    def _payload(self, source: bytes, number: int) -> bytes | None:
        state = self.sources.get(source)
        place = None if state is None else state.places.get(number)
        if place is None:
            return self._order.early(source, number)
        begin = self._start + place - self.first
        piece = self._pieces[begin]
        if piece.count == 1:
            return piece.payloads[number - piece.first]
        return b"".join(one.payloads[0] for one in self._pieces[begin : begin + piece.count])

    def numbers_before(self, place: int) -> dict[bytes, int]:
        """By source, the highest number whose pieces are all before a place, or gone."""
        numbers = {source: state.high for source, state in self.sources.items()}
        seen: dict[bytes, None] = {}
        for piece in islice(self._pieces, self._start + max(place - self.first, 0), None):
            if piece.source not in seen:
                seen[piece.source] = None
                numbers[piece.source] = piece.first - 1
        return numbers

    def place_after(self, have: Mapping[bytes, int]) -> int:
        """The place from which on a subscriber that has these numbers is to be sent the stream."""
        places = [self.last + 1]
        for source, state in self.sources.items():
            number = have.get(source, 0)
            if number < state.high and state.places:
                following = number + 1
                if following not in state.places:
                    following = next((held for held in state.places if held > number), 0)
                places.append(state.places.get(following, self.last + 1))
        return min(places)

    # Letting go.

    def trim(self, may_go: Callable[[bytes, int], bool], before: int, keep_bytes: int) -> None:
        """Let go of the oldest messages that lie before a place, as far as `may_go(source, number)` says so
        and more than `keep_bytes` are held."""
        self._trim(may_go, before, lambda: self.bytes > keep_bytes)

    def trim_sources(self, may_go: Callable[[bytes, int], bool], before: int, most: int) -> None:
        """Let go of messages as `trim` does, until no more than `most` sources have any."""
        self._trim(may_go, before, lambda: self.busy > most)

    def _trim(
        self, may_go: Callable[[bytes, int], bool], before: int, is_too_much: Callable[[], bool]
    ) -> None:
        while self._start < len(self._pieces) and is_too_much():
            piece = self._pieces[self._start]
            if self.first + piece.count > before or not may_go(piece.source, piece.last):
                break
            self._let_go(piece)
        if self._start > 64 and 2 * self._start > len(self._pieces):
            del self._pieces[: self._start]
            del self._counts[: self._start]
            self._start = 0

    def _let_go(self, piece: StreamPiece) -> None:
        state = self.sources[piece.source]
        for place in range(self._start, self._start + piece.count):
            self.bytes -= _held_bytes(self._pieces[place])
        self._counts_before = self._counts[self._start + piece.count - 1]
        self._start += piece.count
        self.first += piece.count
        for number in range(piece.first, piece.last + 1):
            del state.places[number]
        state.low = max(state.low, piece.last + 1)
        if not state.places:
            self.busy -= 1

    def forget_sources(self, most: int) -> list[bytes]:
        """Where there are more than `most` sources, forget those of which nothing is held, the one silent
        longest first.

        Of the latest `LEFT_BEHIND` x `most` that were forgotten the last numbers are remembered."""
        surplus = len(self.sources) - most
        if surplus <= 0:
            return []
        idle = [
            (source, state)
            for source, state in self.sources.items()
            if not state.places and self._order.hole(source) is None
        ]
        idle.sort(key=lambda item: item[1].active_at)
        gone = [source for source, _ in idle[:surplus]]
        for source in gone:
            self.left_behind[source] = self.sources.pop(source).high
            self._order.forget(source)
        too_many = max(len(self.left_behind) - LEFT_BEHIND * most, 0)
        for source in list(islice(self.left_behind, too_many)):
            del self.left_behind[source]
        return gone


def _held_bytes(piece: StreamPiece) -> int:
    return sum(map(len, piece.payloads)) + OVERHEAD * len(piece.payloads)
