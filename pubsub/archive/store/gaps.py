"""What entities are told to have missed: events that were removed before the entities had had them.

A gap is kept until its entity has been told. A name that stays away while events of many publishers are
removed would have any number of gaps; so an entity has at most `MOST_GAPS`, and beyond them two become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pubsub.reliable.numbers import Span
from pubsub.reliable.runs import Reason

MOST_GAPS = 128
"""Gaps that are kept for an entity that has not been told."""


class EntityGap(NamedTuple):
    """Events for an entity that it will not have, all of one source."""

    entity: str
    span: Span
    """The archive's sequence numbers of the first and the last of them."""
    source: bytes
    """The publisher and its run; empty where nobody knows, or where the events were of too many sources."""
    first: int
    last: int
    """The publisher's numbers of the first and the last of them; the archive's where the source is empty."""
    reason: Reason

    @classmethod
    def unnamed(cls, entity: str, span: Span, reason: Reason) -> EntityGap:
        """A gap of which only the archive's numbers can be told."""
        return cls(entity, span, b"", *span, reason)

    @classmethod
    def unpack(cls, values: Iterable[Any]) -> EntityGap:
        """A gap whose values msgpack has kept."""
        entity, span, *rest = values
        return cls(entity, Span(*span), *rest)


def with_gap(gaps: list[EntityGap], gap: EntityGap) -> list[EntityGap]:
    """An entity's gaps with one more. What follows the end of another gap of its source makes that longer."""
    for place in range(len(gaps) - 1, -1, -1):
        if _are_alike(gaps[place], gap):
            if gaps[place].last + 1 == gap.first:
                return [*gaps[:place], _joined(gaps[place], gap), *gaps[place + 1 :]]
            break
    return _fewer([*gaps, gap]) if len(gaps) >= MOST_GAPS else [*gaps, gap]


def _are_alike(one: EntityGap, other: EntityGap) -> bool:
    return one.source == other.source and one.reason == other.reason


def _fewer(gaps: list[EntityGap]) -> list[EntityGap]:
    """The same with the first two of one source as one; the two oldest where each has another source."""
    first, second = gaps[:2]
    seen: dict[tuple[bytes, Reason], EntityGap] = {}
    for gap in gaps:
        before = seen.setdefault((gap.source, gap.reason), gap)
        if before is not gap:
            first, second = before, gap
            break
    rest = [one for one in gaps if one is not first and one is not second]
    return [_joined(first, second), *rest]


def _joined(one: EntityGap, other: EntityGap) -> EntityGap:
    """One gap from the beginning of the one to the end of the other, whichever is lower."""
    span = _hull(one.span, other.span)
    if not _are_alike(one, other):
        return EntityGap.unnamed(one.entity, span, one.reason)
    numbers = _hull(Span(one.first, one.last), Span(other.first, other.last))
    return EntityGap(one.entity, span, one.source, *numbers, one.reason)


def _hull(one: Span, other: Span) -> Span:
    return Span(min(one.first, other.first), max(one.last, other.last))
