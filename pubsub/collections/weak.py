"""Weak collections: best effort, on a CAMCAST subscription.

An element reaches each subscriber with the probability that the node's parameters give (see
`pubsub.camcast.parameters`); what is published while the network is partitioned, or a subscriber is down,
may never reach it. Filters are applied where elements arrive: gossip needs those who do not want an
element to pass it on.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from pubsub.collections.dac import DAC
from pubsub.collections.element import Element
from pubsub.subscription import Order as SubscriptionOrder
from pubsub.subscription import Subscription


class WeakCollection(DAC):
    is_strong: ClassVar[bool] = False

    async def _open(self) -> None:
        order: SubscriptionOrder = "fifo" if self.order == "fifo" else "none"
        subscription = self._collections.node.subscribe(
            self._topic, order=order, queue=max(self.queue, self.keep)
        )
        self._subscription = await subscription.__aenter__()
        self._pump = self.tasks.start("events", self._take_events(subscription))
        self._collections.opened(self)

    async def _close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        self._collections.closed(self)
        await self._subscription.close()

    async def _take_events(self, events: Subscription) -> None:
        async for event in events:
            self.offer(Element(event.data, event.topic, event.publisher))

    async def _publish(self, data: Any, packed: bytes) -> None:
        await self._collections.node.publish(self._topic, data)
