"""Catenation numbers at an archive (section 4.3): which event of a stream is next, which is missing.

Each stream's events are handed on in order, once, and without a gap. What comes early waits for what was lost
before it, within bounds of number and size; beyond them, what has waited for longest goes, and is asked for
again in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pubsub.archive.protocol.frontier import Frontier, begin_of

MOST_EARLY = 4096
"""Events of one stream that wait for an earlier one; more are dropped."""

MOST_WAITING = 1024
"""Streams of which anything waits; beyond, the one that waits for longest is forgotten."""

MOST_EARLY_BYTES = 32 * 1024 * 1024
"""Of all that waits; beyond, events of the streams that wait for longest are forgotten."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of some events of a stream."""

    first: int
    """The catenation number of the first new event."""
    events: Sequence[bytes]
    """New, and next in their stream."""
    missing: tuple[int, int] | None
    """What is needed before anything else of the stream can be taken."""


class Intake:
    """The streams of one topic. What it has handed on counts as taken, though it may not be stored yet."""

    def __init__(
        self, stored: Frontier, on_drop: Callable[[int], None] = lambda count: None
    ) -> None:
        """`on_drop` is called with the number of events that came early and were dropped."""
        self._on_drop = on_drop
        self.taken = Frontier(stored.marks())
        self._known: dict[bytes, None] = dict.fromkeys(stream for stream, _ in stored)
        self._early: dict[bytes, dict[int, bytes]] = {}
        """Events that came early, by stream; the stream that something was added to last is at the end."""
        self._early_bytes = 0

    def knows(self, stream: bytes) -> bool:
        return stream in self._known

    def forget(self, floor: int) -> None:
        """Streams that began before this time are over: nothing of them is taken."""
        for stream in self.taken.forget(floor):
            self._known.pop(stream, None)
        for stream in [one for one in self._early if begin_of(one) < floor]:
            self._forget_early(stream, max(self._early[stream]))

    def skip_to(self, stream: bytes, base: int) -> None:
        """The stream's events up to this number will never come: it begins after them."""
        if begin_of(stream) >= self.taken.floor:
            self._known[stream] = None
            self.taken.raise_to(stream, base)

    def accept(self, stream: bytes, base: int, first: int, events: Sequence[bytes]) -> Accepted:
        """Take consecutive events, of which the first has the number `first`.

        `base` counts for a stream that is not known yet: it begins with the number after it."""
        if begin_of(stream) < self.taken.floor:
            return Accepted(first, (), None)
        if stream not in self._known:
            if not events:  # a question alone does not make the archive remember a stream
                return Accepted(base + 1, (), (base + 1, first - 1) if first > base + 1 else None)
            self.skip_to(stream, base)
        expected = self.taken.get(stream) + 1
        last = first + len(events) - 1
        if first > expected:
            self._keep_early(stream, first, events)
            return Accepted(expected, (), (expected, first - 1))
        fresh = list(events[expected - first :])
        number = max(last, expected - 1)
        early = self._early.get(stream)
        while early and (number + 1) in early:
            number += 1
            fresh.append(self._pop(early, number))
        if early is not None:
            self._forget_early(stream, number)
        self.taken.raise_to(stream, number)
        return Accepted(expected, fresh, self._hole(stream, number))

    def _hole(self, stream: bytes, number: int) -> tuple[int, int] | None:
        early = self._early.get(stream)
        return (number + 1, min(early) - 1) if early else None

    def _keep_early(self, stream: bytes, first: int, events: Sequence[bytes]) -> None:
        if not events:
            return
        early = self._early.pop(stream, {})
        self._early[stream] = early
        dropped = 0
        for number, event in enumerate(events, first):
            if number in early:
                continue
            if len(early) >= MOST_EARLY:
                dropped += 1
                continue
            early[number] = event
            self._early_bytes += len(event)
        while len(self._early) > MOST_WAITING or self._early_bytes > MOST_EARLY_BYTES:
            dropped += self._drop_oldest()
        if dropped:
            self._on_drop(dropped)

    def _drop_oldest(self) -> int:
        """Make room: forget a stream that nothing was added to for longest; how many events that were."""
        stream = next(iter(self._early))
        early = self._early[stream]
        count = len(early)
        while early and (len(self._early) > 1 or self._early_bytes > MOST_EARLY_BYTES):
            self._pop(early, next(reversed(early)))
        if not early:
            del self._early[stream]
        return count - len(early)

    def _pop(self, early: dict[int, bytes], number: int) -> bytes:
        event = early.pop(number)
        self._early_bytes -= len(event)
        return event

    def _forget_early(self, stream: bytes, to: int) -> None:
        early = self._early[stream]
        for number in [number for number in early if number <= to]:
            self._pop(early, number)
        if not early:
            del self._early[stream]
