"""Events on their way from one replica to another."""

from __future__ import annotations

from pubsub.archive.store.changes import StoredEvent

Row = tuple[bytes, int, int, float, bytes, int, bool]
"""As in `pubsub.archive.protocol.messages.StoredEvents`."""


def row_of(event: StoredEvent, base: int, resent: bool, number: int | None = None) -> Row:
    """`resent`: as in `pubsub.archive.protocol.resent`. `number`: the sequence number that is told, if it is
    not the event's own."""
    return (
        event.publisher,
        base,
        event.catenation,
        event.time,
        event.body,
        event.sequence if number is None else number,
        resent,
    )
