"""A member's log in an SQLite file (see `pubsub.broadcast.stable_log`)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from overlay.errors import UsageError
from overlay.wire import decode, encode
from pubsub.broadcast.message import Message, Packet
from pubsub.broadcast.stable_log import Restored, Stored

_TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    origin INTEGER, number INTEGER, body BLOB, delivered INTEGER, taken INTEGER DEFAULT 0,
    dropped INTEGER DEFAULT 0, PRIMARY KEY (origin, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (origin INTEGER PRIMARY KEY, mark INTEGER);
"""


class SqliteLog:
    """Synced to the disk at each commit. A message that is dropped and taken leaves the file, once the
    mark of its origin has passed it."""

    def __init__(self, path: str | Path) -> None:
        try:
            self._file = sqlite3.connect(path)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UsageError(f"{path} cannot be used as a log: {error}") from None
        (last,) = self._file.execute("SELECT max(delivered) FROM messages").fetchone()
        self._deliveries = last or 0

    def close(self) -> None:
        self._file.commit()
        self._file.close()

    def restore(self) -> Restored:
        ask = self._file.execute
        marks = dict(ask("SELECT origin, mark FROM marks ORDER BY origin"))
        finished = ask("SELECT origin, number FROM messages WHERE delivered ORDER BY 1, 2")
        return Restored(
            copies=self._stored("NOT dropped ORDER BY origin, number"),
            untaken=self._stored("delivered AND NOT taken ORDER BY delivered"),
            marks=marks,
            above=tuple(one for one in finished.fetchall() if one[1] > marks.get(one[0], 0)),
        )

    def _stored(self, where: str) -> tuple[Stored, ...]:
        rows = self._file.execute(f"SELECT origin, number, body FROM messages WHERE {where}")
        return tuple(Stored(origin, number, _message(body)) for origin, number, body in rows)

    def held(self, stored: Stored) -> None:
        body = encode(Packet("", stored.message.headers, stored.message.data))
        self._file.execute(
            "INSERT OR IGNORE INTO messages (origin, number, body) VALUES (?, ?, ?)",
            (stored.origin, stored.number, body),
        )
        self._file.commit()

    def delivered(self, origin: int, number: int, mark: int) -> None:
        self._deliveries += 1
        self._file.execute(
            "UPDATE messages SET delivered = ? WHERE origin = ? AND number = ?",
            (self._deliveries, origin, number),
        )
        self._file.execute("REPLACE INTO marks VALUES (?, ?)", (origin, mark))
        self._sweep(origin)
        self._file.commit()

    def taken(self, origin: int, number: int) -> None:
        self._note("taken", origin, number)
        self._file.commit()

    def dropped(self, origin: int, number: int) -> None:
        self._note("dropped", origin, number)

    def _note(self, column: str, origin: int, number: int) -> None:
        self._file.execute(
            f"UPDATE messages SET {column} = 1 WHERE origin = ? AND number = ?", (origin, number)
        )
        self._sweep(origin)

    def _sweep(self, origin: int) -> None:
        self._file.execute(
            "DELETE FROM messages WHERE origin = ?1 AND dropped AND taken"
            " AND number <= (SELECT mark FROM marks WHERE origin = ?1)",
            (origin,),
        )


def _message(body: bytes) -> Message:
    packet: Packet = decode(body)
    return Message(packet.data, packet.headers)
