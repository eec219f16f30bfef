"""Topics that HTTP clients follow: one subscription of the node for all readers of a topic.

What waits for readers, and what is kept of a topic for readers that come back, is bounded by the number of
events and, for all readers and all topics together, by bytes. When there is too much, those that hold more
than their equal share of it lose their oldest events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from overlay.bounded import Budget, Share
from overlay.errors import CamcastError
from pubsub.doors.mqtt.message import content_type_of, shown_data
from pubsub.event import Event
from pubsub.node import Node
from pubsub.text import as_json_data, json_line
from pubsub.topic import is_reserved


class Shown(NamedTuple):
    """An event as clients are shown it."""

    id: str
    """Empty for what is not an event."""
    text: str
    """A JSON object, in one line."""


def _shown(event: Event) -> Shown:
    id = event.id.hex()
    data = shown_data(event.topic, event.data)
    fields = {
        "id": id,
        "topic": event.topic,
        "publisher": event.publisher.hex(),
        "hops": event.hops,
        "data": as_json_data(data),
    }
    if isinstance(data, bytes):
        fields["encoding"] = "hex"
    if kind := content_type_of(event.topic, event.data):
        fields["type"] = kind
    return Shown(id, json_line(fields))


class Reader:
    """Events that wait for one client."""

    def __init__(self, most: int, budget: Budget, drop: Callable[[], None]) -> None:
        self._most = most
        self._share = Share(budget)
        self._drop = drop
        self._waiting: deque[Shown | None] = deque()
        self._news = asyncio.Event()

    def put(self, shown: Shown | None) -> None:
        """One more to be written; None: nothing more comes."""
        self._waiting.append(shown)
        self._share.add(0 if shown is None else len(shown.text))
        self._news.set()
        while len(self._waiting) > self._most or (len(self._waiting) and self._share.is_too_much):
            self._take()
            self._drop()

    def _take(self) -> Shown | None:
        shown = self._waiting.popleft()
        self._share.add(0 if shown is None else -len(shown.text))
        return shown

    async def next(self) -> Shown | None:
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        return self._take()

    def end(self) -> None:
        self._waiting.clear()
        self._share.end()


class Feed:
    """The readers of one topic, and the topic's latest events."""

    def __init__(
        self,
        node: Node,
        topic: str,
        *,
        most_kept: int,
        budget: Budget,
        seconds: float,
        forget: Callable[[Feed], None],
    ) -> None:
        """`most_kept` events, of the bytes in `budget`, are kept for readers that come back. The topic is
        followed for `seconds` after its last reader has gone; then `forget` is told."""
        self.topic = topic
        self._most_kept = most_kept
        self._share = Share(budget)
        self._seconds = seconds
        self._forget = forget
        self._readers: dict[Reader, None] = {}
        self._kept: dict[str, Shown] = {}
        """Events by their ids, in the order in which they came."""
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ending: asyncio.TimerHandle | None = None
        self._task = loop.create_task(self._run(node))

    async def _run(self, node: Node) -> None:
        try:
            async with node.subscribe(self.topic) as events:
                self._ready.set_result(None)
                async for event in events:
                    if not is_reserved(event.topic):
                        self._add(_shown(event))
        except CamcastError as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._forget(self)
            self._kept.clear()
            self._share.end()
            self.end()

    async def ready(self) -> None:
        await asyncio.shield(self._ready)

    def _add(self, shown: Shown) -> None:
        self._kept[shown.id] = shown
        self._share.add(len(shown.text))
        while len(self._kept) > self._most_kept or (self._kept and self._share.is_too_much):
            self._share.add(-len(self._kept.pop(next(iter(self._kept))).text))
        for reader in self._readers:
            reader.put(shown)

    def add(self, reader: Reader, last: str | None) -> None:
        """Another reader; what came after its `last` event first."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if last is not None:
            if last not in self._kept:
                what = {"gap": f"events after {last[:64]} may be missing"}
                reader.put(Shown("", json_line(what)))
            else:
                ids = list(self._kept)
                for event_id in ids[ids.index(last) + 1 :]:
                    reader.put(self._kept[event_id])
        self._readers[reader] = None

    def remove(self, reader: Reader) -> None:
        self._readers.pop(reader, None)
        reader.end()
        if not self._readers and not self._task.done():
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(self._seconds, self.expire)

    @property
    def is_idle(self) -> bool:
        """Whether it is followed only for readers that may come back."""
        return self._ending is not None

    def expire(self) -> None:
        """Nobody has come back: the next reader begins anew."""
        if self._ending is not None:
            self._ending.cancel()
        self._forget(self)
        self._task.cancel()

    def end(self) -> None:
        """Tell the readers that nothing more comes."""
        for reader in self._readers:
            reader.put(None)

    async def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
