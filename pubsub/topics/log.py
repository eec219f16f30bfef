"""What a participant must not forget when it crashes: `TopicLog` says what, a log says how."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlay.contact import PeerId
from overlay.wire import decode, encode
from pubsub.reliable.journal import Change, Journal
from pubsub.topics.messages import Entry, Item, NumbersOnWire, SourceNumbers


@dataclass(frozen=True)
class Restored:
    """What a log holds when a participant starts."""

    run: bytes | None = None
    """None when the participant is new."""
    boot: int = 0
    entries: tuple[Entry, ...] = ()
    received: NumbersOnWire = ()
    """Which messages of each source have been received."""
    held: tuple[Item, ...] = ()
    """Messages that a participant may lack."""
    unfinished: tuple[Item, ...] = ()
    """Messages that the application was not done with, in the order in which they came."""
    note: int = 0
    """The number that the application noted last."""


class TopicLog:
    """What a log is told. This one forgets everything; one that `is_durable` survives a crash from the moment
    at which `sync` calls back; before that, anything may be lost."""

    is_durable = False

    @property
    def is_failing(self) -> bool:
        """Whether the disk refuses what it is told: what has come waits to be written."""
        return False

    def restore(self) -> Restored:
        return Restored()

    def began(self, boot: int, run: bytes) -> None:
        """The participant runs in this boot; its messages are numbered in this run."""

    def took(self, item: Item, unfinished: bool) -> None:
        """A message was received or published; `unfinished` if the application gets it."""

    def finished(self, item: Item) -> None:
        """The application is done with it."""

    def collected(self, item: Item) -> None:
        """Everybody has it."""

    def knows(self, entry: Entry) -> None:
        """A participant joined, changed or left."""

    def noted(self, note: int) -> None:
        """The application wants to know this number again, in place of the one before."""

    def sync(self, received: Iterable[SourceNumbers], then: Callable[[], None]) -> None:
        """Put all that was told on the disk, together with the numbers of sources that have changed; `then`
        is called when it is there, which may be at once. While the disk fails, that is later; several are
        called in the order of the calls."""
        then()

    async def close(self) -> None:
        """Nothing more will be told."""


_TABLES = """
CREATE TABLE IF NOT EXISTS participant (one INTEGER PRIMARY KEY, boot INTEGER, run BLOB);
CREATE TABLE IF NOT EXISTS items (
    place INTEGER PRIMARY KEY AUTOINCREMENT, source BLOB, number INTEGER, item BLOB,
    unfinished INTEGER, held INTEGER DEFAULT 1, UNIQUE (source, number)
);
CREATE TABLE IF NOT EXISTS numbers (source BLOB PRIMARY KEY, mark INTEGER, ranges BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (one INTEGER PRIMARY KEY, note INTEGER);
CREATE TABLE IF NOT EXISTS participants (id BLOB PRIMARY KEY, entry BLOB) WITHOUT ROWID;
"""

_RANGE = struct.Struct(">QQ")


class SqliteTopicLog(TopicLog):
    """A message leaves the file when everybody has it and the application is done with it. The file belongs
    to one topic and one node: another one is refused."""

    is_durable = True

    def __init__(
        self,
        path: str | Path,
        topic: str,
        node: PeerId,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        owner = f"strong topic {topic} of node {node.hex()}"
        self.journal = Journal(path, _TABLES, owner, on_failure)
        self._changes: list[Change] = []
        """What the next `sync` writes, in one transaction."""
        self._restored = self._read()

    @property
    def is_failing(self) -> bool:
        return self.journal.failure is not None

    async def close(self) -> None:
        if self._changes:
            self.journal.write(self._changes)
            self._changes = []
        await self.journal.close()

    def restore(self) -> Restored:
        """What was read when the file was opened; it is given away."""
        restored, self._restored = self._restored, Restored()
        return restored

    def _read(self) -> Restored:
        ask = self.journal.read
        started = ask("SELECT boot, run FROM participant")
        if not started:
            return Restored()
        boot, run = started[0]
        return Restored(
            run,
            boot,
            tuple(decode(entry) for (entry,) in ask("SELECT entry FROM participants ORDER BY id")),
            tuple(
                (source, mark, _unpack(ranges))
                for source, mark, ranges in ask("SELECT * FROM numbers ORDER BY source")
            ),
            self._items("held"),
            self._items("unfinished"),
            next((note for (note,) in ask("SELECT note FROM note")), 0),
        )

    def _items(self, which: str) -> tuple[Item, ...]:
        rows = self.journal.read(f"SELECT item FROM items WHERE {which} ORDER BY place")
        return tuple(decode(item) for (item,) in rows)

    def began(self, boot: int, run: bytes) -> None:
        self._change("REPLACE INTO participant VALUES (1, ?, ?)", boot, run)

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

    def noted(self, note: int) -> None:
        self._change("REPLACE INTO note VALUES (1, ?)", note)

    def sync(self, received: Iterable[SourceNumbers], then: Callable[[], None]) -> None:
        numbers: list[Change] = [
            ("REPLACE INTO numbers VALUES (?, ?, ?)", (source, mark, _pack(ranges)))
            for source, mark, ranges in received
        ]
        changes, self._changes = self._changes, []
        self.journal.write([*changes, *numbers], then)

    def _change(self, statement: str, *values: Any) -> None:
        self._changes.append((statement, values))


def _pack(ranges: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(_RANGE.pack(first, last) for first, last in ranges)


def _unpack(packed: bytes) -> tuple[tuple[int, int], ...]:
    return tuple((first, last) for first, last in _RANGE.iter_unpack(packed))
