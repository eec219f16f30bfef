"""A set of a source's numbers: a high-water mark, and ranges above it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
"""The first number and the last, both included."""

MOST_RANGES = 1 << 16
"""Ranges above the mark; a number that would begin one more is not taken, whoever sends it."""


class Numbers:
    """Some numbers from 1. It only grows; what it costs depends on its holes, not on its size."""

    __slots__ = ("_firsts", "_lasts", "mark")

    def __init__(self, mark: int = 0, ranges: Iterable[Range] = ()) -> None:
        self.mark = mark
        """Every number up to this one is in the set, and the next one is not."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.update(mark, ranges)

    def __contains__(self, number: int) -> bool:
        if number <= self.mark:
            return True
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.wire() == other.wire()

    def __repr__(self) -> str:
        return "Numbers({}, {})".format(*self.wire())

    @property
    def has_holes(self) -> bool:
        return bool(self._firsts)

    @property
    def highest(self) -> int:
        """0 if there is none."""
        return self._lasts[-1] if self._lasts else self.mark

    def add(self, number: int) -> bool:
        """Add a number; False if it was there, or the set is too scattered."""
        if number == self.mark + 1 and not self._firsts:
            self.mark = number
            return True
        return self.add_range(number, number)

    def add_range(self, first: int, last: int) -> bool:
        """Add all from the first to the last; False if they were there, or the set is too scattered."""
        first = max(first, self.mark + 1)
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:  # these ranges overlap the new one, or touch it
            if self._firsts[low] <= first and last <= self._lasts[low]:
                return False
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        if first > last:
            return False
        if first == self.mark + 1:
            self.mark = last
            del self._firsts[:high], self._lasts[:high]
        elif low == high and len(self._firsts) >= MOST_RANGES:
            return False
        else:
            self._firsts[low:high] = [first]
            self._lasts[low:high] = [last]
        return True

    def update(self, mark: int, ranges: Iterable[Range]) -> bool:
        """Add all up to a mark and some ranges above; whether anything was new."""
        grew = self.add_range(1, mark)
        for first, last in ranges:
            grew = self.add_range(first, last) or grew
        return grew

    def remember_at_most(self, most: int) -> None:
        """With more than so many ranges above the mark, count what is missing below the lowest as there."""
        while len(self._firsts) > most:
            self.add_range(1, self._lasts[0])

    def without(self, other: Numbers) -> list[Range]:
        """What is in this set and not in the other."""
        found: list[Range] = []
        theirs = other._ranges()
        place = 0
        for first, last in self._ranges():
            while place < len(theirs) and theirs[place][1] < first:
                place += 1
            while place < len(theirs) and theirs[place][0] <= last:
                their_first, their_last = theirs[place]
                if first < their_first:
                    found.append((first, their_first - 1))
                first = their_last + 1
                if their_last > last:
                    break
                place += 1
            if first <= last:
                found.append((first, last))
        return found

    def wire(self) -> tuple[int, tuple[Range, ...]]:
        return self.mark, tuple(zip(self._firsts, self._lasts, strict=True))

    def _ranges(self) -> list[Range]:
        mark, above = self.wire()
        return [(1, mark), *above] if mark else list(above)
