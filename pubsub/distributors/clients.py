"""Publishers and subscribers of services: light clients of distributors.

    async with Publisher(bootstrap=["127.0.0.1:4000"]) as publisher:
        await publisher.create("ticker")
        await publisher.publish("ticker", {"CMC": 17.5})

    async with Subscriber(bootstrap=["127.0.0.1:4000"]) as subscriber:
        async with subscriber.subscribe("ticker") as messages:
            async for message in messages:
                print(message.data)

A message that was acknowledged reaches every distributor, and through it every subscriber that is promised
it, unless its distributor and this publisher both fail before another distributor has it.

`semantics` says what a subscriber may miss when its distributor fails:

    gap      what the next distributor no longer has is skipped, and comes as a `Gap` with its bounds
    no_gap   distributors keep a message until this subscriber has it; should their memory or patience end
             first (see `DistributorConfig`), the iterator raises `GapError`, and goes on after it

Messages of one publisher come in order, and none comes twice. `gaps` changes how a gap is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from overlay.bounded import remember
from overlay.contact import PeerId
from overlay.entropy import entropy
from overlay.errors import UsageError, check_function
from overlay.futures import Futures
from overlay.wire import WireError
from pubsub.distributors.light_client import LightClient, NoDistributor, NoSuchService
from pubsub.distributors.messages import (
    ClientRequest,
    check_service,
    pack_application_data,
    unpack_content,
)
from pubsub.distributors.protocol.publishing import PublishingCore
from pubsub.distributors.protocol.subscription import SourceMessage, SubscriptionCore
from pubsub.distributors.rules import service_topic
from pubsub.reliable.receipts import MessageReceipt, News, Wait, budget, check_wait
from pubsub.reliable.runs import RUN_BYTES, Gap, GapError, Gaps, publisher_of, run_of, source_of
from pubsub.validation import REFUSED

LINGER = 2.0
"""Seconds that closing waits for what was sent to be acknowledged."""


class Publisher(LightClient):
    """A light publisher: it finds a distributor, and another one when that fails."""

    async def __aenter__(self) -> Self:
        # Distributors take what comes from a node of their view for what it has of others' publishers.
        if self._node is not None and self._node.attachment.runtime.handles(ClientRequest):
            raise UsageError(
                "a distributor runs on this node: give a publisher another node, or bootstrap=[...]"
            )
        return await super().__aenter__()

    async def create(self, service: str) -> None:
        """Create a service, or use the one that there is; returns when a distributor has acknowledged it.

        `NoDistributor` when none answers."""
        check_service(service)
        core = self._publishing.get(service)
        if core is None:
            runtime = self._open()
            core = self._publishing[service] = PublishingCore(
                runtime.context("datagram"),
                runtime.context("channel"),
                self.config,
                service,
                source_of(runtime.contact.id, entropy().randbytes(RUN_BYTES)),
                progress=self._news.tell,
                want_distributors=self._look_up,
            )
            core.start()
        try:
            await self._connected(core)
        except BaseException:
            if not core.was_connected:
                core.stop()
                self._publishing.pop(service, None)
            raise

    async def remove(self, service: str) -> None:
        """Remove a service: all distributors of the group let its messages go, and its subscribers get
        `NoSuchService`. Who publishes to it again creates it again. `NoDistributor` when none answers."""
        await self.create(service)
        core = self._publishing[service]
        answered = asyncio.Event()
        core.remove(answered.set)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await answered.wait()
        except TimeoutError:
            raise NoDistributor(f"no distributor has removed {service!r}") from None
        finally:
            core.stop()
            self._publishing.pop(service, None)  # another call may have removed it, too
            self._wake()

    async def publish(
        self,
        service: str,
        data: Any = None,
        *,
        wait: Wait = "acked",
        deadline: float | None = None,
    ) -> MessageReceipt:
        """Publish a message; the service is created if it was not before. The receipt has its number.

        `data` is anything msgpack carries, to 1 MiB. `wait="acked"` returns when a distributor has the
        message, "safe" when all of its view have it, "sent" as soon as there is room for it. While the
        distributors' buffers are full, it waits. `NotInTime` when all that takes more than `deadline`
        seconds; the message may be published all the same."""
        check_wait(wait, deadline)
        content = pack_application_data(data)
        async with budget(deadline, f"publishing to {service}"):
            receipt = await self._publish(service, content)
            await receipt.wait(wait)
        return receipt

    async def _publish(self, service: str, content: bytes) -> MessageReceipt:
        core = self._publishing.get(service)
        if core is None or not core.was_connected:
            await self.create(service)
            core = self._publishing[service]
        while not core.has_room:
            await self._next_news(core)
        number = core.publish(content)

        def reached(wait: Wait) -> bool:
            return wait == "sent" or (core.stable if wait == "safe" else core.received) >= number

        return MessageReceipt(number, reached, lambda: self._next_news(core))

    async def close(self) -> None:
        """Wait a moment for what was sent to be received, and stop; more than once is fine."""
        if not self._closed and self._runtime is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    for service in list(self._publishing):
                        with contextlib.suppress(NoSuchService):
                            await self.flush(service)
        await super().close()

    async def flush(self, service: str) -> None:
        """Wait until every message so far has been received by a distributor."""
        core = self._publishing.get(service)
        while core is not None and core.received < core.last:
            await self._next_news(core)

    async def _next_news(self, core: PublishingCore) -> None:
        """Wait for a change; `NoSuchService` when this publisher has removed the service."""
        await self._news.wait()
        self._open()
        if core.is_over:
            raise NoSuchService(f"the service {core.service!r} was removed")


Semantics = Literal["gap", "no_gap"]

_log = logging.getLogger(__name__)

ADVICE = "raise buffer_bytes or no_gap_patience at the distributors, or read faster"

REMEMBERED_EVENTS = 4096
"""Events of a topic by which a second copy, from another distributor's feed, is recognised."""


@dataclass(frozen=True, slots=True)
class ServiceMessage:
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

    def subscribe(
        self,
        service: str,
        *,
        semantics: Semantics = "gap",
        gaps: Gaps | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> ServiceSubscription:
        """A subscription, which begins when it is entered with `async with`.

        `gaps`: where messages will not come, "skip" them, "give" a `Gap` in their place, or "raise" a
        `GapError`; None gives with `semantics="gap"` and raises with "no_gap". `on_gap` is called in any
        case, when the gap becomes known."""
        self._open()
        if semantics not in get_args(Semantics):
            raise UsageError(f'semantics is "gap" or "no_gap", not {semantics!r}')
        if gaps is not None and gaps not in get_args(Gaps):
            raise UsageError(f'gaps is "skip", "give" or "raise", not {gaps!r}')
        chosen: Gaps = gaps or ("give" if semantics == "gap" else "raise")
        subscription = ServiceSubscription(self, check_service(service), semantics, chosen, on_gap)
        self._subscriptions.append(subscription)
        return subscription

    async def close(self) -> None:
        """End all subscriptions without a word, and stop; more than once is fine."""
        for subscription in list(self._subscriptions):
            subscription.end()
        await super().close()

    def _wake(self) -> None:
        super()._wake()
        for subscription in self._subscriptions:
            subscription.wake()


class ServiceSubscription:
    """Iterate over it inside `async with`, from one task at a time.

    What waits for the application is bounded by `ClientConfig.room`; beyond it the distributor holds back.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        service: str,
        semantics: Semantics,
        gaps: Gaps,
        on_gap: Callable[[Gap], None] | None,
    ) -> None:
        if on_gap is not None:
            check_function("on_gap", on_gap)
        self.service = service
        self.semantics = semantics
        self.gaps: Gaps = gaps
        self.missing = 0
        """Messages that were reported missing."""
        self._on_gap = on_gap
        self._subscriber = subscriber
        self._room = subscriber.config.room
        self._queue: deque[ServiceMessage | Gap] = deque()
        self._events: dict[bytes, None] = {}
        self._arrival = News()
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
            await self._subscriber._connected(self._core)
        except BaseException:
            self.end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> bool:
        """Unsubscribe; whether a distributor has acknowledged it. More than once is fine."""
        if self._core is None or self._ended:
            return False
        try:
            return await Futures("the client is closed").answer(self._core.unsubscribe)
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

    async def __anext__(self) -> ServiceMessage | Gap:
        while not self._queue:
            if self._is_removed:
                raise NoSuchService(f"the service {self.service!r} was removed")
            if self._ended:
                raise StopAsyncIteration
            if self._core is None:
                raise UsageError("iterate over a subscription inside `async with`")
            self._subscriber._open()
            await self._arrival.wait()
        next_one = self._queue.popleft()
        if len(self._queue) == self._room // 2 and self._core is not None and not self._ended:
            self._core.resume()
        if isinstance(next_one, Gap) and self.gaps == "raise":
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
        self._arrival.tell()

    def _deliver(self, delivery: SourceMessage) -> None:
        try:
            carried = unpack_content(delivery.data)
        except WireError as error:
            self._drops.add(error.reason)
            return
        if carried.event_id is not None and self._is_known(carried.event_id):
            self._drops.add("duplicate_event")
            return
        publisher = carried.publisher or publisher_of(delivery.source)
        run, number = run_of(delivery.source), delivery.sequence
        topic = carried.topic or service_topic(self._subscriber.group, delivery.service, {})
        if not self._subscriber.validation.accepts(topic, publisher, run, number, carried.data):
            self._drops.add(REFUSED)
            return
        message = ServiceMessage(
            delivery.service, carried.data, publisher, run, number, carried.topic
        )
        self._queue.append(message)
        self._arrival.tell()

    def wake(self) -> None:
        """Have who waits for a message look whether one can come."""
        self._arrival.tell()

    def _removed(self) -> None:
        self._is_removed = True
        self.end()

    def _report(self, gap: Gap) -> None:
        self.missing += gap.count
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except Exception:
                _log.exception("on_gap of the service %s failed", self.service)
        if self.gaps != "skip":
            self._queue.append(gap)
            self._arrival.tell()

    def _is_known(self, event_id: bytes) -> bool:
        if event_id in self._events:
            return True
        remember(self._events, event_id, None, REMEMBERED_EVENTS)
        return False
