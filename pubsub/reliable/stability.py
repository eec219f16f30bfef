"""How far each member has come with each source, and what all of them have: that is *stable*.

Members tell numbers; a member that has told nothing of a source has nothing of it. Memory is one number for
each member and source that was told; `forget` and `leave` give it back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)
K = TypeVar("K", bound=Hashable)


class Acknowledged(Generic[P, K]):
    """What members have told, by member and source."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[P, dict[K, int]] = {}

    def tell(self, member: P, source: K, number: int) -> None:
        """A member has a source up to this number, be it more or less than it told before."""
        marks = self._marks.get(member)
        if marks is None:
            marks = self._marks[member] = {}
        marks[source] = number

    def raise_to(self, member: P, source: K, number: int) -> None:
        """The same where messages may overtake each other: what is lower than before is old."""
        if number > self.of(member, source):
            self.tell(member, source, number)

    def of(self, member: P, source: K) -> int:
        """What a member has told, 0 if nothing."""
        marks = self._marks.get(member)
        return marks.get(source, 0) if marks is not None else 0

    def stable(self, source: K, members: Iterable[P], mine: int) -> int:
        """The highest number that all of these members have, and this one, which has `mine`."""
        for member in members:
            marks = self._marks.get(member)
            number = marks.get(source, 0) if marks is not None else 0
            if number < mine:
                mine = number
        return mine

    def highest(self, source: K, members: Iterable[P]) -> int:
        """The highest number that any of these members has."""
        return max((self.of(member, source) for member in members), default=0)

    def forget(self, source: K) -> None:
        """Nobody needs to know of a source any more."""
        for marks in self._marks.values():
            marks.pop(source, None)

    def leave(self, member: P) -> dict[K, int]:
        """Forget a member; what it had told."""
        return self._marks.pop(member, {})

    def __len__(self) -> int:
        """How many numbers are remembered."""
        return sum(map(len, self._marks.values()))
