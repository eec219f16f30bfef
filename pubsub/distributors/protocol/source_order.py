"""The order of each source's messages at a subscriber, and what is missing of them (section 3.2).

A message is delivered if it follows the one before it. If numbers are missing in between, then with gaps
they are reported at once; without gaps they are asked of the distributor, message after message, and what
follows waits; only what the distributor does not find anywhere is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from overlay.context import Context, Timer
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import Recalled, Want
from pubsub.distributors.protocol.delivery import Delivery, Gap


class _Recalling:
    """Messages of a source that are asked for, and those that wait for them."""

    __slots__ = ("goal", "last", "parts", "waiting")

    def __init__(self, last: int) -> None:
        self.last = last
        """The highest number that is missing before the first that waits."""
        self.goal = last
        """The highest number that the stream will not bring."""
        self.parts: dict[int, bytes] = {}
        """Pieces of a large message."""
        self.waiting: dict[int, bytes] = {}


class SourceOrder:
    """All sources of one service; `ask` sends a `Want` to the distributor, which may be lost."""

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
        self.have: dict[bytes, int] = {}
        self._context = context
        self._retry = config.retry
        self._service = service
        self._no_gap = no_gap
        self._deliver = deliver
        self._report = report
        self._ask = ask
        self._recalling: dict[bytes, _Recalling] = {}
        self._timer: Timer | None = None

    @property
    def waiting(self) -> int:
        """Messages that wait for those before them."""
        return sum(len(one.waiting) for one in self._recalling.values())

    def take(self, source: bytes, number: int, data: bytes) -> None:
        """A message from the stream, which has each source's messages in order."""
        before = self.have.get(source, 0)
        if number == before + 1 and source not in self._recalling:
            self.have[source] = number
            self._deliver(Delivery(self._service, source, number, data))
        elif number > before:
            self._lacking(source, number - 1)
            recalling = self._recalling.get(source)
            if recalling is None:
                self.have[source] = number
                self._deliver(Delivery(self._service, source, number, data))
            else:
                recalling.waiting[number] = data

    def continue_after(self, numbers: Mapping[bytes, int]) -> None:
        """Another stream begins after these numbers: whatever lies before them does not come in it."""
        for source, number in numbers.items():
            if number > self.have.get(source, 0):
                self._lacking(source, number)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _lacking(self, source: bytes, last: int) -> None:
        """Report what is missing up to a number, or begin to ask for it."""
        if source in self._recalling:
            recalling = self._recalling[source]
            recalling.goal = max(recalling.goal, last)
        elif self.have.get(source, 0) >= last:
            return
        elif self._no_gap:
            self._recalling[source] = _Recalling(last)
            self._ask_for(source)
        else:
            self._lost(source, last)

    def _lost(self, source: bytes, last: int) -> None:
        first = self.have.get(source, 0) + 1
        self.have[source] = last
        self._report(Gap(self._service, source, first, last))

    # Asking for what is missing.

    def _ask_for(self, source: bytes) -> None:
        first, last = self.have.get(source, 0) + 1, self._recalling[source].last
        self._ask(Want(self._service, source, first, last))
        if self._timer is None:
            self._timer = self._context.call_later(self._retry, self._again)

    def _again(self) -> None:
        self._timer = None
        for source in list(self._recalling):
            self._ask_for(source)

    def receive_recalled(self, answer: Recalled) -> None:
        recalling = self._recalling.get(answer.source)
        following = self.have.get(answer.source, 0) + 1
        if recalling is None or answer.first != following:
            return
        if not answer.pieces:
            if answer.next > following:
                self._lost(answer.source, min(answer.next - 1, recalling.last))
        elif answer.pieces[0].count > 1:
            self._take_part(answer, recalling)
        else:
            for piece in answer.pieces:
                self._found(answer.source, piece.sequence, piece.data, recalling)
        self._go_on(answer.source, recalling)

    def _take_part(self, answer: Recalled, recalling: _Recalling) -> None:
        piece = answer.pieces[0]
        recalling.parts[piece.number] = piece.data
        if len(recalling.parts) == piece.count:
            data = b"".join(recalling.parts[number] for number in range(piece.count))
            recalling.parts.clear()
            self._found(answer.source, piece.sequence, data, recalling)

    def _found(self, source: bytes, number: int, data: bytes, recalling: _Recalling) -> None:
        if number == self.have.get(source, 0) + 1 and number <= recalling.last:
            self.have[source] = number
            self._deliver(Delivery(self._service, source, number, data))

    def _go_on(self, source: bytes, recalling: _Recalling) -> None:
        """Deliver what waited, and ask for what is still missing before the rest."""
        have = self.have.get(source, 0)
        if have < recalling.last:
            if not recalling.parts:
                self._ask_for(source)
            return
        waiting = recalling.waiting
        while (data := waiting.pop(have + 1, None)) is not None:
            have = self.have[source] = have + 1
            self._deliver(Delivery(self._service, source, have, data))
        for number in [number for number in waiting if number <= have]:
            del waiting[number]
        recalling.last = min(waiting, default=recalling.goal + 1) - 1
        if have < recalling.last:
            self._ask_for(source)
        else:
            del self._recalling[source]
