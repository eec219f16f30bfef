"""Strong collections: every element reaches every subscriber in the end, on topic reliable broadcast.

A subscriber gets every element that is added after it has joined, once, though it, the publisher or the
network between them is down for a while. One that stays away too long is told that it has a gap
(`on_gap`). With a `log`, a file of its own, it goes on after a crash where its application was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from overlay.errors import check_function
from pubsub.collections.config import CollectionConfig
from pubsub.collections.content import Element, LocalContent
from pubsub.collections.dac import DAC, CollectionError
from pubsub.collections.interest import Finish, Interest
from pubsub.filters import Filter
from pubsub.reliable.receipts import MessageReceipt
from pubsub.topic import Topic
from pubsub.topics import Gap, Semantics

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections
    from pubsub.collections.strong_hub import StrongHub


class StrongCollection(DAC):
    is_strong: ClassVar[bool] = True

    def __init__(
        self,
        collections: NodeCollections,
        topic: Topic,
        *,
        log: str | Path | None = None,
        on_gap: Callable[[Gap], None] | None = None,
        config: CollectionConfig | None = None,
        **options: Any,
    ) -> None:
        """`log`: a file of this node's part in the topic, for recovery. `on_gap` is called when elements
        are lost to this node because it stayed away for too long. `config`: the times and limits of this
        node's part; None for those with which the topic is open already, or else those of
        `CollectionConfig()`."""
        super().__init__(collections, topic, **options)
        if config is not None and not isinstance(config, CollectionConfig):
            raise CollectionError(f"config is a CollectionConfig, not {config!r}")
        if on_gap is not None:
            check_function("on_gap", on_gap)
        self.log = log
        self.config = config
        self.on_gap = on_gap
        self._taken = LocalContent(keep=0, unique=self.is_unique)
        """Tells a set what its interests have taken."""
        self._hub: StrongHub | None = None

    async def _open(self) -> None:
        self._hub = await self._collections.enter_hub(self)

    async def _close(self) -> None:
        if self._hub is not None:
            await self._collections.leave_hub(self, self._hub)

    async def _publish(self, data: Any, packed: bytes, semantics: Semantics) -> MessageReceipt:
        assert self._hub is not None
        if semantics != "reliable":
            return await self._hub.add_aside(data, packed, semantics)
        receipt = await self._hub.add(self.topic, data, packed)
        for topic in self._topic.ancestors():
            if not topic.is_root:
                hub = await self._collections.super_hub(topic.name, self._hub.config)
                await hub.add_from_below(self.topic, data, packed)
        return receipt

    async def _begin_interest(self, interest: Interest) -> None:
        if interest.below and self._topic.is_root:
            raise CollectionError(
                "contains_all on / would make every publisher of the network a participant: name a topic"
            )
        await super()._begin_interest(interest)
        if self._hub is not None:
            await self._hub.refresh()

    async def _end_interest(self, interest: Interest) -> None:
        super()._give_up_interest(interest)
        if self._is_open and self._hub is not None:
            await self._hub.refresh()

    def _give_up_interest(self, interest: Interest) -> None:
        super()._give_up_interest(interest)
        if self._is_open and self._hub is not None:
            self._hub.refresh_soon()

    @property
    def wanted(self) -> list[Filter | None]:
        """What matches the elements that this collection wants; None matches all, and nothing none."""
        wanted = [interest.filter for interest in self.interests if not interest.takes]
        return [self.filter] if self.keep or None in wanted else wanted

    def take(self, element: Element, finish: Finish) -> None:
        """Give an element to one of the interests that take, each in turn. A set is done at once with one
        that is equal to another that it has taken or has in hand."""
        willing = [i for i in self.interests if i.takes and i.matches(element)]
        if not willing:
            finish(False)
        elif not self._taken.is_new(element.topic, element.data):
            finish(True)
        else:
            self._next_remover += 1
            taker = willing[self._next_remover % len(willing)]
            taker.offer(element, lambda is_done: self._finish(element, finish, is_done))

    def _finish(self, element: Element, finish: Finish, is_done: bool) -> None:
        if not is_done:
            self._taken.forget(element.topic, element.data)
        finish(is_done)
