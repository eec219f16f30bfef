"""What a member tells of gifts whose publishers may be gone, in as many messages as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pubsub.collections.messages import Estate, Gift

GIFTS_A_PART = 8192
"""Gifts that one message tells of: some 40 bytes each."""


def in_parts(
    view: bytes, number: int, claimed: Sequence[Gift], spare: Sequence[Gift]
) -> tuple[Estate, ...]:
    """An estate in the round of this number, none of whose parts is too large to be sent."""
    told = [(gift, True) for gift in claimed] + [(gift, False) for gift in spare]
    cuts = range(0, max(len(told), 1), GIFTS_A_PART)
    return tuple(
        Estate(
            view,
            number,
            part,
            len(cuts),
            tuple(gift for gift, is_claimed in told[cut : cut + GIFTS_A_PART] if is_claimed),
            tuple(gift for gift, is_claimed in told[cut : cut + GIFTS_A_PART] if not is_claimed),
        )
        for part, cut in enumerate(cuts)
    )


class Told:
    """The parts of one member's estate that have come, of one round in one view."""

    def __init__(self, first: Estate) -> None:
        self.view, self.round = first.view, first.round
        self._wanted = first.parts
        self._parts: dict[int, Estate] = {first.part: first}

    def add(self, part: Estate) -> None:
        if (part.view, part.round, part.parts) == (self.view, self.round, self._wanted):
            self._parts.setdefault(part.part, part)

    @property
    def is_whole(self) -> bool:
        return len(self._parts) == self._wanted

    @property
    def parts(self) -> list[Estate]:
        return list(self._parts.values())

    @property
    def claimed(self) -> Iterator[Gift]:
        return (gift for part in self._parts.values() for gift in part.claimed)

    @property
    def spare(self) -> Iterator[Gift]:
        return (gift for part in self._parts.values() for gift in part.spare)
