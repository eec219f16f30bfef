"""What a subscriber gets: the pieces of a stream put together, and each source's messages in order.

A message is delivered if it follows the one before it. If numbers are missing in between, then with gaps
they are reported at once; without gaps they are asked of the distributor, message after message, and what
follows waits; only what the distributor does not find anywhere is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlay.context import Context, Timer
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import Deliveries, Piece, Recalled, Want
from pubsub.reliable.order import UNBOUNDED, Order, Verdict
from pubsub.reliable.runs import Gap, Reason


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a service."""

    service: str
    source: bytes
    """Which run of which publisher."""
    sequence: int
    data: bytes


Take = Callable[[bytes, int, bytes, int], None]
"""Called with a source, a number, the data and `Piece.lost` of each message, in the order of the stream."""


class Reception:
    """The stream of one distributor, from a place on."""

    def __init__(self, take: Take) -> None:
        self.expected = 1
        """The place of the next piece."""
        self.ahead: dict[int, Piece] = {}
        """Pieces that have overtaken it."""
        self._take = take
        self._parts: list[bytes] = []

    def begin(self, place: int) -> None:
        """Begin anew at a place, where a message begins."""
        self.expected = place
        self.ahead.clear()
        self._parts.clear()

    def receive(self, deliveries: Deliveries, room: int) -> None:
        """Take consecutive pieces, at most `room` places beyond the next one."""
        place, furthest = deliveries.first, self.expected + room
        for piece in deliveries.pieces:
            if place == self.expected:
                self._advance(piece)
            elif self.expected < place < furthest:
                self.ahead[place] = piece
            place += 1
        while self.ahead and (next_piece := self.ahead.pop(self.expected, None)) is not None:
            self._advance(next_piece)

    def missing(self, most: int) -> tuple[int, ...]:
        """The first places that were overtaken."""
        if not self.ahead:
            return ()
        places: list[int] = []
        for place in range(self.expected, max(self.ahead)):
            if place not in self.ahead:
                places.append(place)
                if len(places) == most:
                    break
        return tuple(places)

    def _advance(self, piece: Piece) -> None:
        self.expected += 1
        if piece.count == 1:
            self._take(piece.source, piece.sequence, piece.data, piece.lost)
            return
        self._parts.append(piece.data)
        if piece.number == piece.count - 1:
            data = b"".join(self._parts)
            self._parts.clear()
            self._take(piece.source, piece.sequence, data, piece.lost)


MOST_TOLD = 1024
"""Sources that a new distributor is told of, about 40 KB. What it sends of the others may be here already,
and is dropped."""

MOST_SOURCES = 65_536
"""Sources that a subscription remembers, about 14 MB. One that was silent while so many others published is
forgotten: should it publish again just when the distributor changes, messages may come twice or be told as a
gap."""


class SourceOrder:
    """All sources of one service; `ask` sends a `Want` to the distributor, which may be lost.

    What waits is bounded by the room that the subscriber tells its distributor."""

    def __init__(
        self,
        context: Context,
        config: ClientConfig,
        service: str,
        no_gap: bool,
        deliver: Callable[[Delivery], None],
        report: Callable[[Gap], None],
        ask: Callable[[Want], None],
    ) -> None:
        self._context = context
        self._retry = config.retry
        self._service = service
        self._no_gap = no_gap
        self._deliver = deliver
        self._report = report
        self._ask = ask
        self._order: Order[bytes, bytes] = Order(self._emit, gap=self._lost, bounds=UNBOUNDED)
        self._wanted: dict[bytes, int] = {}
        """By source of which messages are asked for, the highest number that the stream will not bring."""
        self._parts: dict[bytes, dict[int, bytes]] = {}
        """Pieces of a large message that was asked for."""
        self._reason: Reason = "forgotten"
        self._timer: Timer | None = None

    @property
    def have(self) -> dict[bytes, int]:
        """By source, the highest number that was delivered or reported; of many, those heard last."""
        return self._order.recent(MOST_TOLD)

    @property
    def waiting(self) -> int:
        """Messages that wait for those before them."""
        return self._order.waiting

    def begin(self, numbers: Mapping[bytes, int]) -> None:
        """What comes up to these numbers was before the subscription."""
        for source, number in numbers.items():
            self._order.begin(source, number)

    def take(self, source: bytes, number: int, data: bytes, lost: int) -> None:
        """A message from the stream, which has each source's messages in order; this many just before it are
        lost to the distributor."""
        if source not in self._order:
            self._order.begin(source, number - 1 - lost)
        if self._order.take(source, number, data) is Verdict.EARLY:
            self._reason = "lost" if lost else "forgotten"
            self._lacking(source, number - 1)
            self._reason = "forgotten"

    def continue_after(self, numbers: Mapping[bytes, int]) -> None:
        """Another stream begins after these numbers: whatever lies before them does not come in it."""
        for source, number in numbers.items():
            if number > self._order.last(source):
                self._lacking(source, number)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _emit(self, source: bytes, number: int, data: bytes) -> None:
        if len(self._order) > MOST_TOLD:
            self._order.touch(source)
            if len(self._order) > MOST_SOURCES:
                self._order.forget(self._order.silent())
        self._deliver(Delivery(self._service, source, number, data))

    def _lost(self, source: bytes, first: int, last: int) -> None:
        self._report(Gap.of(source, first, last, self._reason))

    def _lacking(self, source: bytes, last: int) -> None:
        """Report what is missing up to a number, or begin to ask for it."""
        if not self._no_gap:
            self._order.skip_to(source, last)
        elif source in self._wanted:
            self._wanted[source] = max(self._wanted[source], last)
        else:
            self._wanted[source] = last
            self._ask_for(source)

    # Asking for what is missing.

    def _last_missing(self, source: bytes) -> int:
        """The highest number that is missing before the first that waits."""
        hole = self._order.hole(source)
        return self._wanted[source] if hole is None else hole.last

    def _ask_for(self, source: bytes) -> None:
        first = self._order.last(source) + 1
        self._ask(Want(self._service, source, first, self._last_missing(source)))
        if self._timer is None:
            self._timer = self._context.call_later(self._retry, self._again)

    def _again(self) -> None:
        self._timer = None
        for source in list(self._wanted):
            self._ask_for(source)

    def receive_recalled(self, answer: Recalled) -> None:
        source = answer.source
        if source not in self._wanted or answer.first != self._order.last(source) + 1:
            return
        if not answer.pieces:
            if answer.next > answer.first:
                self._order.skip_to(source, min(answer.next - 1, self._last_missing(source)))
        elif answer.pieces[0].count > 1:
            self._take_part(answer)
        else:
            for piece in answer.pieces:
                self._found(source, piece.sequence, piece.data)
        self._go_on(source)

    def _take_part(self, answer: Recalled) -> None:
        piece = answer.pieces[0]
        parts = self._parts.setdefault(answer.source, {})
        parts[piece.number] = piece.data
        if len(parts) == piece.count:
            del self._parts[answer.source]
            self._found(
                answer.source, piece.sequence, b"".join(map(parts.__getitem__, sorted(parts)))
            )

    def _found(self, source: bytes, number: int, data: bytes) -> None:
        if number == self._order.last(source) + 1 <= self._last_missing(source):
            self._order.take(source, number, data)

    def _go_on(self, source: bytes) -> None:
        """Ask for what is still missing before what waits."""
        if self._order.last(source) >= self._last_missing(source):
            del self._wanted[source]
        elif source not in self._parts:
            self._ask_for(source)
