"""Which events of each source a process has had, and how messages name events: by ranges of numbers.

Events of a source are numbered one after another, so what a process has had of it is a few ranges, however
many events it is (reception: CAMCAST, figure 7, takes an event the first time it is heard of).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pubsub.event import LAST_NUMBER, SOURCE_BYTES
from pubsub.reliable.numbers import Numbers

MOST_NUMBERS = 65_536
"""Events that one message may name."""

MOST_RANGES = 256
"""Ranges in which one message may name them."""

MOST_GAPS = 1024
"""Gaps that are remembered of one source. With one more, the numbers of the lowest gap count as heard: an
event that comes after this many newer gaps is taken for a duplicate."""


MOST_LOSSES = 1024
"""Sources of which it is remembered which events were lost."""


class _Heard(Numbers):
    __slots__ = ("until",)

    def __init__(self) -> None:
        super().__init__(most=None)
        self.until = 0.0


class HeardEvents:
    """The events that one community has brought to this process, for a bounded time and memory.

    A source is remembered for `lifetime` seconds after its latest event, as long as no more than `capacity`
    ranges are remembered of all sources; then the source that was silent for longest is forgotten. After
    that a late copy is taken for a new event: it is delivered, and gossiped, a second time.
    """

    __slots__ = ("_capacity", "_lifetime", "_ranges", "_sources")

    def __init__(self, lifetime: float, capacity: int) -> None:
        self._lifetime = lifetime
        self._capacity = capacity
        self._sources: dict[bytes, _Heard] = {}
        """In the order of their latest event."""
        self._ranges = 0

    def __len__(self) -> int:
        """How many ranges are remembered."""
        return self._ranges

    @property
    def sources(self) -> int:
        """How many sources are remembered."""
        return len(self._sources)

    def missing(self, source: bytes, first: int, count: int) -> Sequence[range]:
        """Which of these events have not been heard of."""
        heard = self._sources.get(source)
        if heard is None or (first > heard.mark and not heard._firsts):
            return (range(first, first + count),)
        return heard.missing(first, first + count)

    def has(self, source: bytes, number: int) -> bool:
        return not self.missing(source, number, 1)

    def add(self, source: bytes, first: int, count: int, now: float) -> None:
        """Remember these events."""
        heard = self._sources.pop(source, None)
        if heard is None:
            heard = _Heard()
        self._sources[source] = heard  # last again: the order is that of the latest news
        heard.until = now + self._lifetime
        if 1 < first == heard.mark + 1 and not heard._firsts:  # mostly: the next ones
            heard.mark += count
            return
        before = heard.range_count
        heard.add_span(first, first + count - 1)
        if before >= MOST_GAPS:
            heard.give_up_holes(MOST_GAPS)
        self._ranges += heard.range_count - before
        if before == 0 or self._ranges > self._capacity:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Let go of what is too old or too much; two sources at most, so that no event costs much."""
        for _ in range(2):
            source, heard = next(iter(self._sources.items()))
            if len(self._sources) == 1 or (heard.until > now and self._ranges <= self._capacity):
                break
            del self._sources[source]
            self._ranges -= heard.range_count

    def resize(self, lifetime: float, capacity: int) -> None:
        """Hold new events to new bounds; what is remembered keeps its own expiry."""
        self._lifetime = lifetime
        self._capacity = capacity
        while self._ranges > capacity and len(self._sources) > 1:
            self._ranges -= self._sources.pop(next(iter(self._sources))).range_count


class LostEvents:
    """Which events were given up, of the sources of which something was lost last."""

    __slots__ = ("sources",)

    def __init__(self) -> None:
        self.sources: dict[bytes, Numbers] = {}
        """Empty when nothing was given up; asked for every block."""

    def add(self, source: bytes, numbers: Sequence[range]) -> list[range]:
        """Remember that these events are lost; those of which it was not known."""
        known = self.sources.pop(source, None) or Numbers(most=None)
        # Last again: the source of which nothing was lost for longest goes first.
        self.sources[source] = known
        if len(self.sources) > MOST_LOSSES:
            del self.sources[next(iter(self.sources))]
        new: list[range] = []
        for stretch in numbers:
            new += known.missing(stretch.start, stretch.stop)
            known.add_span(stretch.start, stretch.stop - 1)
        known.give_up_holes(MOST_GAPS)
        return new

    def count(self, source: bytes, numbers: Sequence[range]) -> int:
        """How many of these events were given up."""
        lost = self.sources.get(source)
        if lost is None:
            return 0
        missing = [m for one in numbers for m in lost.missing(one.start, one.stop)]
        return sum(map(len, numbers)) - sum(map(len, missing))


# Numbers in messages: first number, how many, first number, how many.


class Ranges:
    """Ranges that numbers are added to, cut so that one message can carry each part."""

    __slots__ = ("_count", "_next", "_parts")

    def __init__(self, numbers: Iterable[range] = ()) -> None:
        self._parts: list[list[int]] = []
        self._next = -1
        self._count = MOST_NUMBERS
        for stretch in numbers:
            self.add(stretch)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, numbers: range) -> None:
        """Add numbers that follow each other."""
        first, stop = numbers.start, numbers.stop
        while first < stop:
            if self._count >= MOST_NUMBERS or len(self._parts[-1]) >= 2 * MOST_RANGES:
                self._parts.append([])
                self._count, self._next = 0, -1
            many = min(stop - first, MOST_NUMBERS - self._count)
            if first == self._next:
                self._parts[-1][-1] += many
            else:
                self._parts[-1] += (first, many)
            first += many
            self._count += many
            self._next = first

    def parts(self) -> list[tuple[int, ...]]:
        return [tuple(part) for part in self._parts]


def read_ranges(source: bytes, ranges: Sequence[int]) -> list[range] | None:
    """What a peer named; None when it is not of this form, or is more than one message may name."""
    if len(source) != SOURCE_BYTES or len(ranges) % 2 or len(ranges) > 2 * MOST_RANGES:
        return None
    result, count = [], 0
    for first, many in zip(ranges[::2], ranges[1::2], strict=True):
        count += many
        if first < 1 or many < 1 or first + many - 1 > LAST_NUMBER or count > MOST_NUMBERS:
            return None
        result.append(range(first, first + many))
    return result
