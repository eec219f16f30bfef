"""Which of a sender's numbered messages were seen: a high-water mark instead of a set.

Everything up to the mark was seen; only what came out of order above it is kept one by one, so that a
sender whose messages all arrive costs one number, however many they are.
"""

from __future__ import annotations

from pubsub.broadcast.kernel import BadMessage

FARTHEST = 1 << 20
"""Numbers: how far above the mark a message may be; a peer that claims more is not believed."""


class HighWater:
    """The numbers from 1 that were seen. With `most`, at most so many above the mark are remembered:
    when there are more, the mark rises to the lowest of them, and what was missing below counts as
    seen."""

    __slots__ = ("_above", "_most", "mark")

    def __init__(self, most: int | None = None) -> None:
        self.mark = 0
        """Every number up to this one was seen (or given up)."""
        self._above: set[int] = set()
        self._most = most

    def __contains__(self, number: int) -> bool:
        return number <= self.mark or number in self._above

    def __len__(self) -> int:
        """How many numbers are kept one by one."""
        return len(self._above)

    def add(self, number: int) -> bool:
        """See a number; False if it was seen before."""
        if number <= self.mark or number in self._above:
            return False
        if number > self.mark + FARTHEST:
            raise BadMessage("number_too_far")
        self._above.add(number)
        self._rise()
        if self._most is not None and len(self._above) > self._most:
            self.mark = min(self._above) - 1
            self._rise()
        return True

    def _rise(self) -> None:
        while self.mark + 1 in self._above:
            self.mark += 1
            self._above.remove(self.mark)
