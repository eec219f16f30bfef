"""The topics that a node is in: joined when something needs them, and left when nothing does any more."""

from __future__ import annotations

import asyncio
from typing import Any

from overlay.errors import ClosedError, NetworkError
from pubsub.camcast.event_drops import EventDrops
from pubsub.camcast.process import Process
from pubsub.config import NodeConfig
from pubsub.joined_topic import JoinedTopic
from pubsub.subscription import Subscription
from pubsub.topic import Topic, included


class JoinedTopics:
    """Those of one running node, by name."""

    def __init__(self, process: Process, config: NodeConfig, drops: EventDrops) -> None:
        self._process = process
        self._config = config
        self._drops = drops
        self._topics: dict[str, JoinedTopic] = {}
        self._has_blocking = False
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
                topic, joined.deliver, self._config.parameters_of(topic.name)
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
            del self._topics[name]
            self._process.leave(name)

    def _check_open(self, topic: Topic) -> None:
        if self._is_closed:
            raise ClosedError(f"the node was closed, and is not in {topic} any more")

    # What they are needed for.

    async def open_subscription(self, subscription: Subscription) -> None:
        joined = self.join(subscription.pattern.topic)
        joined.subscriptions.append(subscription)
        self._has_blocking = self._has_blocking or subscription.blocks
        try:
            await self.ready(joined)
        except BaseException:
            self.close_subscription(subscription)
            raise

    def close_subscription(self, subscription: Subscription) -> None:
        joined = self._topics.get(subscription.pattern.topic.name)
        if joined is not None and subscription in joined.subscriptions:
            joined.subscriptions.remove(subscription)
            self.leave_if_unneeded(joined)
            self._has_blocking = any(
                other.blocks for topic in self._topics.values() for other in topic.subscriptions
            )

    def may_publish(self, joined: JoinedTopic) -> bool:
        """Whether an event can be published without waiting for anything on this node."""
        return joined.publishing and joined.ready.done() and not self._has_blocking

    async def wait_to_publish(self, joined: JoinedTopic) -> None:
        """Wait until the topic is joined, and for room; meanwhile nothing else makes this node leave it.

        `ClosedError` when the node is closed meanwhile."""
        joined.waiting_publishers += 1
        try:
            if not joined.ready.done():
                await self.ready(joined)
            if self._has_blocking:
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
