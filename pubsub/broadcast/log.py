"""What a member must not forget when it crashes: the layer says what (`StableLog`), a log says how: in an
SQLite file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from overlay.wire import decode, encode
from pubsub.broadcast.events import GroupPacket, LayerMessage
from pubsub.reliable.journal import Change, Journal

Then = Callable[[], None]


class StoredMessage(NamedTuple):
    """A message in the log, as it was broadcast."""

    origin: int
    number: int
    message: LayerMessage


@dataclass(frozen=True)
class RestoredMember:
    """What a log holds when a member starts."""

    copies: tuple[StoredMessage, ...] = ()
    """Messages that are held for others, or not delivered yet."""

    untaken: tuple[StoredMessage, ...] = ()
    """Those that were delivered and that the application was not done with, in the order of delivery."""

    marks: dict[int, int] = field(default_factory=dict)
    """By origin: up to where every message was delivered."""

    above: tuple[tuple[int, int], ...] = ()
    """Origin and number of messages that were delivered above the mark."""


class StableLog:
    """What a log is told. This one forgets everything; one that `is_durable` survives a crash. `then` is
    called when what a method was told is on the disk, which may be at once; while the disk fails, that is
    later. `dropped` and `taken` may be forgotten: the one costs that a message is offered to others again,
    the other that it is delivered again."""

    is_durable = False

    def restore(self) -> RestoredMember:
        return RestoredMember()

    def held(self, stored: StoredMessage, then: Then) -> None:
        """The member holds this message, and is about to say so."""
        then()

    def delivered(self, origin: int, number: int, mark: int, then: Then) -> None:
        """It is about to deliver this one; all of the origin's up to `mark` are delivered now."""
        then()

    def taken(self, origin: int, number: int) -> None:
        """The application is done with it."""

    def dropped(self, origin: int, number: int) -> None:
        """Others keep it, or all have it."""


_TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    origin INTEGER, number INTEGER, body BLOB, delivered INTEGER, taken INTEGER DEFAULT 0,
    dropped INTEGER DEFAULT 0, PRIMARY KEY (origin, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (origin INTEGER PRIMARY KEY, mark INTEGER);
"""


class SqliteGroupLog(StableLog):
    """A message that is dropped and taken leaves the file, once the mark of its origin has passed it. The
    file belongs to one member of one group: another one is refused."""

    is_durable = True

    def __init__(
        self,
        path: str | Path,
        owner: str,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.journal = Journal(path, _TABLES, owner, on_failure)
        ((last,),) = self.journal.read("SELECT max(delivered) FROM messages")
        self._deliveries = last or 0
        self._restored = self._read()

    async def close(self) -> None:
        await self.journal.close()

    def restore(self) -> RestoredMember:
        """What was read when the file was opened; it is given away."""
        restored, self._restored = self._restored, RestoredMember()
        return restored

    def _read(self) -> RestoredMember:
        ask = self.journal.read
        marks = dict(ask("SELECT origin, mark FROM marks ORDER BY origin"))
        finished = ask("SELECT origin, number FROM messages WHERE delivered ORDER BY 1, 2")
        return RestoredMember(
            copies=self._stored("NOT dropped ORDER BY origin, number"),
            untaken=self._stored("delivered AND NOT taken ORDER BY delivered"),
            marks=marks,
            above=tuple(one for one in finished if one[1] > marks.get(one[0], 0)),
        )

    def _stored(self, where: str) -> tuple[StoredMessage, ...]:
        rows = self.journal.read(f"SELECT origin, number, body FROM messages WHERE {where}")
        return tuple(StoredMessage(origin, number, _message(body)) for origin, number, body in rows)

    def held(self, stored: StoredMessage, then: Then) -> None:
        body = encode(GroupPacket("", stored.message.headers, stored.message.data))
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


def _message(body: bytes) -> LayerMessage:
    packet: GroupPacket = decode(body)
    return LayerMessage(packet.data, packet.headers)
