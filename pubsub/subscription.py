"""A subscription: an async context manager that is ready when entered, and an async iterator of events.

Events wait in a queue of bounded length. What happens when the application does not keep up is its own
choice, `overflow`, and every event that is dropped is counted, on the subscription and on the node. An event
counts as delivered when it enters the queue:

    drop_oldest   the oldest waiting event makes room (the default)
    drop_newest   the new event is dropped
    block         publishers on the same node wait until there is room. Events from other nodes cannot be
                  held up, because no neighbour is ever slowed by a slow subscriber: sixteen times the
                  queue is kept of them, and beyond that the newest are dropped
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from overlay.errors import UsageError
from pubsub.deliveries import Deliveries
from pubsub.event import Event
from pubsub.fifo import FifoOrder
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node

Overflow = Literal["drop_oldest", "drop_newest", "block"]
Order = Literal["none", "fifo"]

BLOCK_FACTOR = 16
"""With `block`, this many times the queue's length is kept of what other nodes send."""


class SubscriptionError(UsageError):
    """The subscription cannot be made or used like this."""


class Subscription:
    """Made by `Node.subscribe`; iterate over it inside `async with`, from one task at a time."""

    def __init__(
        self,
        node: Node,
        pattern: Pattern,
        deliveries: Deliveries,
        order: Order,
        overflow: Overflow,
        queue: int,
    ) -> None:
        if order not in ("none", "fifo"):
            raise SubscriptionError(f'order is "none" or "fifo", not {order!r}')
        if overflow not in ("drop_oldest", "drop_newest", "block"):
            raise SubscriptionError(
                f'overflow is "drop_oldest", "drop_newest" or "block", not {overflow!r}'
            )
        if type(queue) is not int or queue < 1:
            raise SubscriptionError(f"queue is a number of events, 1 or more, not {queue!r}")
        self.pattern = pattern
        self.dropped = 0
        """Events that were dropped because the queue was full."""
        self._node = node
        self._deliveries = deliveries
        self._order = order
        self._overflow = overflow
        self._room = queue
        self._limit = queue * BLOCK_FACTOR if overflow == "block" else queue
        self._queue: deque[Event] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._space = asyncio.Event()
        self._space.set()
        self._open = False
        self._ended = False
        self._fifo: FifoOrder | None = None
        self._push: Callable[[Sequence[Event]], None] = self._enqueue

    async def __aenter__(self) -> Self:
        """Join the community. From here on, events of members that know of this process arrive."""
        if self._open or self._ended:
            raise SubscriptionError("a subscription is entered once; call subscribe again")
        if self._order == "fifo":
            loop = asyncio.get_running_loop()
            self._fifo = FifoOrder(self._enqueue_one, loop.call_later, self._late)
            self._push = self._order_them
        self._open = True
        try:
            await self._node._open_subscription(self)
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

    async def close(self) -> None:
        """End the subscription; the community is left when nothing else on this node needs it."""
        if self._open:
            self.end()
            await self._node._close_subscription(self)

    def end(self) -> None:
        """No event comes any more; the iterator ends after those that are waiting."""
        self._open = False
        if self._fifo is not None:
            self._fifo.close()
        self._ended = True
        self._space.set()
        self._wake()

    def offer(self, events: Sequence[Event]) -> None:
        """Take those events of the community that the pattern matches; never blocks."""
        if self._ended:
            return
        if self.pattern.levels is not None:
            events = [event for event in events if self.pattern.matches(event.topic)]
        if events:
            self._push(events)

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._queue)

    def waiting(self) -> tuple[Event, ...]:
        """The events that wait, oldest first; they go on waiting."""
        return tuple(self._queue)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            if not self._open:
                raise SubscriptionError("iterate over a subscription inside `async with`")
            if self._arrival is not None:
                raise SubscriptionError("another task is waiting for this subscription's events")
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        event = self._queue.popleft()
        if len(self._queue) < self._room:
            self._space.set()
        return event

    @property
    def blocks(self) -> bool:
        """Whether publishers on the same node wait for it."""
        return self._overflow == "block"

    async def wait_for_space(self) -> None:
        """With `block`, wait until the queue has room; publishers on the same node do."""
        if self._overflow == "block":
            await self._space.wait()

    def _order_them(self, events: Sequence[Event]) -> None:
        assert self._fifo is not None
        for event in events:
            self._fifo.push(event)

    def _enqueue_one(self, event: Event) -> None:
        self._enqueue((event,))

    def _late(self, event: Event) -> None:
        self._deliveries.dropped("late", self.pattern, (event,))

    def _enqueue(self, events: Sequence[Event]) -> None:
        queue = self._queue
        queue.extend(events)
        if len(queue) > self._limit:
            events = self._cut(events)
        self._deliveries.delivered(self.pattern, events)
        if len(queue) >= self._room and not self._ended:
            self._space.clear()
        if self._arrival is not None:
            self._wake()

    def _cut(self, new: Sequence[Event]) -> Sequence[Event]:
        """Drop what is too much of the queue, at whose end are the new events; which of these stay."""
        queue = self._queue
        excess = len(queue) - self._limit
        self.dropped += excess
        if self._overflow == "drop_oldest":
            dropped = [queue.popleft() for _ in range(excess)]
            taken = new[-self._limit :]
        else:
            dropped = [queue.pop() for _ in range(excess)]
            taken = new[: len(new) - excess]
        self._deliveries.dropped("queue_full", self.pattern, dropped)
        return taken

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
