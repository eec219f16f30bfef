"""A participant's log in an SQLite file (see `pubsub.topic_broadcast.topic_log`)."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.wire import decode, encode
from pubsub.topic_broadcast.messages import Item
from pubsub.topic_broadcast.topic_log import LogError, Restored, SourceNumbers
from pubsub.topic_membership.messages import Entry

_TABLES = """
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY, topic TEXT, node BLOB);
CREATE TABLE IF NOT EXISTS participant (one INTEGER PRIMARY KEY, boot INTEGER, life INTEGER);
CREATE TABLE IF NOT EXISTS items (
    place INTEGER PRIMARY KEY AUTOINCREMENT, source BLOB, number INTEGER, item BLOB,
    unfinished INTEGER, held INTEGER DEFAULT 1, UNIQUE (source, number)
);
CREATE TABLE IF NOT EXISTS numbers (source BLOB PRIMARY KEY, mark INTEGER, ranges BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS participants (id BLOB PRIMARY KEY, entry BLOB) WITHOUT ROWID;
"""

_RANGE = struct.Struct(">QQ")

_log = logging.getLogger(__name__)

_Change = tuple[str, tuple[Any, ...]]


class SqliteTopicLog:
    """Synced to the disk at each `sync`. A message leaves the file when everybody has it and the application
    is done with it. The file belongs to one topic and one node: another one is refused."""

    is_durable = True

    def __init__(self, path: str | Path, topic: str, node: PeerId) -> None:
        self._path = path
        try:
            self._file = sqlite3.connect(path)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(_TABLES)
            self._check_owner(topic, node)
        except sqlite3.Error as error:
            raise UsageError(f"{path} cannot be used as a log: {error}") from None

        self._changes: list[_Change] = []
        """What the next `sync` writes, in one transaction."""

    def _check_owner(self, topic: str, node: PeerId) -> None:
        self._file.execute("INSERT OR IGNORE INTO owner VALUES (1, ?, ?)", (topic, node))
        self._file.commit()
        owner_topic, owner = self._file.execute("SELECT topic, node FROM owner").fetchone()
        if (owner_topic, owner) != (topic, node):
            self._file.close()
            of_another = "" if owner == node else f", of another node ({owner.hex()})"
            raise UsageError(
                f"{self._path} is the log of {owner_topic}{of_another}: give each topic and node its own"
            )

    def close(self) -> None:
        with contextlib.suppress(LogError):  # as if crashed a moment earlier
            self._write(self._changes)
        self._file.close()

    def restore(self) -> Restored:
        ask = self._file.execute
        started = ask("SELECT boot, life FROM participant").fetchone()
        if started is None:
            return Restored()
        boot, life = started
        return Restored(
            life,
            boot,
            tuple(decode(entry) for (entry,) in ask("SELECT entry FROM participants ORDER BY id")),
            tuple(
                SourceNumbers(source, mark, _unpack(ranges))
                for source, mark, ranges in ask("SELECT * FROM numbers ORDER BY source")
            ),
            self._items("held"),
            self._items("unfinished"),
        )

    def _items(self, which: str) -> tuple[Item, ...]:
        rows = self._file.execute(f"SELECT item FROM items WHERE {which} ORDER BY place")
        return tuple(decode(item) for (item,) in rows)

    def began(self, boot: int, life: int) -> None:
        self._change("REPLACE INTO participant VALUES (1, ?, ?)", boot, life)

    def took(self, item: Item, unfinished: bool) -> None:
        self._change(
            "INSERT OR IGNORE INTO items (source, number, item, unfinished) VALUES (?, ?, ?, ?)",
            item.source,
            item.number,
            encode(item),
            unfinished,
        )

    def finished(self, item: Item) -> None:
        self._note("unfinished", item)

    def collected(self, item: Item) -> None:
        self._note("held", item)

    def _note(self, column: str, item: Item) -> None:
        these = "WHERE source = ? AND number = ?"
        self._change(f"UPDATE items SET {column} = 0 {these}", item.source, item.number)
        self._change(
            f"DELETE FROM items {these} AND NOT held AND NOT unfinished", item.source, item.number
        )

    def knows(self, entry: Entry) -> None:
        if entry.left:
            self._change("DELETE FROM participants WHERE id = ?", entry.id)
        else:
            self._change("REPLACE INTO participants VALUES (?, ?)", entry.id, encode(entry))

    def sync(self, received: Iterable[SourceNumbers]) -> None:
        numbers: list[_Change] = [
            ("REPLACE INTO numbers VALUES (?, ?, ?)", (source, mark, _pack(ranges)))
            for source, mark, ranges in received
        ]
        self._write([*self._changes, *numbers])
        self._changes.clear()

    def _change(self, statement: str, *values: Any) -> None:
        self._changes.append((statement, values))

    def _write(self, changes: list[_Change]) -> None:
        """All of them or, with `LogError`, none."""
        try:
            for statement, values in changes:
                self._file.execute(statement, values)
            self._file.commit()
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._file.rollback()
            _log.error("the log %s cannot be written, and is tried again: %s", self._path, error)
            raise LogError(f"{self._path} cannot be written: {error}") from error


def _pack(ranges: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(_RANGE.pack(first, last) for first, last in ranges)


def _unpack(packed: bytes) -> tuple[tuple[int, int], ...]:
    return tuple((first, last) for first, last in _RANGE.iter_unpack(packed))
