"""Events on their way from one replica to another."""

from __future__ import annotations

from pubsub.archive.store.changes import StoredEvent

Row = tuple[bytes, int, int, float, bytes, int]
"""As in `pubsub.archive.protocol.messages.StoredEvents`."""


def row_of(event: StoredEvent, base: int, number: int | None = None) -> Row:
    """`number`: the sequence number that is told, if it is not the event's own."""
    return (
        event.publisher,
        base,
        event.catenation,
        event.time,
        event.body,
        event.sequence if number is None else number,
    )
