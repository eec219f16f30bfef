"""Subscribes to services through distributors.

    async with Subscriber(bootstrap=["127.0.0.1:4000"]) as subscriber:
        async with subscriber.subscribe("ticker") as messages:
            async for message in messages:
                print(message.data)

`semantics` says what a subscriber may miss when its distributor fails:

    gap      what the next distributor no longer has is skipped, and comes as a `Gap` with its bounds
    no_gap   distributors keep a message until this subscriber has it; should their memory or patience end
             first (see `DistributorConfig`), the iterator raises `GapError`, and goes on after it

Messages of one publisher come in order, and none comes twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, get_args

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.distributors.client import LightClient, NoSuchService
from pubsub.distributors.content import check_service, unpack_content
from pubsub.distributors.protocol.reception import Delivery
from pubsub.distributors.protocol.subscription import SubscriptionCore
from pubsub.reliable.runs import Gap, GapError, publisher_of, run_of

Semantics = Literal["gap", "no_gap"]

ADVICE = "raise buffer_bytes or no_gap_patience at the distributors, or read faster"

REMEMBERED_EVENTS = 4096
"""Events of a topic by which a second copy, from another distributor's feed, is recognised."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a service."""

    service: str
    data: Any
    publisher: PeerId
    """Who published it."""
    run: bytes
    """Of the publisher, or of the distributor that feeds a topic into the service."""
    sequence: int
    """Counts the messages of the source in this service, from 1."""
    topic: str | None = None
    """The topic that the message is an event of, where the service is fed by one."""


class Subscriber(LightClient):
    """A light subscriber: it finds a distributor, and another one when that fails."""

    def __init__(self, **options: Any) -> None:
        """The options are those of `LightClient`."""
        super().__init__(**options)
        self._subscriptions: list[ServiceSubscription] = []

    def subscribe(self, service: str, *, semantics: Semantics = "gap") -> ServiceSubscription:
        """A subscription, which begins when it is entered with `async with`."""
        self._open()
        if semantics not in get_args(Semantics):
            raise UsageError(f'semantics is "gap" or "no_gap", not {semantics!r}')
        subscription = ServiceSubscription(self, check_service(service), semantics)
        self._subscriptions.append(subscription)
        return subscription

    async def close(self) -> None:
        """End all subscriptions without a word, and stop; more than once is fine."""
        for subscription in list(self._subscriptions):
            subscription.end()
        await super().close()


class ServiceSubscription:
    """Iterate over it inside `async with`, from one task at a time.

    What waits for the application is bounded by `ClientConfig.room`; beyond it the distributor holds back.
    """

    def __init__(self, subscriber: Subscriber, service: str, semantics: Semantics) -> None:
        self.service = service
        self.semantics = semantics
        self.gaps = 0
        """Messages that were reported missing."""
        self._subscriber = subscriber
        self._room = subscriber.config.room
        self._queue: deque[Message | Gap] = deque()
        self._events: OrderedDict[bytes, None] = OrderedDict()
        self._arrival = asyncio.Event()
        self._core: SubscriptionCore | None = None
        self._ended = False
        self._is_removed = False
        self._drops = subscriber.metrics.family(
            "service_messages_dropped", "reason", "Messages of services that were not delivered"
        )

    async def __aenter__(self) -> Self:
        """Subscribe; returns when a distributor has acknowledged it.

        `NoSuchService` when they do not know the service, `NoDistributor` when none answers."""
        if self._core is not None:
            raise UsageError("a subscription is entered once; call subscribe again")
        self._core = self._subscriber._subscription_core(
            self.service,
            no_gap=self.semantics == "no_gap",
            deliver=self._deliver,
            report=self._report,
            removed=self._removed,
            room=lambda: self._room - len(self._queue),
        )
        try:
            await self._subscriber._connected(self._core, self.service)
        except BaseException:
            self.end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> bool:
        """Unsubscribe; whether a distributor has acknowledged it. More than once is fine."""
        if self._core is None or self._ended:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answered(acknowledged: bool) -> None:
            if not answer.done():
                answer.set_result(acknowledged)

        try:
            self._core.unsubscribe(answered)
            return await answer
        finally:
            self.end()

    @property
    def primary(self) -> PeerId | None:
        """The distributor that serves this subscription now."""
        primary = self._core.keeper.primary if self._core is not None else None
        return None if primary is None else primary.id

    @property
    def changes(self) -> int:
        """How often the connection to a distributor was lost so far."""
        return self._core.keeper.changes if self._core is not None else 0

    def __len__(self) -> int:
        """How many messages and gaps wait."""
        return len(self._queue)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message | Gap:
        while not self._queue:
            if self._is_removed:
                raise NoSuchService(f"the service {self.service!r} was removed")
            if self._ended:
                raise StopAsyncIteration
            if self._core is None:
                raise UsageError("iterate over a subscription inside `async with`")
            self._arrival.clear()
            await self._arrival.wait()
        next_one = self._queue.popleft()
        if len(self._queue) == self._room // 2 and self._core is not None and not self._ended:
            self._core.resume()
        if isinstance(next_one, Gap) and self.semantics == "no_gap":
            raise GapError(next_one, ADVICE)
        return next_one

    def end(self) -> None:
        """No message comes any more; the iterator ends after those that wait."""
        self._ended = True
        core = self._core
        if core is not None:
            core.stop()
            if core in self._subscriber._subscribed:
                self._subscriber._subscribed.remove(core)
        if self in self._subscriber._subscriptions:
            self._subscriber._subscriptions.remove(self)
        self._arrival.set()

    def _deliver(self, delivery: Delivery) -> None:
        try:
            carried = unpack_content(delivery.data)
        except WireError as error:
            self._drops.add(error.reason)
            return
        if carried.event_id is not None and self._is_known(carried.event_id):
            self._drops.add("duplicate_event")
            return
        message = Message(
            delivery.service,
            carried.data,
            carried.publisher or publisher_of(delivery.source),
            run_of(delivery.source),
            delivery.sequence,
            carried.topic,
        )
        self._queue.append(message)
        self._arrival.set()

    def _removed(self) -> None:
        self._is_removed = True
        self.end()

    def _report(self, gap: Gap) -> None:
        self.gaps += gap.count
        self._queue.append(gap)
        self._arrival.set()

    def _is_known(self, event_id: bytes) -> bool:
        if event_id in self._events:
            return True
        self._events[event_id] = None
        if len(self._events) > REMEMBERED_EVENTS:
            self._events.popitem(last=False)
        return False
