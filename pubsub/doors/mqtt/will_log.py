"""Wills at an archive, for the case that a door is killed: each is an event of the sessions' topic.

A door writes its clients' wills into *segments*. A segment is a durable name, which one door has at a time.
It holds `MOST_WILLS` wills at most, and what ends them: that a will was published, that its client said
goodbye, or that the client has come back, to whichever door. No event of a segment is acknowledged, so
whoever has the name after a crash reads all of it, and inherits the wills that have not ended. A segment in
which all wills have ended, and which takes no more, is forgotten.

What became of a will that the archive has not confirmed, and whether another door has ended one whose
delay has passed, a door learns from the segment: it writes a mark and reads up to it. A will also names the
session of its client, so that the door to which the client connects next finds it there, though the door
before was not answered and wrote no record of it.

A door that others took for dead, and that is there, writes the wills of its connected clients to a segment
anew: one event, which ends them in the segment that another door has now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from overlay.entropy import entropy
from overlay.errors import CamcastError
from pubsub.archive.errors import ArchiveError, Displaced
from pubsub.doors.mqtt.message import message_in, topic_of
from pubsub.doors.mqtt.session_log import (
    FIND_SECONDS,
    MARK_BYTES,
    MOST_READ,
    SESSIONS,
    log_name,
    safe_before,
)
from pubsub.doors.mqtt.wills import SEGMENT_BYTES, KeptWill
from pubsub.node import Node

if TYPE_CHECKING:
    from pubsub.doors.mqtt.hub import Hub

NUMBER_BYTES = 8
"""Of a will's own number, by which its id ends."""

MOST_WILLS = 500
MOST_BYTES = 1024 * 1024
"""Of wills in one segment. An archive gives nobody more than three times as much unacknowledged."""

AGAIN_SECONDS = 2.0
"""How long a door waits after an archive has not answered it."""


def _where(segment: bytes) -> str:
    name = segment.hex()
    return f"wills = '{name}' or ends = '{name}'"


class Segment:
    """One segment, which this door has."""

    def __init__(self, node: Node, id: bytes, heard: Callable[[bytes, KeptWill | None], None]):
        """`heard`: a will has come, or None: it has ended."""
        self.id = id
        self.wills = self.size = 0
        self.live: dict[bytes, bool] = {}
        """Ids of wills that have not ended, and whether the archive is known to have them."""
        self.is_full = False
        self._node = node
        self._heard = heard
        self._marks: dict[bytes, asyncio.Future[None]] = {}
        name = f"mqtt-wills-{id.hex()}"
        self._events = node.subscribe(SESSIONS, durable=name, where=_where(id), within=FIND_SECONDS)

    async def open(self) -> None:
        await self._events.__aenter__()

    async def read_all(self) -> dict[bytes, KeptWill]:
        """The wills that have not ended, of all that were safe before this call. `CamcastError` when no
        archive answers."""
        found: dict[bytes, KeptWill | None] = {}
        said = {"ends": self.id.hex(), "ended": []}
        async for event in safe_before(self._node, self._events, said):
            self._take(event.data, lambda id, will: _note(found, id, will))
        left = {id: will for id, will in found.items() if will is not None}
        self.live = dict.fromkeys(left, True)
        return left

    async def look(self) -> None:
        """Return when all that was safe before this call has been heard. `CamcastError` when no archive
        answers."""
        mark = entropy().randbytes(MARK_BYTES)
        came = self._marks[mark] = asyncio.get_running_loop().create_future()
        said = {"ends": self.id.hex(), "ended": [], "mark": mark}
        try:
            await self._node.keep(SESSIONS, said, deadline=FIND_SECONDS)
            async with asyncio.timeout(FIND_SECONDS):
                await came
        except TimeoutError:
            raise ArchiveError("the archive does not bring what it has stored") from None
        finally:
            del self._marks[mark]

    async def run(self) -> None:
        """Hear of wills that other doors end. `Displaced` when another door has the segment."""
        while events := await self._events.fetch(MOST_READ, keep=True):
            for event in events:
                self._take(event.data, self._heard)

    def _take(self, data: Any, heard: Callable[[bytes, KeptWill | None], None]) -> None:
        """Whoever may publish may write anything."""
        if not isinstance(data, dict):
            return
        if data.get("wills") == self.id.hex():
            will = _read(data)
            if will is not None:
                heard(data["id"], will)
        ended = data.get("ended")
        if data.get("ends") == self.id.hex() and isinstance(ended, list):
            for id in ended:
                if type(id) is bytes:
                    heard(id, None)
        mark = data.get("mark")
        if type(mark) is bytes and mark in self._marks and not self._marks[mark].done():
            self._marks[mark].set_result(None)

    async def close(self, forget: bool) -> None:
        with suppress(CamcastError):
            await (self._events.leave() if forget else self._events.close())


def _end(*ids: bytes) -> dict[str, Any]:
    """That these wills of one segment have ended."""
    return {"ends": ids[0][:SEGMENT_BYTES].hex(), "ended": list(ids)}


def _note(found: dict[bytes, KeptWill | None], id: bytes, will: KeptWill | None) -> None:
    """One that has ended does not begin again: what a door wrote and was not answered may come late."""
    if will is None or id not in found:
        found[id] = will


def _read(data: dict[str, Any]) -> KeptWill | None:
    id, topic, message, delay = (data.get(one) for one in ("id", "topic", "message", "delay"))
    if type(id) is not bytes or type(topic) is not str or not isinstance(delay, int | float):
        return None
    read = message_in(topic, message)
    return None if read is None else KeptWill(read, float(delay))


class WillLog:
    """All wills that this door has at the archive."""

    def __init__(self, node: Node, start: Callable[[Any], Any]) -> None:
        """`start`: run something as a task of the door's."""
        self.hub: Hub
        self._node = node
        self._start = start
        self._segments: dict[bytes, Segment] = {}
        self._current: Segment | None = None
        self._opening = asyncio.Lock()
        self._ended: dict[bytes, list[bytes]] = {}
        """By segment: what is to be written down as ended, at the end of this turn of the loop."""
        self._writing: set[asyncio.Task[None]] = set()
        self._looking: dict[bytes, list[Callable[[], None]]] = {}
        """By segment: what waits until it has been read."""

    # -- this door's --

    def keep_for(
        self,
        will: KeptWill | None,
        before: bytes,
        written: Callable[[bytes | None], None],
        is_same: bool = False,
    ) -> None:
        """As `keep`, for the hub: `written` is told the new id, or None when no archive answers."""

        async def keep() -> None:
            id: bytes | None = None
            try:
                id = await self.keep(will, before, is_same)
            except CamcastError:
                self.hub.drop("archive_lost")
            written(id)

        self._start(keep())

    async def keep(self, will: KeptWill | None, before: bytes, is_same: bool = False) -> bytes:
        """Have a will kept, and note that the one of the id `before` has ended, if there was one. `is_same`:
        it is that one, which another door has taken over. The new id; empty without a will. `CamcastError`
        when no archive answers: with `is_same` the call is to be made again."""
        if will is None:
            await self._node.keep(SESSIONS, _end(before), deadline=FIND_SECONDS)
            return b""
        number = before[SEGMENT_BYTES:] if is_same else entropy().randbytes(NUMBER_BYTES)
        packed = will.message.to_data()
        while True:
            segment = await self._room(len(packed))
            id = segment.id + number
            segment.live[id] = False
            data = {
                "session": log_name(will.client_id),
                "wills": segment.id.hex(),
                "id": id,
                "topic": topic_of(will.message.topic),
                "message": packed,
                "delay": will.delay,
            }
            if before:
                data |= _end(before)
            try:
                await self._node.keep(SESSIONS, data, deadline=FIND_SECONDS)
            except BaseException as error:  # it may be there all the same
                if before and not is_same and isinstance(error, CamcastError):
                    self.look_for_end(id, partial(self._settle, id, will, before))
                elif not is_same:
                    self.over(id)
                raise
            if segment.id in self._segments:
                return id
            before = id  # another door has taken the segment over meanwhile

    async def _room(self, size: int) -> Segment:
        """The segment that a will of this size is written to."""
        async with self._opening:
            now = self._current
            if now is not None:
                now.is_full = now.wills >= MOST_WILLS or now.size + size > MOST_BYTES > size
            if now is None or now.is_full:
                self._current = None
                if now is not None and not now.live:
                    self._drop(now, forget=True)
                segment = Segment(self._node, entropy().randbytes(SEGMENT_BYTES), self._heard)
                await segment.open()
                self._current = now = segment
                self._have(segment)
            now.wills += 1
            now.size += size
            return now

    def over(self, id: bytes) -> None:
        """A will was published, or is not to be."""
        segment = self._segments.get(id[:SEGMENT_BYTES])
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._write_ended)
        self._ended.setdefault(id[:SEGMENT_BYTES], []).append(id)
        if segment is not None:
            self._over(segment, id)

    def _over(self, segment: Segment, id: bytes) -> None:
        segment.live.pop(id, None)
        if not segment.live and segment is not self._current:
            self._drop(segment, forget=True)

    def _write_ended(self) -> None:
        ended, self._ended = self._ended, {}
        for ids in ended.values():
            task = self._start(self._write_end(ids))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write_end(self, ids: list[bytes]) -> None:
        try:
            await self._node.keep(SESSIONS, _end(*ids), deadline=FIND_SECONDS)
        except CamcastError:
            self.hub.drop("archive_lost")

    def _settle(self, id: bytes, will: KeptWill, before: bytes) -> None:
        """What the archive has of a will that was to take the place of another one is known: if it is there,
        the other one has ended, and this one is to come, since the client was not let in."""
        segment = self._segments.get(id[:SEGMENT_BYTES])
        if segment is None:
            return  # another door has the segment, and inherits what is there
        if segment.live.get(id):
            self.hub.wills.inherit(id, will, before)
        else:
            self.over(id)

    def end_elsewhere(self, id: bytes) -> None:
        segment = self._segments.get(id[:SEGMENT_BYTES])
        if segment is None or id not in segment.live:
            self.over(id)

    def look_for_end(self, id: bytes, then: Callable[[], None]) -> None:
        segment = id[:SEGMENT_BYTES]
        waiting = self._looking.get(segment)
        if waiting is None:
            waiting = self._looking[segment] = []
            self._start(self._look(segment, waiting))
        waiting.append(then)

    async def _look(self, id: bytes, waiting: list[Callable[[], None]]) -> None:
        while (segment := self._segments.get(id)) is not None:
            some = len(waiting)
            try:
                await segment.look()
            except CamcastError:
                self.hub.drop("archive_lost")
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            looked, waiting[:some] = waiting[:some], []
            for then in looked:
                then()
            if not waiting:
                break
        for then in self._looking.pop(id):
            then()

    # -- segments --

    def _have(self, segment: Segment) -> None:
        self._segments[segment.id] = segment
        self._start(self._run(segment))
        self.hub.doors.keeps(self._segments)

    def _drop(self, segment: Segment, forget: bool) -> None:
        if self._segments.pop(segment.id, None) is not None:
            self.hub.doors.keeps(self._segments)
            self._start(segment.close(forget))

    async def _run(self, segment: Segment) -> None:
        try:
            await segment.run()
        except Displaced:  # other doors take this one for dead
            self._lose(segment)
        except CamcastError:
            self.hub.drop("archive_lost")
            if segment.id in self._segments:
                await self._open_again(segment)

    async def _open_again(self, segment: Segment) -> None:
        """The archive has ended the subscription: the segment is still this door's, for others to inherit."""
        await segment.close(forget=False)
        if self._current is segment:
            self._current = None  # which takes no more
        while self._segments.get(segment.id) is segment:
            again = Segment(self._node, segment.id, self._heard)
            again.live = segment.live
            try:
                await again.open()
            except CamcastError:
                await again.close(forget=False)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if self._segments.get(segment.id) is segment:
                self._segments[segment.id] = again
                self._start(self._run(again))
            else:  # its last will has ended meanwhile
                await again.close(forget=True)

    def _lose(self, segment: Segment) -> None:
        """Another door has the segment: what it holds of clients that are here is written down again."""
        if self._current is segment:
            self._current = None
        self._drop(segment, forget=False)
        self.hub.entering.wills_lost(segment.live)

    def _heard(self, id: bytes, will: KeptWill | None) -> None:
        """What has come in a segment that this door has; its own wills come back to it too."""
        segment = self._segments.get(id[:SEGMENT_BYTES])
        if segment is None or id not in segment.live:
            return
        if will is None:
            self.hub.wills.leave((id,))
            self._over(segment, id)
        else:
            segment.live[id] = True

    def inherit(self, segment: bytes) -> None:
        """The door that had the segment is gone."""
        self._start(self._inherit(segment))

    async def _inherit(self, id: bytes) -> None:
        """Take a segment over. The archive gives it away only when the door before is not in touch with it;
        a door that is, and is heard again, keeps the segment."""
        try:
            while not self.hub.doors.is_kept(id):
                segment = Segment(self._node, id, self._heard)
                try:
                    await segment.open()
                    wills = await segment.read_all()
                except CamcastError:
                    await segment.close(forget=False)
                    self.hub.drop("archive_lost")
                    await asyncio.sleep(AGAIN_SECONDS)
                    continue
                self._have(segment)
                for will_id, will in wills.items():
                    self.hub.wills.inherit(will_id, will)
                if not wills:
                    self._drop(segment, forget=True)
                return
        finally:
            self.hub.doors.settled(id)

    async def close(self) -> None:
        """Write down what has ended; other doors inherit the rest."""
        if self._ended:
            self._write_ended()
        if self._writing:
            await asyncio.wait(self._writing, timeout=1.0)
        for segment in self._segments.values():
            await segment.close(forget=not segment.live)
