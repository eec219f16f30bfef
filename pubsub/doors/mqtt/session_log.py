"""Sessions at an archive: each record of a session is an event of one topic, for one durable name.

The name is the client's, and one door at a time has it. The door that has it leaves the latest record
unacknowledged, so that the archive gives that, and whatever came after it, to the next door. A door that
takes a name over writes a mark and reads up to it, so that it has every record that was safe before; then
it writes a record of a higher epoch, and what the door before still writes counts no more. So a record counts
for its writer when it has come back from the archive: that brings a name's events to one door at a time, and
whoever has the name after it reads the record too. That the record is safe is not enough: the archive may
have stored it behind the next door's mark.

A door that reads a record of a higher epoch than its own is displaced by that: the door that wrote it uses
another replica of the archive. Two doors that have taken the name over at the same time, from two replicas,
write the same epoch; the one with the greater token has the session.

A will of the client (`pubsub.doors.mqtt.will_log`) is an event of the name too, before a record has its id:
each takes the place of the one before, so the last of them counts, whether or not a record followed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from overlay.entropy import entropy
from overlay.errors import CamcastError
from pubsub.archive.errors import ArchiveError, Displaced
from pubsub.doors.mqtt.kept import INCARNATION_BYTES, Record
from pubsub.node import Node

if TYPE_CHECKING:
    from pubsub.archive.durable_event import DurableEvent
    from pubsub.archive.durable_subscription import DurableSubscription

SESSIONS = "/mqtt-sessions"
"""The topic whose archive keeps sessions."""

FIND_SECONDS = 10.0
"""How long an archive that is there may take to register a name, or to store a record."""

MOST_READ = 256
"""Events that are taken from the archive at a time."""

MARK_BYTES = 8

MOST_KEPT_WILLS = 8
"""Wills without a record, of which a door lets the archive forget older ones."""

MOVED, AFRESH = "moved", "afresh"
"""Words for the door that had a name: the client goes on at another door, or begins another session there."""

_Place = tuple[int, bytes, int]
"""The epoch of a record, its writer's token, and its number. The latest record has the greatest."""


async def safe_before(
    node: Node, events: DurableSubscription, said: dict[str, Any]
) -> AsyncIterator[DurableEvent]:
    """The events of a durable name that were safe before this call: up to a mark, which is written with what
    is `said` of the name. `CamcastError` when no archive answers."""
    mark = entropy().randbytes(MARK_BYTES)
    await node.keep(SESSIONS, {**said, "mark": mark}, deadline=FIND_SECONDS)
    is_marked = False
    while not is_marked:
        some = await events.fetch(MOST_READ, FIND_SECONDS, keep=True)
        if not some:
            raise ArchiveError("the archive does not bring what it has stored")
        for event in some:
            is_marked |= isinstance(event.data, dict) and event.data.get("mark") == mark
            yield event


def log_name(client_id: str) -> str:
    """The durable name of a client's session; it does not tell the client's id."""
    return "mqtt-session-" + hashlib.blake2s(client_id.encode(), digest_size=16).hexdigest()


class SessionLog:
    """One client's records, and this door as their writer: a `Keeping` of the hub."""

    def __init__(self, node: Node, client_id: str, word: str) -> None:
        """`word`: for the door that has the session."""
        self.name = log_name(client_id)
        self.token = entropy().randbytes(INCARNATION_BYTES)
        self._node = node
        where = f"session = '{self.name}'"
        self._events = node.subscribe(SESSIONS, durable=self.name, where=where, within=FIND_SECONDS)
        self._events.take_over(word)
        self._epoch = 0
        self._incarnation = b""
        """Of the session that this door writes, once it does."""
        self._number = 0
        self._latest: tuple[_Place, DurableEvent] | None = None
        """The latest record that has come from the archive, which is not acknowledged."""
        self._wills: dict[bytes, DurableEvent] = {}
        """By id: wills that no record that has come has the id of, which are not acknowledged."""
        self._read = 0
        """The number of the last record of this door that has come back."""
        self._came_back = asyncio.Event()
        self._next: asyncio.Future[tuple[Record, Callable[[bool], None]]] | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending: bool | None = None
        """Whether the archive is to forget the session; None while this door has it."""

    async def open(self) -> tuple[Record | None, bool, bytes]:
        """Take the name over; the session's last record, if there was a session, whether that has ended
        since, and the id of the client's last will. `CamcastError` when no archive answers."""
        await self._events.__aenter__()
        async for event in safe_before(self._node, self._events, {"session": self.name}):
            self._note(event)
        will = next(reversed(self._wills), b"")
        if self._latest is None:
            return None, True, will
        (self._epoch, _, _), event = self._latest
        record, is_over = _read(event.data)
        return record, is_over, will or (b"" if record is None else record.will)

    def _note(self, event: DurableEvent) -> None:
        """Keep the event if it is the latest record, and acknowledge any other."""
        place = _place(event.data)
        if place is None and isinstance(id := _will_id(event.data), bytes):
            self._wills[id] = event
            self._forget_wills(len(self._wills) - MOST_KEPT_WILLS)
            return
        if place is None or (self._latest is not None and place <= self._latest[0]):
            event.ack()
            return
        if self._latest is not None:
            self._latest[1].ack()
        self._latest = (place, event)
        record, _ = _read(event.data)
        if record is not None and record.will in self._wills:
            self._forget_wills(list(self._wills).index(record.will) + 1)

    def _forget_wills(self, first: int) -> None:
        for id in list(self._wills)[: max(0, first)]:
            self._wills.pop(id).ack()

    async def run(self, will_kept: Callable[[bytes], None]) -> None:
        """Write records, and let the archive forget what a later one stands for, until `end`. `will_kept` is
        told the ids of the client's wills that come meanwhile, from whichever door. `Displaced` when another
        door has taken the session over."""
        if self._ending is not None:
            return
        self._epoch += 1
        writing = asyncio.create_task(self._write_all())
        self._running = asyncio.create_task(self._read_all(will_kept))
        try:
            await self._running
        except asyncio.CancelledError:
            if self._ending is None:
                raise  # the door closes
        finally:
            writing.cancel()

    async def _read_all(self, will_kept: Callable[[bytes], None]) -> None:
        while events := await self._events.fetch(MOST_READ, keep=True):
            for event in events:
                self._note(event)
                if isinstance(id := _will_id(event.data), bytes):
                    will_kept(id)
            self._check_is_writer()
            if self._latest is not None and self._latest[0][:2] == (self._epoch, self.token):
                self._read = self._latest[0][2]
                self._came_back.set()

    def _check_is_writer(self) -> None:
        """`Displaced` when a door that uses another replica has the session."""
        if self._latest is None or self._latest[0][:2] <= (self._epoch, self.token):
            return
        record, _ = _read(self._latest[1].data)
        is_another = record is None or record.incarnation != self._incarnation
        raise Displaced(
            f"another door has taken {self.name!r} over", AFRESH if is_another else MOVED
        )

    async def _write_all(self) -> None:
        while True:
            self._next = self._next or asyncio.get_running_loop().create_future()
            record, written = await self._next
            self._next = None
            self._number += 1
            self._incarnation = record.incarnation
            data = {
                "session": self.name,
                "epoch": self._epoch,
                "writer": self.token,
                "number": self._number,
                "at": time.time(),
                "record": record.to_data(),
            }
            try:
                await self._node.keep(SESSIONS, data, deadline=FIND_SECONDS)
            except CamcastError:
                written(False)
            else:
                while self._read < self._number:
                    self._came_back.clear()
                    await self._came_back.wait()
                written(True)

    async def close(self) -> None:
        with suppress(CamcastError):
            await (self._events.leave() if self._ending else self._events.close())

    # -- for the hub --

    def write(self, record: Record, written: Callable[[bool], None]) -> None:
        self._next = self._next or asyncio.get_running_loop().create_future()
        self._next.set_result((record, written))

    def end(self, forget: bool) -> None:
        self._ending = forget
        if self._running is not None:
            self._running.cancel()


def _place(data: Any) -> _Place | None:
    """The epoch, the writer and the number of a record; None for anything else."""
    match data:
        case {"record": _, "epoch": int(epoch), "writer": bytes(writer), "number": int(number)}:
            return epoch, writer, number
    return None


def _will_id(data: Any) -> Any:
    """The id of a will, if this is one."""
    return data.get("id") if isinstance(data, dict) and "wills" in data else None


def _read(data: Any) -> tuple[Record | None, bool]:
    """The record, and whether the session has ended with its connection, or has expired since the client
    left."""
    try:
        record = Record.from_data(data["record"])
        away = time.time() - float(data["at"])
    except (KeyError, TypeError, ValueError):
        return None, True
    is_over = record.expiry <= 0 or (not record.is_connected and away > record.expiry)
    return record, is_over
