"""The check of an SQLite file when it is opened, and what can be put right there.

Every event's number is in its row and in two indexes. One flipped bit changes one of the three at most. So an
event whose number both indexes have and no row is one whose row has lost its number: a row that cannot be
read takes its place, is found like any other damaged event, and fetched from a replica or given up. What is
wrong in an index alone is made anew from the rows. Whatever is wrong after that makes the store unusable;
another replica has the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pubsub.archive.store.interface import StoreError
from pubsub.archive.store.sql_schema import (
    CREATE_EVENTS,
    EVENT_COLUMNS,
    INDEX_EVENTS,
    Connection,
)

_LOST = (
    "SELECT place FROM events INDEXED BY events_by_id INTERSECT"
    " SELECT place FROM events INDEXED BY events_by_stream EXCEPT"
    " SELECT place FROM events NOT INDEXED"
)
_MISPLACED = (
    "SELECT place FROM events NOT INDEXED EXCEPT"
    " SELECT place FROM (SELECT place FROM events INDEXED BY events_by_id UNION"
    " SELECT place FROM events INDEXED BY events_by_stream)"
)
_UNREADABLE = (
    "INSERT OR IGNORE INTO salvaged ({}) VALUES (?, 0.0, 0, 0, 0, 0, -1, x'', x'')".format(
        ", ".join(EVENT_COLUMNS)
    )
)


def check_file(writer: Connection) -> None:
    """Return when the file is whole, as far as SQLite can tell; `StoreError` when it cannot be made so."""
    if _is_whole(writer):
        return
    lost, misplaced = writer.query(_LOST), writer.query(_MISPLACED)
    writer.begin()
    if lost or misplaced:
        _copy_events(writer, lost, misplaced)
    writer.execute("REINDEX")
    writer.commit()
    if not _is_whole(writer):
        raise StoreError("its file is damaged: begin with an empty one beside another replica")


def _copy_events(
    writer: Connection, lost: Sequence[tuple[Any, ...]], misplaced: Sequence[tuple[Any, ...]]
) -> None:
    """Make the table anew: among rows that are out of order none can be sought, but all can be read."""
    columns = ", ".join(EVENT_COLUMNS)
    create = CREATE_EVENTS.format(int="INTEGER", real="REAL", blob="BLOB")
    writer.execute(create.replace(" events ", " salvaged "))
    writer.execute(
        f"INSERT OR IGNORE INTO salvaged ({columns}) SELECT {columns} FROM events NOT INDEXED"
    )
    writer.execute_many("DELETE FROM salvaged WHERE place = ?", misplaced)
    writer.execute_many(_UNREADABLE, lost)
    writer.execute("DROP TABLE events")
    writer.execute("ALTER TABLE salvaged RENAME TO events")
    for statement in INDEX_EVENTS:
        writer.execute(statement)


def _is_whole(writer: Connection) -> bool:
    return writer.query("PRAGMA integrity_check(1)") == [("ok",)]
