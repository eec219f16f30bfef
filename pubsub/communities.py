"""The paper's own interface (CAMCAST, section 5.1): a manager hands out communities, which call back.

manager = CommunityManager(node)
community = manager.get_community("/soccer/italy")        # or a Python class
await community.subscribe(on_event)                       # a function or a coroutine function
await community.publish({"score": "1-0"})
await community.unsubscribe(on_event)
await community.stop_publishing()
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from overlay.errors import UsageError
from pubsub.event import Event
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Topic

Callback = Callable[[Event], Awaitable[None] | None]

_log = logging.getLogger(__name__)


class CommunityError(UsageError):
    """The community cannot be used like this."""


class CommunityManager:
    """Hands out the communities of one node; the same topic always gives the same one."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._communities: dict[str, CommunityOfNode] = {}

    def get_community(self, topic: str | type | Topic) -> CommunityOfNode:
        topic = Topic.of(topic)
        community = self._communities.get(topic.name)
        if community is None:
            community = self._communities[topic.name] = CommunityOfNode(self.node, topic)
        elif community.topic.by_path:
            community.topic = topic  # a class tells more of its super-topics than its name
        return community

    def get_super_community(self, community: CommunityOfNode) -> CommunityOfNode:
        """The community of the one super-topic; `CommunityError` where there is none or several."""
        parents = community.topic.parents
        if len(parents) != 1:
            raise CommunityError(
                f"{community.topic} has {len(parents)} super-topics: use get_super_communities"
            )
        return self.get_community(parents[0])

    def get_super_communities(self, community: CommunityOfNode) -> tuple[CommunityOfNode, ...]:
        """The communities of all direct super-topics; none for the root."""
        return tuple(self.get_community(parent) for parent in community.topic.parents)


class CommunityOfNode:
    """One topic, to be subscribed to and published in.

    Subscriptions end with their node at the latest, which waits a moment for callbacks that are running, and
    then cancels them."""

    def __init__(self, node: Node, topic: Topic) -> None:
        self.node = node
        self.topic = topic
        self._subscribers: dict[Callback, tuple[Subscription, asyncio.Task[None]]] = {}

    async def subscribe(self, callback: Callback, **options: Any) -> None:
        """Have `callback` called with each event, one after another; `options` are `Node.subscribe`'s.

        What it raises is logged and counted, and the next event comes all the same."""
        if callback in self._subscribers:
            raise CommunityError(f"{callback!r} is subscribed to {self.topic} already")
        subscription = self.node.subscribe(self.topic, **options)
        await subscription.__aenter__()
        task = asyncio.create_task(self._call_back(subscription, callback))
        self.node.callbacks.add(task)
        task.add_done_callback(self.node.callbacks.discard)
        self._subscribers[callback] = (subscription, task)

    async def unsubscribe(self, callback: Callback) -> None:
        """End a subscription; events that wait are still given to the callback before this returns."""
        if callback not in self._subscribers:
            raise CommunityError(f"{callback!r} is not subscribed to {self.topic}")
        subscription, task = self._subscribers.pop(callback)
        await subscription.close()
        if task is not asyncio.current_task():
            await asyncio.wait([task])  # it was cancelled if its node was closed

    async def publish(self, data: Any = None, **options: Any) -> Receipt:
        """Publish an event of this topic; the first one joins the community."""
        return await self.node.publish(self.topic, data, **options)

    async def stop_publishing(self) -> None:
        """Leave the community, unless something on this node is subscribed to it."""
        await self.node.stop_publishing(self.topic)

    async def _call_back(self, subscription: Subscription, callback: Callback) -> None:
        errors = self.node.metrics.counter(
            "callback_errors", "Exceptions of subscribers' callbacks."
        )
        async for event in subscription:
            try:
                result = callback(event)
                if inspect.isawaitable(result):
                    await result
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                    raise  # the node ends; otherwise something that the callback awaited was cancelled
                errors.add()
                _log.exception("the callback of a subscription to %s failed", self.topic)
