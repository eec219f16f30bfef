"""What must be written again before a segment can be removed."""

from __future__ import annotations

from pubsub.archive.store.changes import Append, Change, ReplicaStored
from pubsub.archive.store.log_state import LogState
from pubsub.archive.store.segment import Segment, change_in


def survivors(log: LogState, segment: Segment) -> list[Change]:
    """The events of a segment that are still there, and the lines of replicas' tables that still hold.

    All other changes are in the snapshot of a later segment."""
    rest: list[Change] = []
    for found in segment.scan():
        if found.body is None:
            continue
        change = change_in(found)
        if isinstance(change, Append):
            index = log.index(change.event.topic)
            row = index.row_of(change.event.sequence)
            if row is not None and index.place(row)[:2] == (segment.number, found.offset):
                rest.append(change)
        elif isinstance(change, ReplicaStored):
            table = log.tables.get(change.topic, {}).get(change.replica)
            lines = tuple(
                line
                for line in change.stored
                if table is not None and table.sequence(line[0]) == line[1]
            )
            if lines:
                rest.append(ReplicaStored(change.topic, change.replica, lines))
    return rest
