"""LIKE: `%` stands for any characters, `_` for exactly one; an escape character takes their meaning away.

The pattern is cut at its `%` into segments, and each is looked for from left to right, the leftmost place
being as good as any. So no pattern makes it go back, and a match costs about the length of the text: a
segment without `_` is found by `str.find`, one with `_` by shifting the set of its prefixes that end
here, as bits of an integer. Such an integer is as wide as the segment is long, which `cost` counts.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAIN_STEP = 64
"""Characters that `str.find` looks at for one step of the evaluation's work."""

BITS_A_STEP = 64
"""Bits of a set of prefixes that are shifted in one step."""


@dataclass(frozen=True, slots=True)
class LikeSegment:
    """Characters that stand together; None is any character."""

    chars: tuple[str | None, ...]
    plain: str | None
    """All of it as text, when every character is given."""

    @staticmethod
    def of(chars: list[str | None]) -> LikeSegment:
        given = [char for char in chars if char is not None]
        plain = "".join(given) if len(given) == len(chars) else None
        return LikeSegment(tuple(chars), plain)

    @property
    def width(self) -> int:
        """Steps that one character of the text takes when it is searched by sets of prefixes."""
        return 1 + len(self.chars) // BITS_A_STEP

    def stands_at(self, text: str, place: int) -> bool:
        if self.plain is not None:
            return text.startswith(self.plain, place)
        piece = text[place : place + len(self.chars)]
        return len(piece) == len(self.chars) and all(
            wanted is None or wanted == char for wanted, char in zip(self.chars, piece, strict=True)
        )

    def end_of_first(self, text: str, begin: int, end: int) -> int:
        """Where its leftmost occurrence in text[begin:end] ends; -1 when there is none."""
        if self.plain is not None:
            found = text.find(self.plain, begin, end)
            return found if found < 0 else found + len(self.plain)
        complete = 1 << len(self.chars) - 1
        masks, wild = self._masks()
        prefixes = 0
        for place in range(begin, end):
            prefixes = (prefixes << 1 | 1) & masks.get(text[place], wild)
            if prefixes & complete:
                return place + 1
        return -1

    def _masks(self) -> tuple[dict[str, int], int]:
        """For each character the places at which it may stand, as bits; and for all others.

        Made for each search, since they take up to the square of the segment's length, and strangers'
        filters are kept."""
        wild = sum(1 << place for place, char in enumerate(self.chars) if char is None)
        masks: dict[str, int] = {}
        for place, char in enumerate(self.chars):
            if char is not None:
                masks[char] = masks.get(char, wild) | 1 << place
        return masks, wild


class LikePattern:
    """A pattern that is ready to match; `ValueError`, saying why, when it is none."""

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        pieces = _pieces(pattern, escape)
        self._open = len(pieces) > 1
        self._first, self._last = LikeSegment.of(pieces[0]), LikeSegment.of(pieces[-1])
        self._middle = tuple(LikeSegment.of(piece) for piece in pieces[1:-1] if piece)
        self._shortest = sum(len(piece) for piece in pieces)
        self._width = max((s.width for s in self._middle if s.plain is None), default=0)
        """Steps that a character of the text takes at most; 0 when `str.find` does it all."""

    def cost(self, text: str) -> int:
        """Steps of work that `matches` takes at most."""
        searched = len(text) * self._width if self._width else len(text) // PLAIN_STEP
        return self._shortest + searched

    def matches(self, text: str) -> bool:
        if len(text) < self._shortest or not self._first.stands_at(text, 0):
            return False
        if not self._open:
            return len(text) == self._shortest
        end = len(text) - len(self._last.chars)
        place = len(self._first.chars)
        for segment in self._middle:
            place = segment.end_of_first(text, place, end)
            if place < 0:
                return False
        return self._last.stands_at(text, end)


def _pieces(pattern: str, escape: str | None) -> list[list[str | None]]:
    """The characters between one `%` and the next."""
    if escape is not None and len(escape) != 1:
        raise ValueError("ESCAPE is followed by exactly one character in quotes")
    pieces: list[list[str | None]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            char = next(chars, "")
            if char not in ("%", "_", escape):
                raise ValueError(
                    "in the pattern, the escape character stands before %, _ or itself"
                )
            pieces[-1].append(char)
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if char == "_" else char)
    return pieces
