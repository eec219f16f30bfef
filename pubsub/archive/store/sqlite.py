"""A store in an SQLite file, which is the default.

When a file is opened it is checked, and what can be put right is. Every event's number is in its row and in
two indexes. One flipped bit changes one of the three at most. So an event whose number both indexes have
and no row is one whose row has lost its number: a row that cannot be read takes its place, is found like
any other damaged event, and fetched from a replica or given up. What is wrong in an index alone is made
anew from the rows; ids that the index had and the rows have not are kept, as a row may have lost its id.
Whatever is wrong after that makes the store unusable; another replica has the events.

The file is in WAL mode with `synchronous=FULL`: a commit returns after the log has been synced, so that a
batch costs one sync. Another process is kept out by a lock beside the file.

SQLite notices damage to its file only where it stumbles over it, and a changed number hides a row without a
word. So the whole file is checked when it is opened.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from overlay.errors import why
from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import Change
from pubsub.archive.store.filesystem import lock_file
from pubsub.archive.store.sql_tables import (
    CREATE_EVENTS,
    EVENT_COLUMNS,
    INDEX_EVENTS,
    SCHEMA,
    Connection,
)
from pubsub.archive.store.store import Damage, Store
from pubsub.reliable.numbers import Span

_LOST = (
    "SELECT place FROM events INDEXED BY events_by_id INTERSECT"
    " SELECT place FROM events INDEXED BY events_by_stream EXCEPT"
    " SELECT place FROM events NOT INDEXED"
)
_INDEXED_IDS = (
    "CREATE TEMP TABLE indexed_ids AS SELECT place, id FROM events INDEXED BY events_by_id"
)
_OTHER_IDS = (
    "INSERT INTO other_ids SELECT place, id FROM indexed_ids EXCEPT"
    " SELECT place, id FROM events NOT INDEXED"
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
    # The names of columns are on the disk too, and those of events are not used before one is read.
    writer.query(f"SELECT {', '.join(EVENT_COLUMNS)} FROM events LIMIT 0")
    if _is_whole(writer):
        return
    lost, misplaced = writer.query(_LOST), writer.query(_MISPLACED)
    writer.begin()
    writer.execute(_INDEXED_IDS)
    if lost or misplaced:
        _copy_events(writer, lost, misplaced)
    writer.execute(_OTHER_IDS)
    writer.execute("DROP TABLE indexed_ids")
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


_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",  # past the drive's own cache, where the system tells that from a sync
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-16000",
)
_ERRORS = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""Whatever reading a damaged file raises."""
MOST_ROWS = 64
"""Events that one statement adds: they have fewer values together than any SQLite refuses."""


@cache
def _insertion(rows: int) -> str:
    row = f"({', '.join('?' for _ in EVENT_COLUMNS)})"
    return f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES {', '.join([row] * rows)}"


class SqliteStore(Store):
    """See `pubsub.archive.store.store` for what is promised."""

    _by_row = " NOT INDEXED"
    _by_id = " INDEXED BY events_by_id"

    def __init__(self, path: str | Path) -> None:
        try:
            self._locked = lock_file(f"{path}.lock")
        except OSError as error:
            raise StoreError(f"the store {path} cannot be opened: {why(error)}") from None
        try:
            writer = SqliteConnection(path, _SETTINGS)
            make_tables(writer)
            check_file(writer)
            # A process that was killed may have left its last batch unsynced: sync it before it is read.
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            super().__init__(str(path), writer, SqliteConnection(path, _SETTINGS), _ERRORS)
        except (
            Exception
        ) as error:  # a damaged file makes SQLite, and what reads its rows, raise anything
            os.close(self._locked)
            raise StoreError(f"the store {path} cannot be opened: {why(error)}") from None

    def close(self) -> None:
        is_open = self._locked >= 0
        super().close()
        if is_open:
            os.close(self._locked)
            self._locked = -1

    def verify(self) -> tuple[Damage, ...]:
        """Also the pages of the database itself; damage to them is reported without numbers."""
        whole = self._query("PRAGMA integrity_check(1)", ()) == [("ok",)]
        found = super().verify()
        return found if whole else (*found, Damage("", Span(0, 0), "corrupt"))


def make_tables(connection: SqliteConnection) -> None:
    """Make the tables where there are none."""
    for statement in SCHEMA:
        connection.execute(statement.format(int="INTEGER", real="REAL", blob="BLOB"))


class MemoryStore(Store):
    """A store for trying things out: it waits for no disk, and nothing of it outlives the process."""

    blocking = False

    def __init__(self) -> None:
        connection = SqliteConnection(":memory:", ("PRAGMA journal_mode=OFF",))
        make_tables(connection)
        super().__init__("in memory", connection, connection, _ERRORS)
        self._unsynced: list[Change] = []

    def write(self, changes: Sequence[Change]) -> None:
        # The connection that reads is the one that writes: nothing is written before it may be shown.
        self._unsynced += changes

    def sync(self) -> None:
        changes, self._unsynced = self._unsynced, []
        super().write(changes)
        super().sync()


class SqliteConnection:
    """Used by one thread at a time, though not always by the same one."""

    def __init__(self, path: str | Path, settings: Sequence[str]) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in settings:
            self._file.execute(setting)

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._file.execute(statement, values).fetchall()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._file.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._file.executemany(statement, rows)

    def insert_events(self, rows: Sequence[Sequence[Any]]) -> None:
        # Python's lock is let go of once a statement: the event loop, which is busy meanwhile, does not get
        # between any two events.
        start, count = 0, MOST_ROWS
        while start < len(rows):
            while count > len(rows) - start:
                count //= 2
            values = tuple(chain.from_iterable(rows[start : start + count]))
            self._file.execute(_insertion(count), values)
            start += count

    def begin(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._file.execute("COMMIT")

    def close(self) -> None:
        self._file.close()
