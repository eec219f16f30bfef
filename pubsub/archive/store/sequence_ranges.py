"""Sets of sequence numbers as few spans: what an entity has acknowledged, what a table has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """All numbers from `first` to `last`, both included."""

    first: int
    last: int


class SequenceRanges:
    """A set of numbers, kept as disjoint spans that do not touch, in order.

    Costs what the number of spans costs, however many numbers they have."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in spans:
            self.add(first, last)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> SequenceRanges:
        """The set of these numbers."""
        ranges = cls()
        for number in numbers:
            ranges.add(number, number)
        return ranges

    def add(self, first: int, last: int) -> None:
        """Add all numbers from `first` to `last`; nothing when `last` is below `first`."""
        if last < first:
            return
        start = bisect_left(self._lasts, first - 1)
        stop = bisect_right(self._firsts, last + 1)
        if start < stop:
            first = min(first, self._firsts[start])
            last = max(last, self._lasts[stop - 1])
        self._firsts[start:stop] = [first]
        self._lasts[start:stop] = [last]

    def remove(self, first: int, last: int | None = None) -> None:
        """Remove all numbers from `first` to `last`, or `first` alone."""
        last = first if last is None else last
        if last < first:
            return
        start, stop = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if start >= stop:
            return
        rest = [(self._firsts[start], first - 1), (last + 1, self._lasts[stop - 1])]
        rest = [span for span in rest if span[0] <= span[1]]
        self._firsts[start:stop] = [span[0] for span in rest]
        self._lasts[start:stop] = [span[1] for span in rest]

    def forget_to(self, number: int) -> None:
        """Remove all numbers up to `number`."""
        gone = bisect_right(self._lasts, number)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts and self._firsts[0] <= number:
            self._firsts[0] = number + 1

    def without(self, other: SequenceRanges) -> SequenceRanges:
        """The numbers that are not in the other set."""
        rest = SequenceRanges(self.spans())
        for first, last in other.spans():
            rest.remove(first, last)
        return rest

    def end_of_run(self, first: int) -> int:
        """The last number of the unbroken run from `first` on; `first - 1` when it is not in the set."""
        place = bisect_left(self._lasts, first)
        if place < len(self._firsts) and self._firsts[place] <= first:
            return self._lasts[place]
        return first - 1

    def spans(self) -> tuple[Span, ...]:
        return tuple(map(Span, self._firsts, self._lasts))

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self._lasts, number)
        return place < len(self._firsts) and self._firsts[place] <= number

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SequenceRanges) and self.spans() == other.spans()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SequenceRanges({[tuple(span) for span in self.spans()]})"
