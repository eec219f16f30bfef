"""Gaps: events that are removed before somebody had them, which that one is told of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pubsub.archive.protocol.dissemination import Dissemination
from pubsub.archive.store.changes import Gap
from pubsub.reliable.numbers import Span


def gaps_of_lost(entities: Iterable[Dissemination], spans: Sequence[Span]) -> tuple[Gap, ...]:
    """Of numbers whose events cannot be read: nobody knows whom they were for."""
    return tuple(
        Gap(entity.name, span, span.last - span.first + 1)
        for entity in entities
        for span in spans
        if span.last > entity.done
    )


def gaps_of_unread(entities: Iterable[Dissemination], spans: Sequence[Span]) -> tuple[Gap, ...]:
    """Of events that were archived before an entity was registered and that it has yet to read: they are
    matched when they are read, so that no record tells whether they are for it."""
    gaps = []
    for entity in entities:
        unread = [
            (max(first, entity.done + 1), min(last, entity.matched_from)) for first, last in spans
        ]
        unread = [(first, last) for first, last in unread if first <= last]
        if unread:
            count = sum(last - first + 1 for first, last in unread)
            gaps.append(Gap(entity.name, Span(unread[0][0], unread[-1][1]), count))
    return tuple(gaps)
