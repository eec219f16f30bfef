"""Durable publishing: an event's companion goes to an archive, and its receipt tells when it is safe."""

from __future__ import annotations

import asyncio
import heapq
from functools import partial
from typing import TYPE_CHECKING

from overlay.errors import ClosedError
from pubsub.archive.client import NEARER_SECONDS, DurableClient, none_found
from pubsub.archive.errors import DurableUsageError, NoRoom, NotSafe
from pubsub.archive.protocol.archived_event import pack_event
from pubsub.archive.protocol.finder import FoundArchive
from pubsub.archive.protocol.publisher import DurablePublisher
from pubsub.reliable.receipts import Budget
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.publishing import Receipt

_Waiting = list[tuple[int, int, int, asyncio.Future[None]]]


class DurableOutcome:
    """What is known of an event at its archive; kept up after `publish` returned."""

    __slots__ = ("_publishing", "catenation", "copies", "topic")

    def __init__(self, publishing: DurablePublishing, catenation: int, copies: int) -> None:
        self._publishing = publishing
        self.topic = publishing.core.topic
        """The managed topic: the event's own or a super-topic."""
        self.catenation = catenation
        """The publisher's number for it there; it goes on after a restart under the same identity."""
        self.copies = copies

    @property
    def is_safe(self) -> bool:
        """Whether it is on stable storage at `copies` replicas."""
        return self._publishing.core.is_safe(self.catenation, self.copies)

    async def wait_safe(self, within: float | None = None) -> None:
        """Wait until the event is safe; `TimeoutError` after `within` seconds."""
        await self._publishing.safe(self.catenation, self.copies, within)

    @property
    def replicas(self) -> int:
        """How many replicas the archive knows of, itself included; 0 when none has answered."""
        return self._publishing.core.replicas

    def __repr__(self) -> str:
        return f"DurableOutcome({self.topic} #{self.catenation}, safe: {self.is_safe})"


class DurablePublishing:
    """This node's stream of events to the archives of one managed topic."""

    def __init__(self, client: DurableClient, topic: str, repeats: bool = False) -> None:
        self._waiting: dict[int, _Waiting] = {}
        """By the number of copies that is waited for: heaps of the numbers that events had when it was last
        looked, with the order of waiting and the number that the application knows."""
        self._for_room: list[asyncio.Future[None]] = []
        self._waits = 0
        self._closed = False
        self.core = DurablePublisher(
            client.runtime.context("channel"),
            topic,
            client.config,
            on_progress=self._progress,
            on_silent=lambda: client.search_for(self.core),
            repeats=repeats,
        )

    def add(self, body: bytes, signature: bytes, copies: int) -> DurableOutcome:
        """Send an event to the archive."""
        return DurableOutcome(self, self.core.add(pack_event(body, signature), copies), copies)

    async def room(self) -> None:
        """Wait while as many events as may be kept wait to become safe."""
        while not self.core.has_room:
            change = self._future()
            self._for_room.append(change)
            await change

    async def safe(self, catenation: int, copies: int, within: float | None = None) -> None:
        """Wait until an event is safe; `TimeoutError` after `within` seconds."""
        if self.core.is_safe(catenation, copies):
            return
        change = self._future()
        self._waits += 1
        heap = self._waiting.setdefault(copies, [])
        number = self.core.number_of(catenation)
        heapq.heappush(heap, (number, self._waits, catenation, change))
        if within is None:
            await change
            return
        # What `asyncio.timeout` does costs as much as all the rest of waiting, and each event waits.
        timer = change.get_loop().call_later(within, _expire, change)
        try:
            await change
        finally:
            timer.cancel()

    def _future(self) -> asyncio.Future[None]:
        if self._closed:
            raise ClosedError("the node was closed before the event was safe")
        return asyncio.get_running_loop().create_future()

    def _progress(self) -> None:
        for copies, heap in self._waiting.items():
            self._settle_safe(copies, heap)
        if self._for_room and self.core.has_room:
            waiting, self._for_room = self._for_room, []
            for change in waiting:
                _settle(change)

    def _settle_safe(self, copies: int, heap: _Waiting) -> None:
        while heap:
            before, order, catenation, change = heap[0]
            number = self.core.number_of(catenation)
            if self.core.is_safe(catenation, copies):
                heapq.heappop(heap)
                _settle(change)
            elif number != before:
                heapq.heapreplace(heap, (number, order, catenation, change))
            else:
                return

    def close(self) -> None:
        """Close; callers that still wait get `ClosedError`."""
        self._closed = True
        self.core.close()
        waiting = [entry[3] for heap in self._waiting.values() for entry in heap]
        for change in (*waiting, *self._for_room):
            if not change.done():
                change.set_exception(ClosedError("the node was closed before the event was safe"))


def _expire(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_exception(TimeoutError())


def _settle(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)


class DurablePublishers:
    """The streams of one node, made on first use."""

    def __init__(self, client: DurableClient) -> None:
        self._client = client
        self.repeats = False
        """Events of streams that are opened from now on may have been archived before."""
        self._by_topic: dict[str, DurablePublishing] = {}
        """What is published durably, by the topic that it is published to."""
        self._managed: dict[str, DurablePublishing] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._looked_at: dict[str, float] = {}
        """When it was last seen that a topic published to has no nearer archive."""

    async def open(self, topic: Topic, copies: int, budget: Budget) -> DurablePublishing:
        """The stream for a topic, once its archive has been found and there is room for one more event."""
        if not isinstance(copies, int) or copies < 1:
            raise DurableUsageError(f"copies is a number of replicas, 1 or more, not {copies!r}")
        publishing = self._by_topic.get(topic.name) or await self._find(topic, budget)
        if publishing.core.topic != topic.name:
            self._look_nearer(topic, publishing.core.topic)
        if not publishing.core.has_room:
            await self._room(publishing, budget)
        return publishing

    def _look_nearer(self, topic: Topic, managed: str) -> None:
        """Subscribers that come from here on use the nearest archive there is: so must later events."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at[topic.name] >= NEARER_SECONDS:
            self._looked_at[topic.name] = now
            here = self._client.runtime.contact.id
            self._client.look_nearer(topic, managed, here, partial(self._use, topic))

    async def _room(self, publishing: DurablePublishing, budget: Budget) -> None:
        try:
            async with asyncio.timeout(budget.left):
                await publishing.room()
        except TimeoutError:
            core = publishing.core
            short = ""
            if core.short_of_copies:
                short = (
                    f", {core.short_of_copies} of them on more replicas than the one that has them"
                )
            raise NoRoom(
                f"{core.owed} events of {core.topic} wait to become safe{short}, and there was no room for "
                f"another one within {budget.seconds:g} s: check that enough archives of the topic run"
            ) from None

    async def _find(self, topic: Topic, budget: Budget) -> DurablePublishing:
        """Find the topic's archive; of several callers one searches, and the others wait for it."""
        try:
            async with asyncio.timeout(budget.left):
                async with self._opening.setdefault(topic.name, asyncio.Lock()):
                    if topic.name not in self._by_topic:
                        here = self._client.runtime.contact.id
                        found = await self._client.find(topic, here, budget)
                        self._looked_at[topic.name] = asyncio.get_running_loop().time()
                        self._use(topic, found)
        except TimeoutError:
            raise none_found(topic, budget) from None
        return self._by_topic[topic.name]

    def _use(self, topic: Topic, found: FoundArchive) -> None:
        """Have the topic's events go to the archives of the topic that was found, from here on."""
        publishing = self._managed.get(found.topic)
        if publishing is None:
            publishing = DurablePublishing(self._client, found.topic, self.repeats)
            self._client.add_publisher(publishing.core)
            self._managed[found.topic] = publishing
            self._client.use(publishing.core, found)
        self._by_topic[topic.name] = publishing

    def close(self) -> None:
        for publishing in self._managed.values():
            publishing.close()


async def wait_until_safe(receipt: Receipt, budget: Budget) -> None:
    """Wait for a durable event's archive; `NotSafe` when it does not say so in time."""
    outcome = receipt.durable
    assert outcome is not None
    try:
        await outcome.wait_safe(budget.left)
    except TimeoutError:
        why = "no archive has answered"
        if outcome.replicas:
            why = f"{outcome.replicas} replicas are known of the archive"
        raise NotSafe(
            f"event {outcome.catenation} of {outcome.topic} is not known to be on {outcome.copies} "
            f"replicas within {budget.seconds:g} s ({why}); it is still being sent",
            receipt,
        ) from None
