"""What one distributor holds of one service: the messages of every source in order, in a stream of pieces.

Messages of a source are taken in the order of their numbers, whatever order they arrive in (sender-based
FIFO, section 3.2). As each is taken it gets the next places in the stream, one for each piece that fits a
datagram; subscribers are sent the stream and acknowledge places in it, so that a subscriber costs one
number, not one for each source. Messages leave the stream at its beginning only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from pubsub.distributors.messages import Publication, StreamPiece
from pubsub.reliable.order import Bounds, Order, Verdict

PIECE_OVERHEAD = 96
"""Bytes that a held piece is charged beyond its data, so that empty ones are bounded too."""

LEFT_BEHIND = 16
"""Sources whose last number is remembered after they were forgotten, for each one of `most_sources`."""

EARLY = Bounds(ahead=8192, sources=1024, bytes=32 * 1024 * 1024)
"""What may wait for messages that are missing; more is dropped, and asked for again in time."""


class SourceState:
    """What is held of one source."""

    __slots__ = ("active_at", "began", "high", "lost", "low", "places")

    def __init__(self, now: float) -> None:
        self.began = 0
        """What is up to this number was everywhere before the source was known here."""
        self.lost = 0
        """Messages that were skipped since the last one was taken."""
        self.high = 0
        """The number of the last message taken, or skipped."""
        self.low = 1
        """From here to `high` everything is held; one more than `high` when nothing is."""
        self.places: dict[int, int] = {}
        """By number, the place of a held message's first piece."""
        self.active_at = now


class ServiceLog:
    """The stream of one service; places count from 1."""

    def __init__(
        self,
        service: str,
        stream: int,
        piece_bytes: int,
        taken: Callable[[Publication], None] = lambda publication: None,
    ) -> None:
        """`taken` is called with each message as it enters the stream."""
        self.service = service
        self.stream = stream
        self.sources: dict[bytes, SourceState] = {}
        self.left_behind: dict[bytes, int] = {}
        """By forgotten source, the number of the last message that was taken of it; the latest forgotten only
        (see `forget_sources`). Another distributor may hold such a source for longer, and tell of it: without
        these numbers it would be taken anew."""
        self.bytes = 0
        """Held, each piece charged `PIECE_OVERHEAD` beyond its data."""
        self.first = 1
        """The earliest place that is still held."""
        self._piece_bytes = piece_bytes
        self._taken = taken
        self._order: Order[bytes, Publication] = Order(
            self._take,
            gap=self._skipped,
            bounds=EARLY,
            size=lambda publication: len(publication.data),
        )
        self._pieces: list[StreamPiece] = []
        self.busy = 0
        """Sources of which anything is held."""
        self._start = 0
        """Where in the list the piece at `first` is; what is before it has been let go."""

    @property
    def last(self) -> int:
        """The newest place; one less than `first` when nothing is held."""
        return self.first + len(self._pieces) - self._start - 1

    def at(self, place: int) -> StreamPiece:
        return self._pieces[self._start + place - self.first]

    # Taking messages.

    def add(self, publication: Publication, now: float) -> bool:
        """Take a message, and those that waited for it; False if it is here already, or far too early."""
        state = self.source(publication.source, now)
        verdict = self._order.take(publication.source, publication.sequence, publication)
        if verdict is Verdict.OLD or verdict is Verdict.REFUSED:
            return False
        state.active_at = now
        return True

    def source(self, source: bytes, now: float) -> SourceState:
        state = self.sources.get(source)
        return state if state is not None else self._begin(source, 0, now)

    def skip(self, source: bytes, before: int, now: float) -> None:
        """Give up what is missing of a source up to the number `before`, which nobody has any more."""
        self.source(source, now)
        self._order.skip_to(source, before)

    def begin(self, source: bytes, after: int, now: float) -> None:
        """Know a source from this number on; no effect on one that is known. One that was forgotten goes on
        where it was."""
        if source not in self.sources:
            self._begin(source, after, now)

    def _begin(self, source: bytes, after: int, now: float) -> SourceState:
        after = max(after, self.left_behind.pop(source, 0))
        state = self.sources[source] = SourceState(now)
        state.began = state.high = after
        state.low = after + 1
        self._order.begin(source, after)
        return state

    def _take(self, source: bytes, number: int, publication: Publication) -> None:
        state = self.sources[source]
        if not state.places:
            self.busy += 1
        lost, state.lost = state.lost, 0
        state.high = number
        state.places[number] = self.last + 1
        self._append(publication, lost)
        self._taken(publication)

    def _skipped(self, source: bytes, first: int, last: int) -> None:
        state = self.sources[source]
        state.high = last
        state.low = last + 1
        state.lost += last - first + 1

    def _append(self, publication: Publication, lost: int) -> None:
        data, size = publication.data, self._piece_bytes
        count = max(1, -(-len(data) // size))
        for number in range(count):
            part = data if count == 1 else data[number * size : (number + 1) * size]
            piece = StreamPiece(publication.source, publication.sequence, lost, number, count, part)
            self._pieces.append(piece)
            self.bytes += len(part) + PIECE_OVERHEAD

    # Reading.

    def message(self, source: bytes, sequence: int) -> Publication | None:
        """A message that is held, or waits for its turn."""
        state = self.sources.get(source)
        if state is None:
            return None
        place = state.places.get(sequence)
        if place is None:
            return self._order.early(source, sequence)
        begin = self._start + place - self.first
        count = self._pieces[begin].count
        data = b"".join(piece.data for piece in self._pieces[begin : begin + count])
        return Publication(self.service, source, sequence, data)

    def numbers_before(self, place: int) -> dict[bytes, int]:
        """By source, the highest number whose pieces are all before a place, or gone."""
        numbers = {source: state.high for source, state in self.sources.items()}
        seen: dict[bytes, None] = {}
        for piece in islice(self._pieces, self._start + max(place - self.first, 0), None):
            if piece.source not in seen:
                seen[piece.source] = None
                numbers[piece.source] = piece.sequence - 1
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
        while self.bytes > keep_bytes and self._start < len(self._pieces):
            piece = self._pieces[self._start]
            if self.first + piece.count > before or not may_go(piece.source, piece.sequence):
                break
            self._let_go(piece)
        self._tidy()

    def trim_sources(self, may_go: Callable[[bytes, int], bool], before: int, most: int) -> None:
        """Let go of messages as `trim` does, until no more than `most` sources have any."""
        while self.busy > most and self._start < len(self._pieces):
            piece = self._pieces[self._start]
            if self.first + piece.count > before or not may_go(piece.source, piece.sequence):
                break
            self._let_go(piece)
        self._tidy()

    def _tidy(self) -> None:
        if self._start > 64 and 2 * self._start > len(self._pieces):
            del self._pieces[: self._start]
            self._start = 0

    def _let_go(self, piece: StreamPiece) -> None:
        state = self.sources[piece.source]
        for place in range(self._start, self._start + piece.count):
            self.bytes -= len(self._pieces[place].data) + PIECE_OVERHEAD
        self._start += piece.count
        self.first += piece.count
        del state.places[piece.sequence]
        state.low = max(state.low, piece.sequence + 1)
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
