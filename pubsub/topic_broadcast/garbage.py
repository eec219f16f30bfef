"""Which messages of a source everybody has, and nobody needs to hold any more.

The paper's two variables (DACE, appendix 1, lines 6 and 7): the highest number that was collected, and the
numbers below it that are still awaited. A number is garbage when it is at most the highest and not awaited.
Two of the appendix's slips are set right here: lines 17 and 18 must add the garbage of the peer that tells
it to what every participant is known to have, and not to the peer's own set alone; and the loop of line 64
must run from the old highest number, which line 63 has overwritten by then.
"""

from __future__ import annotations

from collections.abc import Iterable


class Garbage:
    """Of one source."""

    __slots__ = ("_awaited", "highest")

    def __init__(self) -> None:
        self.highest = 0
        self._awaited: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.highest and number not in self._awaited

    def collect(self, number: int) -> None:
        """Everybody has this one."""
        if number <= self.highest:
            self._awaited.discard(number)
        else:
            self._awaited.update(range(self.highest + 1, number))
            self.highest = number

    def learn(self, highest: int, awaited: Iterable[int]) -> None:
        """Add what a peer has collected."""
        theirs = set(awaited)
        still = {number for number in self._awaited if number > highest or number in theirs}
        still.update(number for number in theirs if number > self.highest)
        self._awaited = still
        self.highest = max(self.highest, highest)

    def wire(self) -> tuple[int, tuple[int, ...]]:
        return self.highest, tuple(sorted(self._awaited))
