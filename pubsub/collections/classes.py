"""The classes of collections (DACE, figure 5): what each promises.

    class              reaches subscribers     duplicates     order of delivery
    DAWeakBag          best effort             may come       none
    DAWeakSet          best effort             none           none
    DAWeakSequence     best effort             may come       FIFO: each publisher's as it added them
    DAStrongBag        every one, once         of equal data  none
    DAStrongSet        every one, once         none           none
    DAStrongSequence   every one, once         of equal data  FIFO
    DASortedBag        every one, once         of equal data  total: one for all within a stable view
    DASortedSet        every one, once         none           total

Strong classes of one topic see the same elements: what is added through one is delivered by the others.
Weak ones share theirs with plain subscriptions (`Node.subscribe`), and not with the strong ones.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from pubsub.collections.content import Element
from pubsub.collections.dac import DAC, AddReceipt, Order
from pubsub.collections.strong import StrongCollection
from pubsub.reliable.receipts import Wait
from pubsub.subscription import Order as SubscriptionOrder
from pubsub.subscription import Subscription
from pubsub.topics import Semantics


class WeakCollection(DAC):
    """Weak collections: best effort, on a CAMCAST subscription.

    An element reaches each subscriber with the probability that the node's parameters give (see
    `pubsub.camcast.parameters`); what is published while the network is partitioned, or a subscriber is down,
    may never reach it. Filters are applied where elements arrive: gossip needs those who do not want an
    element to pass it on.
    """

    is_strong: ClassVar[bool] = False
    _most_wait: ClassVar[Wait] = "acked"

    async def _open(self) -> None:
        order: SubscriptionOrder = "fifo" if self.order == "fifo" else "none"
        subscription = self._collections.node.subscribe(
            self._topic, order=order, queue=max(self.queue, self.keep)
        )
        self._subscription = await subscription.__aenter__()
        self._pump = self.tasks.start("events", self._take_events(subscription))

    async def _close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._subscription.close()

    async def _take_events(self, events: Subscription) -> None:
        async for event in events:
            self.offer(Element(event.data, event.topic, event.publisher))

    async def _publish(self, data: Any, packed: bytes, semantics: Semantics) -> AddReceipt:
        return await self._collections.node.publish(self._topic, data)


class DABag(DAC):
    """Every element that is added, equal ones included."""

    is_unique: ClassVar[bool] = False
    order: ClassVar[Order] = "none"


class DASet(DAC):
    """No element twice."""

    is_unique: ClassVar[bool] = True
    order: ClassVar[Order] = "none"


class DASequence(DABag):
    """A bag with an order."""

    order: ClassVar[Order] = "fifo"


class DAWeakBag(DABag, WeakCollection):
    pass


class DAWeakSet(DASet, WeakCollection):
    pass


class DAWeakSequence(DASequence, WeakCollection):
    pass


class DAStrongBag(DABag, StrongCollection):
    pass


class DAStrongSet(DASet, StrongCollection):
    pass


class DAStrongSequence(DASequence, StrongCollection):
    pass


class DASortedBag(DASequence, StrongCollection):
    order: ClassVar[Order] = "total"


class DASortedSet(DASet, StrongCollection):
    order: ClassVar[Order] = "total"
