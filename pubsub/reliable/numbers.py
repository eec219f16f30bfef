"""A set of numbers of one source: what was taken, delivered, acknowledged or is missing.

A source counts its events from 1, so nearly all of them are one run from 1 on. The set is a *mark* (every
number up to it is in the set) and, above the mark, *spans* that neither overlap nor touch, in order. Adding
the number that follows the highest one costs one addition. Memory depends on the holes between the spans and
never on how large the numbers are or how many of them there are.

A peer can make holes. Therefore a set has at most `most` spans above its mark: a number that would begin one
more is refused, and a set that is refused a number goes on to take all that touches its spans. `most=None`
is for sets that only this process's own data fill.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MOST_SPANS = 1 << 16
"""Spans above the mark, if nothing else is said: about 6 MB."""


class Span(NamedTuple):
    """All numbers from `first` to `last`, both included."""

    first: int
    last: int


class Numbers:
    """Some of the numbers 1, 2, 3...; numbers below 1 are never in the set."""

    __slots__ = ("_firsts", "_lasts", "_most", "mark")

    def __init__(
        self, mark: int = 0, spans: Iterable[tuple[int, int]] = (), *, most: int | None = MOST_SPANS
    ) -> None:
        """All numbers up to `mark`, and those of the spans; above the mark, at most `most` spans."""
        self.mark = max(mark, 0)
        """Every number from 1 to this one is in the set, and the next one is not."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._most = most
        for first, last in spans:
            self.add_span(first, last)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Numbers:
        """The set of these numbers, with as many spans as they need."""
        result = cls(most=None)
        for number in numbers:
            result.add(number)
        return result

    # Adding.

    def add(self, number: int) -> bool:
        """Add a number; False if it was there, or would begin one span too many."""
        lasts = self._lasts
        if not lasts:
            if number == self.mark + 1:
                self.mark = number
                return True
        elif number == lasts[-1] + 1:
            lasts[-1] = number
            return True
        return self.add_span(number, number)

    def add_span(self, first: int, last: int) -> bool:
        """Add all from `first` to `last`; False if all were there, or they would begin one span too many."""
        mark, firsts, lasts = self.mark, self._firsts, self._lasts
        if first <= mark:
            first = mark + 1
        if last < first:
            return False
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        if low < high:  # the spans from `low` to before `high` overlap the new one, or touch it
            if firsts[low] <= first and last <= lasts[low]:
                return False
            first = min(first, firsts[low])
            last = max(last, lasts[high - 1])
        if first == mark + 1:
            self.mark = last
            del firsts[:high], lasts[:high]
        elif low == high and self._most is not None and len(firsts) >= self._most:
            return False
        else:
            firsts[low:high] = [first]
            lasts[low:high] = [last]
        return True

    def update(self, mark: int, spans: Iterable[tuple[int, int]]) -> bool:
        """Add all up to a mark, and some spans; whether anything was new."""
        grew = self.add_span(1, mark)
        for first, last in spans:
            grew = self.add_span(first, last) or grew
        return grew

    # Taking away.

    def remove(self, first: int, last: int | None = None) -> None:
        """Remove all numbers from `first` to `last`, or `first` alone.

        A span may become two, also beyond `most`: only this process removes numbers, never a peer."""
        first, last = max(first, 1), first if last is None else last
        if last < first:
            return
        mark, firsts, lasts = self.mark, self._firsts, self._lasts
        start, stop = bisect_left(lasts, first), bisect_right(firsts, last)
        if start < stop:
            rest = [(firsts[start], first - 1), (last + 1, lasts[stop - 1])]
            rest = [span for span in rest if span[0] <= span[1]]
            firsts[start:stop] = [span[0] for span in rest]
            lasts[start:stop] = [span[1] for span in rest]
        if first <= mark:
            self.mark = first - 1
            if last < mark:
                firsts.insert(0, last + 1)
                lasts.insert(0, mark)

    def give_up_holes(self, most: int) -> None:
        """While there are more than `most` spans above the mark, add what is missing below the lowest one.

        So a set that must always take the newest number gives up the oldest that it lacks."""
        while len(self._firsts) > most:
            self.mark = self._lasts[0]
            del self._firsts[0], self._lasts[0]

    # Looking.

    def __contains__(self, number: int) -> bool:
        if number <= self.mark:
            return number > 0
        place = bisect_left(self._lasts, number)
        return place < len(self._firsts) and self._firsts[place] <= number

    def __bool__(self) -> bool:
        return self.mark > 0 or bool(self._firsts)

    def __iter__(self) -> Iterator[int]:
        """Every number, in order: only where their count is known to be small."""
        for first, last in self.spans():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.wire() == other.wire()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Numbers({self.mark}, {[tuple(span) for span in self.wire()[1]]})"

    @property
    def count(self) -> int:
        """How many numbers are in the set."""
        return self.mark + sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def highest(self) -> int:
        """The highest number, 0 if there is none."""
        return self._lasts[-1] if self._lasts else self.mark

    @property
    def span_count(self) -> int:
        """How many spans there are above the mark: how many holes."""
        return len(self._firsts)

    @property
    def range_count(self) -> int:
        """How many unbroken runs of numbers there are."""
        return len(self._firsts) + (self.mark > 0)

    def missing(self, first: int, stop: int) -> Sequence[range]:
        """Which of the numbers from `first` up to `stop`, which is not one of them, are not in the set."""
        lasts = self._lasts
        if first > (lasts[-1] if lasts else self.mark):
            return (range(first, stop),)
        first = max(first, self.mark + 1)
        firsts = self._firsts
        place = bisect_left(lasts, first)
        result: list[range] = []
        while place < len(firsts) and firsts[place] < stop:
            if first < firsts[place]:
                result.append(range(first, firsts[place]))
            first = lasts[place] + 1
            place += 1
        if first < stop:
            result.append(range(first, stop))
        return result

    def spans(self) -> tuple[Span, ...]:
        """All numbers as spans; the one that ends at the mark is first."""
        above = tuple(map(Span, self._firsts, self._lasts))
        return (Span(1, self.mark), *above) if self.mark else above

    def holes(self, last: int) -> tuple[Span, ...]:
        """The numbers from 1 to `last` that are missing, as spans."""
        return Numbers(last).without(self).spans()

    def without(self, other: Numbers) -> Numbers:
        """The numbers that are in this set and not in the other."""
        found: list[Span] = []
        theirs = other.spans()
        place = 0
        for first, last in self.spans():
            while place < len(theirs) and theirs[place].last < first:
                place += 1
            while place < len(theirs) and theirs[place].first <= last:
                hole = theirs[place]
                if first < hole.first:
                    found.append(Span(first, hole.first - 1))
                first = hole.last + 1
                if hole.last > last:
                    break
                place += 1
            if first <= last:
                found.append(Span(first, last))
        rest = Numbers(most=None)
        if found and found[0].first == 1:
            rest.mark = found.pop(0).last
        rest._firsts = [span.first for span in found]
        rest._lasts = [span.last for span in found]
        return rest

    def wire(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The mark and the spans above it, the way they travel; `Numbers(*wire)` makes the set again."""
        return self.mark, tuple(zip(self._firsts, self._lasts, strict=True))


def spans_of(numbers: Iterable[int]) -> tuple[Span, ...]:
    """First and last of each unbroken run of numbers that come in ascending order, each once."""
    numbers = list(numbers)
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return (Span(numbers[0], numbers[-1]),)
    breaks = [at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1] + 1]
    starts, stops = [0, *breaks], [*breaks, len(numbers)]
    return tuple(
        Span(numbers[start], numbers[stop - 1])
        for start, stop in zip(starts, stops, strict=True)
        if stop > start
    )
