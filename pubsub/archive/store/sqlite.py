"""A store in an SQLite file, which is the default.

The file is in WAL mode with `synchronous=FULL`: a commit returns after the log has been synced, so that a
batch costs one sync. Another process is kept out by a lock beside the file.

SQLite notices damage to its file only where it stumbles over it, and a changed number hides a row without a
word. So the whole file is checked when it is opened (`pubsub.archive.store.sqlite_check`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pubsub.archive.store.filesystem import lock_file
from pubsub.archive.store.interface import Damage, StoreError
from pubsub.archive.store.sql_schema import ADD_CHECKSUM, CHECKED, EVENT_COLUMNS, SCHEMA
from pubsub.archive.store.sql_store import SqlStore
from pubsub.archive.store.sqlite_check import check_file
from pubsub.reliable.numbers import Span

_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",  # past the drive's own cache, where the system tells that from a sync
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-16000",
)
_ERRORS = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""Whatever reading a damaged file raises."""
_INSERT = "INSERT INTO events ({}) VALUES ({})".format(
    ", ".join(EVENT_COLUMNS), ", ".join("?" for _ in EVENT_COLUMNS)
)


class SqliteStore(SqlStore):
    """See `pubsub.archive.store.interface.Store` for what is promised."""

    def __init__(self, path: str | Path) -> None:
        try:
            self._locked = lock_file(f"{path}.lock")
        except OSError as error:
            raise StoreError(f"the store {path} cannot be opened: {error}") from None
        try:
            writer = _SqliteConnection(path)
            for statement in SCHEMA:
                writer.execute(statement.format(int="INTEGER", real="REAL", blob="BLOB"))
            for table in CHECKED:
                if "checksum" not in (
                    row[1] for row in writer.query(f"PRAGMA table_info({table})")
                ):
                    writer.execute(ADD_CHECKSUM.format(table=table, int="INTEGER"))
            check_file(writer)
            # A process that was killed may have left its last batch unsynced: sync it before it is read.
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            super().__init__(str(path), writer, _SqliteConnection(path), _ERRORS)
        except (
            Exception
        ) as error:  # a damaged file makes SQLite, and what reads its rows, raise anything
            os.close(self._locked)
            raise StoreError(f"the store {path} cannot be opened: {error}") from None

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


class _SqliteConnection:
    """Used by one thread at a time, though not always by the same one."""

    def __init__(self, path: str | Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in _SETTINGS:
            self._file.execute(setting)

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._file.execute(statement, values).fetchall()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._file.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._file.executemany(statement, rows)

    def insert_events(self, rows: Iterable[Sequence[Any]]) -> None:
        self._file.executemany(_INSERT, rows)

    def begin(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._file.execute("COMMIT")

    def close(self) -> None:
        self._file.close()
