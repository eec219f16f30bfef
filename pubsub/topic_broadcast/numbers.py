"""A set of a source's numbers: a high-water mark, and what is above it one by one."""

from __future__ import annotations

from collections.abc import Iterable

FARTHEST = 1 << 17
"""Numbers: how far above the mark one may be; a peer that claims more is not believed."""


class Numbers:
    """Some numbers from 1. It only grows; a source whose messages all arrive costs one number."""

    __slots__ = ("_above", "mark")

    def __init__(self, mark: int = 0, above: Iterable[int] = ()) -> None:
        self.mark = mark
        """Every number up to this one is in the set."""
        self._above: set[int] = set()
        self.update(mark, above)

    def __contains__(self, number: int) -> bool:
        return number <= self.mark or number in self._above

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.wire() == other.wire()

    def __repr__(self) -> str:
        return f"Numbers({self.mark}, {sorted(self._above)})"

    @property
    def has_holes(self) -> bool:
        return bool(self._above)

    def add(self, number: int) -> bool:
        """Add a number; False if it was there, or is too far away to be believed."""
        if number in self or number > self.mark + FARTHEST:
            return False
        self._above.add(number)
        self._rise()
        return True

    def update(self, mark: int, above: Iterable[int]) -> bool:
        """Add all up to a mark and some above; whether anything was new."""
        grew = mark > self.mark
        if grew:
            self.mark = mark
            self._above = {number for number in self._above if number > mark}
        for number in above:
            if number not in self and number <= self.mark + FARTHEST:
                self._above.add(number)
                grew = True
        if grew:
            self._rise()
        return grew

    def remember_at_most(self, most: int) -> None:
        """With more than so many numbers above the mark, count what is missing below the lowest as there."""
        if len(self._above) > most:
            self.mark = min(self._above) - 1
            self._rise()

    def missing_until(self, last: int) -> list[int]:
        """The numbers from 1 to `last` that are not in the set."""
        return [number for number in range(self.mark + 1, last + 1) if number not in self._above]

    def wire(self) -> tuple[int, tuple[int, ...]]:
        return self.mark, tuple(sorted(self._above))

    def _rise(self) -> None:
        while self.mark + 1 in self._above:
            self.mark += 1
            self._above.remove(self.mark)
