"""A store in a PostgreSQL database; needs the extra `postgresql`.

A batch is one transaction with `synchronous_commit` on, whatever the server has as default: a commit returns
after the server has synced its log. Another archive is kept out of the schema by an advisory lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from overlay.errors import UsageError, why
from pubsub.archive.errors import StoreError
from pubsub.archive.store.sql_tables import EVENT_COLUMNS, SCHEMA
from pubsub.archive.store.store import Store

_LOCK = "SELECT pg_try_advisory_lock(hashtext('camcast archive ' || current_schema()))"
_COPY = f"COPY events ({', '.join(EVENT_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_TYPES = ("int8", "float8", "int8", "int8", "int8", "int8", "int8", "bytea", "bytea")
"""The types of the event's columns."""


class PostgresqlStore(Store):
    """See `pubsub.archive.store.store` for what is promised."""

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise UsageError(
                "a store in PostgreSQL needs psycopg: pip install 'camcast[postgresql]'"
            ) from None
        name = _without_password(address)
        try:
            writer = _PostgresqlConnection(psycopg.connect(address, autocommit=True))
            if writer.query(_LOCK) != [(True,)]:
                writer.close()
                raise StoreError(f"the store {name} is in use by another archive")
            for statement in SCHEMA:
                writer.execute(
                    statement.format(int="BIGINT", real="DOUBLE PRECISION", blob="BYTEA")
                )
            reader = _PostgresqlConnection(psycopg.connect(address, autocommit=True))
            super().__init__(name, writer, reader, (psycopg.Error,))
        except psycopg.Error as error:
            raise StoreError(f"the store {name} cannot be opened: {why(error)}") from None


class _PostgresqlConnection:
    """Used by one thread at a time, though not always by the same one."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.execute("SET synchronous_commit TO on")
        self.execute("SET client_min_messages TO warning")

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.execute(
            _translated(statement), values, binary=True
        ).fetchall()
        return rows

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._connection.execute(_translated(statement), values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(statement), rows)

    def insert_events(self, rows: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(_TYPES)
            for row in rows:
                copy.write_row(row)

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def close(self) -> None:
        """Give the lock up first: the server hears of the end of a connection some time later."""
        with suppress(Exception):
            self.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()


def _translated(statement: str) -> str:
    return statement.replace("?", "%s")


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    if not parts.password:
        return address
    return address.replace(f":{parts.password}@", "@", 1)
