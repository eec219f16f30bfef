"""A member's log in an SQLite file (see `pubsub.broadcast.stable_log`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from overlay.wire import decode, encode
from pubsub.broadcast.message import Message, Packet
from pubsub.broadcast.stable_log import Restored, Stored, Then
from pubsub.reliable.journal import Change, Journal

_TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    origin INTEGER, number INTEGER, body BLOB, delivered INTEGER, taken INTEGER DEFAULT 0,
    dropped INTEGER DEFAULT 0, PRIMARY KEY (origin, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (origin INTEGER PRIMARY KEY, mark INTEGER);
"""


class SqliteLog:
    """A message that is dropped and taken leaves the file, once the mark of its origin has passed it. The
    file belongs to one member of one group: another one is refused."""

    def __init__(
        self,
        path: str | Path,
        owner: str,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.journal = Journal(path, _TABLES, owner, on_failure)
        ((last,),) = self.journal.read("SELECT max(delivered) FROM messages")
        self._deliveries = last or 0

    async def close(self) -> None:
        await self.journal.close()

    def restore(self) -> Restored:
        ask = self.journal.read
        marks = dict(ask("SELECT origin, mark FROM marks ORDER BY origin"))
        finished = ask("SELECT origin, number FROM messages WHERE delivered ORDER BY 1, 2")
        return Restored(
            copies=self._stored("NOT dropped ORDER BY origin, number"),
            untaken=self._stored("delivered AND NOT taken ORDER BY delivered"),
            marks=marks,
            above=tuple(one for one in finished if one[1] > marks.get(one[0], 0)),
        )

    def _stored(self, where: str) -> tuple[Stored, ...]:
        rows = self.journal.read(f"SELECT origin, number, body FROM messages WHERE {where}")
        return tuple(Stored(origin, number, _message(body)) for origin, number, body in rows)

    def held(self, stored: Stored, then: Then) -> None:
        body = encode(Packet("", stored.message.headers, stored.message.data))
        insert = "INSERT OR IGNORE INTO messages (origin, number, body) VALUES (?, ?, ?)"
        self.journal.write([(insert, (stored.origin, stored.number, body))], then)

    def delivered(self, origin: int, number: int, mark: int, then: Then) -> None:
        self._deliveries += 1
        update = "UPDATE messages SET delivered = ? WHERE origin = ? AND number = ?"
        changes: list[Change] = [
            (update, (self._deliveries, origin, number)),
            ("REPLACE INTO marks VALUES (?, ?)", (origin, mark)),
            _sweep(origin),
        ]
        self.journal.write(changes, then)

    def taken(self, origin: int, number: int) -> None:
        self._note("taken", origin, number)

    def dropped(self, origin: int, number: int) -> None:
        self._note("dropped", origin, number)

    def _note(self, column: str, origin: int, number: int) -> None:
        update = f"UPDATE messages SET {column} = 1 WHERE origin = ? AND number = ?"
        self.journal.write([(update, (origin, number)), _sweep(origin)])


def _sweep(origin: int) -> Change:
    delete = (
        "DELETE FROM messages WHERE origin = ?1 AND dropped AND taken"
        " AND number <= (SELECT mark FROM marks WHERE origin = ?1)"
    )
    return delete, (origin,)


def _message(body: bytes) -> Message:
    packet: Packet = decode(body)
    return Message(packet.data, packet.headers)
