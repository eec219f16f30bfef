"""All collections of one node."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from overlay.errors import ClosedError
from pubsub.collections.config import CollectionConfig
from pubsub.collections.dac import DAC, CollectionError
from pubsub.collections.strong import StrongCollection
from pubsub.collections.strong_hub import StrongHub
from pubsub.reliable.tasks import Tasks
from pubsub.rights import Action, Holder
from pubsub.topic import Topic
from pubsub.topics import StrongTopics
from pubsub.topics.strong_topics import MESSAGES

if TYPE_CHECKING:
    from pubsub.node import Node

C = TypeVar("C", bound=DAC)


def _may_take_part(peer: Holder, message: Any) -> bool:
    """The rule of strong topics where there is an authority: all participants are sent everything."""
    return peer.may(Action.SUBSCRIBE, message.topic)


class NodeCollections:
    """What collections share on their node: its topics, and one participant of each strong topic."""

    def __init__(self, node: Node) -> None:
        self.node = node
        metrics = node.metrics
        self.drops = metrics.family(
            "collection_dropped", "reason", "Elements and messages of collections that were dropped"
        )
        self.errors = metrics.family(
            "collection_errors", "handler", "Exceptions of the application's callbacks and filters"
        )
        self.tasks = Tasks("collections", metrics)
        """Messages on their way."""
        self.strong_topics: StrongTopics
        self._hubs: dict[str, StrongHub] = {}
        self._joining: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.open: dict[DAC, None] = {}
        """The collections that are open."""
        self._is_closed = False

    def start(self) -> None:
        """Begin when the node does: those who knew it before it restarted may talk to it at once."""
        attachment, gate = self.node.attachment, self.node.attachment.gate
        topics = self.strong_topics = StrongTopics(attachment.runtime, attachment.directory)
        if gate is not None:
            gate.require(dict.fromkeys(MESSAGES, _may_take_part))
            topics.has_lost_right = lambda peer, topic: gate.has_lost(peer, Action.SUBSCRIBE, topic)
            gate.authority.revocations_changed.append(topics.expel_those_without_right)

    def make(self, kind: type[C], topic: str | type | Topic, **options: Any) -> C:
        """A collection of the class, to be entered; `CollectionError` when it cannot be."""
        if not (isinstance(kind, type) and issubclass(kind, DAC)) or inspect.isabstract(kind):
            raise CollectionError(
                f"{kind!r} is not a class of collections: use one such as DAStrongSet"
            )
        if not self.node.is_running:
            raise ClosedError("the node is not running: use it inside `async with`")
        self.node.check_right(Action.SUBSCRIBE, Topic.of(topic).name)
        try:
            return kind(self, Topic.of(topic), **options)
        except TypeError as error:
            raise CollectionError(f"{kind.__name__}: {error}") from None

    async def close(self) -> None:
        """Close every collection and leave every topic; more than once is fine."""
        self._is_closed = True
        for collection in list(self.open):
            await collection.close()
        for hub in list(self._hubs.values()):
            await self._leave(hub)
        await self.strong_topics.close()

    # One participant a topic.

    async def enter_hub(self, collection: StrongCollection) -> StrongHub:
        """Have the collection take part in its topic."""
        async with self._lock(collection.topic):
            hub = self._hubs.get(collection.topic)
            if hub is not None and collection.log is not None and collection.log != hub.log:
                raise CollectionError(
                    f"{collection.topic} is open on this node without this log: open it with it first"
                )
            if hub is not None and collection.config not in (None, hub.config):
                raise CollectionError(
                    f"{collection.topic} is open on this node with another config: open it with this first"
                )
            return await self._hub(collection.topic, collection, collection.config)

    async def leave_hub(self, collection: StrongCollection, hub: StrongHub) -> None:
        async with self._lock(hub.topic):
            hub.members.remove(collection)
            if not await self._is_left(hub) and not self._is_closed:
                await hub.refresh()

    async def super_hub(self, topic: str, config: CollectionConfig) -> StrongHub:
        """This node as a publisher in a super-topic; it stays until the node closes. `config` is for where it
        takes no part yet."""
        hub = self._hubs.get(topic)
        if hub is None or not hub.is_above:
            async with self._lock(topic):
                hub = await self._hub(topic, None, config)
                hub.is_above = True
        return hub

    async def _hub(
        self, topic: str, collection: StrongCollection | None, config: CollectionConfig | None
    ) -> StrongHub:
        if self._is_closed:
            raise ClosedError("the node is closing")
        hub = self._hubs.get(topic)
        is_new = hub is None
        if hub is None:
            hub = StrongHub(topic, self, config or CollectionConfig())
        if collection is not None:
            hub.members.append(collection)
        if is_new:
            await hub.join(collection.log if collection is not None else None)
            self._hubs[topic] = hub
        elif collection is not None:
            try:
                await hub.refresh()
            except BaseException:
                hub.members.remove(collection)
                hub.refresh_soon()
                raise
        return hub

    async def _is_left(self, hub: StrongHub) -> bool:
        if hub.members or hub.is_above:
            return False
        await self._leave(hub)
        return True

    async def _leave(self, hub: StrongHub) -> None:
        self._hubs.pop(hub.topic, None)
        await hub.leave()

    def _lock(self, topic: str) -> asyncio.Lock:
        return self._joining.setdefault(topic, asyncio.Lock())
