"""The topics that a node is in. A topic is joined when something on the node needs it, and left when nothing
does any more.

A joined topic stands between its community and the application: the events that come go to its
subscriptions, and the events that are published here leave through its outlet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from overlay.errors import ClosedError, NetworkError, UsageError
from pubsub.camcast.community import Community
from pubsub.camcast.observer import EventDrops
from pubsub.camcast.process import Process
from pubsub.config import NodeConfig
from pubsub.data import MALFORMED
from pubsub.event import Batch, Block
from pubsub.publishing import Outlet
from pubsub.sending import BlockCarrier
from pubsub.subscription import Subscription
from pubsub.topic import Topic, included

_log = logging.getLogger(__name__)


class JoinedTopic:
    """Gives the events of one community to the subscriptions on this node."""

    def __init__(self, topic: Topic, drops: EventDrops, signed: bool) -> None:
        self.topic = topic
        self.community: Community
        self.outlet: Outlet
        self.subscriptions: list[Subscription] = []
        self.publishing = False
        """An event was published, and publishing was not stopped since."""
        self.always = False
        """The node itself needs it, for as long as it runs."""
        self.waiting_publishers = 0
        """Events that wait to be published: until it is joined, or there is room."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drops = drops
        self._signed = signed

    @property
    def is_needed(self) -> bool:
        return (
            self.publishing
            or self.always
            or self.waiting_publishers > 0
            or bool(self.subscriptions)
        )

    def become_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)
            if not self.community.table:
                _log.info("nobody else was found in %s", self.topic)

    def learn(self, topic: Topic) -> None:
        """Take over what else `topic`, of the same name, says: super-topics that the name does not tell.

        `UsageError` when others are known already. It has to become ready again, with links to them."""
        known = self.topic
        if topic.by_path or topic.lineage == known.lineage:
            return
        if not known.by_path:
            raise UsageError(
                f"this node is in {topic} with the super-topics {_names(known)}, and cannot be in it "
                f"with {_names(topic)} at the same time"
            )
        self.outlet.close()
        self.topic = topic
        self.community.learn(topic)
        self.outlet.learn(topic)
        if self.ready.done():
            self.outlet.is_open = False
            self.ready = asyncio.get_running_loop().create_future()
            self.community.when_ready(self.become_ready)

    def subscribe(self, subscription: Subscription) -> None:
        """Give a subscription the events of the community from now on."""
        self.subscriptions.append(subscription)
        self.community.deliver = self.deliver

    def unsubscribe(self, subscription: Subscription) -> None:
        self.subscriptions.remove(subscription)
        if not self.subscriptions:
            self.community.deliver = None

    def deliver(self, block: Block, hops: int, new: Sequence[range]) -> None:
        """Offer new events of the community to every subscription; none of them can hold them up."""
        batch, all_readable = block.batch(hops, self._signed)
        if all_readable and len(new[0]) == block.count:
            for subscription in self.subscriptions:
                subscription.offer(batch)
            return
        for start, stop in [(n.start - block.first, n.stop - block.first) for n in new]:
            part = batch.part(start, stop)
            for readable in [part] if all_readable else self._readable(part):
                for subscription in self.subscriptions:
                    subscription.offer(readable)

    def lose(self, count: int) -> None:
        """Tell every subscription that this many more events of the community were lost, or fewer."""
        for subscription in self.subscriptions:
            subscription.lost += count

    def _readable(self, batch: Batch) -> list[Batch]:
        """The events of a batch without those whose data cannot be read: these are dropped."""
        good: list[Batch] = []
        start = 0
        for place, value in enumerate((*batch.data, MALFORMED)):
            if value is MALFORMED:
                if place > start:
                    good.append(batch.part(start, place))
                if place < len(batch):
                    number = batch.first + place
                    self._drops.add(
                        "malformed_data",
                        self.topic.name,
                        batch.source,
                        (range(number, number + 1),),
                    )
                start = place + 1
        return good

    def describe(self) -> dict[str, Any]:
        """The community and its tables, for people to look at."""
        community = self.community
        return {
            "size": community.size,
            "table": [str(contact) for contact in community.table],
            "super_tables": {
                table.topic.name: [str(contact) for contact in table.contacts]
                for table in community.super_tables.linked()
            },
            "events": community.events,
            "subscriptions": len(self.subscriptions),
            "publishing": self.publishing,
            "ready": community.is_ready,
            "alone": not community.table,
        }


class JoinedTopics:
    """The topics that one running node is in, by name."""

    def __init__(
        self, process: Process, config: NodeConfig, carrier: BlockCarrier, drops: EventDrops
    ) -> None:
        self._process = process
        self._carrier = carrier
        self._config = config
        self._drops = drops
        self._topics: dict[str, JoinedTopic] = {}
        self.has_blocking = False
        """Whether publishers wait for the room of a subscription on this node."""
        self._is_closed = False

    def get(self, name: str) -> JoinedTopic | None:
        return self._topics.get(name)

    def describe(self) -> dict[str, Any]:
        """Each topic, for people to look at."""
        return {name: joined.describe() for name, joined in self._topics.items()}

    def close(self) -> None:
        """End all subscriptions; who waits to join or to publish is told."""
        self._is_closed = True
        for joined in self._topics.values():
            joined.outlet.end()
            for subscription in joined.subscriptions:
                subscription.end()
            if not joined.ready.done():
                joined.ready.cancel()
        self._topics.clear()

    # Joining and leaving.

    def as_known(self, topic: Topic) -> Topic:
        """The topic with the super-topics that are known of it here, if its name is all that is given."""
        joined = self._topics.get(topic.name)
        return joined.topic if joined is not None and topic.by_path else topic

    def join(self, topic: Topic) -> JoinedTopic:
        """Begin to take part, unless it does already; `UsageError` if it does with other super-topics."""
        joined = self._topics.get(topic.name)
        if joined is None:
            self._check_open(topic)
            joined = JoinedTopic(topic, self._drops, self._config.signatures)
            self._topics[topic.name] = joined
            joined.community = self._process.join(
                topic, None, self._config.parameters_of(topic.name)
            )
            joined.community.lost = joined.lose
            joined.outlet = Outlet(
                self._carrier, topic, joined.community.publish, self._config.is_eager
            )
            joined.community.when_ready(joined.become_ready)
        elif topic is not joined.topic:
            joined.learn(topic)
        return joined

    async def ready(self, joined: JoinedTopic) -> None:
        """Wait until events can be published and received."""
        seconds = self._config.join_timeout
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(joined.ready)
        except TimeoutError:
            raise NetworkError(
                f"joining {joined.topic} took more than {seconds:g} s: check that "
                "the bootstrap nodes are reachable, or raise join_timeout"
            ) from None
        except asyncio.CancelledError:
            if joined.ready.cancelled():
                raise ClosedError(f"the node was closed while it joined {joined.topic}") from None
            raise

    def leave_if_unneeded(self, joined: JoinedTopic) -> None:
        name = joined.topic.name
        if not joined.is_needed and self._topics.get(name) is joined:
            joined.outlet.end()
            del self._topics[name]
            self._process.leave(name)

    def _check_open(self, topic: Topic) -> None:
        if self._is_closed:
            raise ClosedError(f"the node was closed, and is not in {topic} any more")

    # What they are needed for.

    async def open_subscription(self, subscription: Subscription) -> None:
        joined = self.join(subscription.pattern.topic)
        joined.subscribe(subscription)
        if subscription.blocks:
            self.has_blocking = True
            for other in self._topics.values():
                other.outlet.is_open = False
        try:
            await self.ready(joined)
        except BaseException:
            self.close_subscription(subscription)
            raise

    def close_subscription(self, subscription: Subscription) -> None:
        joined = self._topics.get(subscription.pattern.topic.name)
        if joined is not None and subscription in joined.subscriptions:
            joined.unsubscribe(subscription)
            self.leave_if_unneeded(joined)
            self.has_blocking = any(
                other.blocks for topic in self._topics.values() for other in topic.subscriptions
            )

    def may_publish(self, joined: JoinedTopic) -> bool:
        """Whether an event can be published without waiting for anything on this node."""
        return joined.publishing and joined.ready.done() and not self.has_blocking

    async def wait_to_publish(self, joined: JoinedTopic) -> None:
        """Wait until the topic is joined, and for room; meanwhile nothing else makes this node leave it.

        `ClosedError` when the node is closed meanwhile."""
        joined.waiting_publishers += 1
        try:
            if not joined.ready.done():
                await self.ready(joined)
            if self.has_blocking:
                await self._wait_for_space(joined.topic)
            self._check_open(joined.topic)
            joined.publishing = True
        finally:
            joined.waiting_publishers -= 1
            self.leave_if_unneeded(joined)

    async def _wait_for_space(self, topic: Topic) -> None:
        """Wait for full subscriptions on this node that asked publishers to."""
        for joined in list(self._topics.values()):
            if included(joined.topic.name, topic.name, topic.lineage):
                for subscription in list(joined.subscriptions):
                    await subscription.wait_for_space()


def _names(topic: Topic) -> str:
    return ", ".join(parent.name for parent in topic.parents)
