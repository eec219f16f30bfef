"""Where a service's messages come from, beside its publishers: a CAMCAST topic, or another group.

Every distributor of the group is a member of the topic, on behalf of its subscribers. The first of the view
publishes each event that it gets into the service; the others remember those that they do not see there
soon, and publish them in the order of their seniority. So an event that reaches any of them reaches the
subscribers, and a failure of the first loses nothing; an event that two publish, subscribers get once.

Stacks distributors: those of one group take their services' messages from another group (section 2).

Each distributor of the lower group subscribes to the upper one, without gaps, as any subscriber does, and
puts what it gets into its own service under the number that the publisher gave it. What one of them misses it
gets from the others of its group. So any number of levels serve any number of subscribers, and order,
gaps and duplicates are the publisher's at each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from pubsub.distributors.light_client import LightClient
from pubsub.distributors.messages import (
    ListServices,
    ServiceBlock,
    ServiceList,
    event_id_of,
    pack_event,
)
from pubsub.distributors.protocol.distributor import DistributorCore
from pubsub.distributors.protocol.publishing import BLOCK_BYTES
from pubsub.distributors.protocol.subscription import SourceMessage
from pubsub.event import Event
from pubsub.node import Node
from pubsub.reliable.batches import batches
from pubsub.reliable.runs import RUN_BYTES, Gap, source_of
from pubsub.reliable.tasks import Tasks
from pubsub.topic import Topic

PATIENCE = 1.0
"""Seconds that each distributor leaves to those before it in the view."""

LIST_EVERY = 2.0
"""Seconds between two looks whether the group above has more services."""

BLOCK_EVENTS = 1024
"""Events of a topic that enter a service together, at most."""

REMEMBERED = 8192
"""Events that are recognised as published already."""

MOST_PENDING = 65_536
"""Events that wait for distributors before this one to publish them; of more the oldest are left to those."""


class TopicFeed:
    """Feeds one service from one topic."""

    def __init__(
        self,
        core: DistributorCore,
        service: str,
        topic: Topic,
        node: Node,
        tasks: Tasks,
    ) -> None:
        self._core = core
        self._service = service
        self._topic = topic
        self._node = node
        self._source = source_of(core.membership.me.id, entropy().randbytes(RUN_BYTES))
        self._published = 0
        self._pending: dict[bytes, tuple[float, Event]] = {}
        self._seen: dict[bytes, None] = {}
        self._tasks = tasks
        self._reading: asyncio.Task[None] | None = None
        self._now = asyncio.get_running_loop().time

    async def __aenter__(self) -> Self:
        ready = asyncio.get_running_loop().create_future()
        self._reading = self._tasks.start("topic feed", self._read(ready))
        await asyncio.wait([ready, self._reading], return_when=asyncio.FIRST_COMPLETED)
        if self._reading.done():
            self._reading.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self, ready: asyncio.Future[None]) -> None:
        async with self._node.subscribe(self._topic, order="fifo") as events:
            ready.set_result(None)
            async for batch in events.batches(max=BLOCK_EVENTS):
                now = self._now()
                for event in batch:
                    if event.id not in self._seen:
                        remember(self._pending, event.id, (now, event), MOST_PENDING)
                self._publish_due()

    def taken(self, block: ServiceBlock) -> None:
        """Messages have entered a service, by whichever distributor."""
        if block.service != self._service:
            return
        for event_id in map(event_id_of, block.payloads):
            if event_id is not None:
                self._pending.pop(event_id, None)
                remember(self._seen, event_id, None, REMEMBERED)

    def tick(self) -> None:
        """Publish what those before this one in the view have not."""
        self._publish_due()

    def _publish_due(self) -> None:
        long_ago = self._now() - self._core.rank() * PATIENCE
        due = [event for arrived, event in self._pending.values() if arrived <= long_ago]
        for some in batches(map(pack_event, due), len, BLOCK_BYTES):
            block = ServiceBlock(self._service, self._source, self._published + 1, tuple(some))
            if self._core.publish(block):
                self._published = block.last
            else:
                self.taken(block)  # no room for it; the drop is counted


class Relay(LightClient):
    """A distributor's subscription to the services of the group above it: to those that are named, or to all
    that there are, also those that are created later."""

    def __init__(
        self, core: DistributorCore, services: Sequence[str], group: str, node: Node
    ) -> None:
        """`services`: these; none for all. `node`: what the distributor runs on."""
        super().__init__(group=group, node=node)
        self._core = core
        self._named = services
        self._asked: PeerId | None = None
        self._gathered: list[SourceMessage] = []
        """Consecutive messages of one source that came in this turn."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._open().on(ServiceList, self._listed)
        self._core.above = self._primary_of
        for name in self._named:
            self._take(name)
        if not self._named:
            self._tasks.start("list of services", self._keep_listing())
        return self

    async def close(self) -> None:
        if self._runtime is not None:
            self._runtime.off(ServiceList)
        await super().close()

    def _take(self, name: str) -> None:
        """Subscribe to a service, and have it here."""
        service = self._core.create(name)
        if service is None or any(core.service == name for core in self._subscribed):
            return
        service.is_relayed = True
        service.arrived_to = lambda source: self._core.upward.needed_after(name, source)
        self._subscription_core(
            name,
            no_gap=True,
            deliver=self._deliver,
            report=lambda gap: self._report(name, gap),
            begun=lambda numbers: self._begin(name, numbers),
            room=lambda: 0 if service.is_full else self.config.room,
            removed=lambda: self._gone(name),
        )

    def _primary_of(self, name: str) -> Contact | None:
        """The distributor above that serves this one."""
        cores = [core for core in self._subscribed if core.service == name]
        return cores[0].keeper.primary if cores else None

    def _gone(self, name: str) -> None:
        """The service was removed above: it is removed here."""
        self._subscribed = [core for core in self._subscribed if core.service != name]
        self._core.remove(name)

    async def _keep_listing(self) -> None:
        while True:
            assert self._finder is not None
            contacts = await self._finder()
            if contacts:
                self._asked = contacts[0].id
                self._open().context("channel").send(contacts[0], ListServices(""))
            await asyncio.sleep(LIST_EVERY)

    def _listed(self, sender: Contact, services: ServiceList) -> None:
        if sender.id != self._asked:
            return
        for name in services.names:
            self._take(name)
        if services.names and services.more:
            self._open().context("channel").send(sender, ListServices(services.names[-1]))

    def _begin(self, service: str, numbers: dict[bytes, int]) -> None:
        """What was published before this distributor came is not its own."""
        for source, number in numbers.items():
            self._core.relay_begin(service, source, number)

    def _deliver(self, message: SourceMessage) -> None:
        """Take a message, together with those that come in the same turn: a block stays a block."""
        gathered = self._gathered
        if gathered and (gathered[-1].service, gathered[-1].source, gathered[-1].sequence + 1) != (
            message.service,
            message.source,
            message.sequence,
        ):
            self._pass_on()
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._gathered.append(message)

    def _pass_on(self) -> None:
        messages, self._gathered = self._gathered, []
        if messages and messages[0].service in self._core.services:
            first, payloads = messages[0], tuple(message.data for message in messages)
            self._core.relay(ServiceBlock(first.service, first.source, first.sequence, payloads))

    def _report(self, service: str, gap: Gap) -> None:
        self._pass_on()
        self._core.relay_gap(service, gap.source, gap.last)
