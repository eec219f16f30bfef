"""A subscription: an async context manager that is ready when entered, and an async iterator of events.

Events wait in a queue of bounded length, in the batches in which they came; an `Event` is made when it is
asked for. What happens when the application does not keep up is its own choice, `overflow`, and every event
that is dropped is counted, on the subscription and on the node. An event counts as delivered when it enters
the queue:

    drop_oldest   the oldest waiting event makes room (the default)
    drop_newest   the new event is dropped
    block         publishers on the same node wait until there is room. Events from other nodes cannot be
                  held up, because no neighbour is ever slowed by a slow subscriber: sixteen times the
                  queue is kept of them, and beyond that the newest are dropped
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Literal, Self

from overlay.contact import ID_BYTES, PeerId
from overlay.context import Timer
from overlay.errors import UsageError
from overlay.metrics import Metrics
from pubsub.camcast.observer import EventDrops
from pubsub.event import Batch, Event, Origin, event_ids
from pubsub.reliable.order import PatientOrder, Verdict
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node
    from pubsub.trace import Trace

Overflow = Literal["drop_oldest", "drop_newest", "block"]
Order = Literal["none", "fifo"]

BLOCK_FACTOR = 16
"""With `block`, this many times the queue's length is kept of what other nodes send."""


SOURCES = 4096
"""Sources that a subscription in order follows at a time; the one silent for longest is forgotten."""


_NO_ORIGIN = Origin("", PeerId(bytes(ID_BYTES)), b"")


class SubscriptionError(UsageError):
    """The subscription cannot be made or used like this."""


class Deliveries:
    """What becomes of events at a node's subscriptions: each is delivered, or dropped for a reason.

    Both are counted, and have a row in the trace where one is written. An event that is delivered and then
    makes room for a newer one before the application took it is both."""

    def __init__(self, metrics: Metrics, trace: Trace | None = None) -> None:
        self._delivered = metrics.counter("events_delivered", "Events given to subscriptions.")
        self._drops = EventDrops(metrics, trace)
        self._trace = trace

    def delivered(self, pattern: Pattern, batch: Batch) -> None:
        """These events are in the queue of a subscription to `pattern`."""
        self._delivered.value += len(batch.data)
        if self._trace is not None:
            for event in event_ids(batch.source, (batch.numbers,)):
                self._trace.record(
                    "deliver",
                    pattern.topic.name,
                    event=event,
                    hops=batch.origin.hops,
                    detail=pattern.text,
                )

    def dropped(self, reason: str, pattern: Pattern, batch: Batch) -> None:
        """The application will not get these events, which `pattern` matches."""
        self._drops.add(reason, pattern.topic.name, batch.source, (batch.numbers,))


class FifoOrder:
    """First in, first out: takes batches in any order and emits each source's events in order.

    An event that comes before one with a lower number is held until the missing ones have come, `wait`
    seconds at most and `limit` events of a source at most; then the missing ones are given up, and dropped as
    `late` if they come after all. The first event from a source waits too, unless it is that source's first
    of all.
    """

    def __init__(
        self,
        emit: Callable[[Batch], None],
        call_later: Callable[[float, Callable[[], None]], Timer],
        late: Callable[[Batch], None],
        wait: float = 0.5,
        limit: int = 1000,
    ) -> None:
        """`late`: takes the events that come after they were given up, or once more."""
        self._emit = emit
        self._late = late
        self._order = PatientOrder[bytes, Batch](
            lambda source, number, event: emit(event),
            call_later=call_later,
            patience=wait,
            most_early=limit,
            most_sources=SOURCES,
        )
        self.close = self._order.close
        """Emit what is held, gaps or not, and keep nothing."""

    def push(self, batch: Batch) -> None:
        source, first = batch.source, batch.first
        if self._order.take_next(source, first, len(batch.data)):
            self._emit(batch)
            return
        for place in range(len(batch)):
            event = batch.part(place, place + 1)
            if self._order.take(source, first + place, event) is Verdict.OLD:
                self._late(event)


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
        last: bool = False,
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
        self.lost = 0
        """Events of the topic that this node was told of and could not get: nobody kept them any longer."""
        self._node = node
        self._deliveries = deliveries
        self._order = order
        self._overflow = overflow
        self._room = queue
        self._limit = queue * BLOCK_FACTOR if overflow == "block" else queue
        self._queue: deque[Batch] = deque()
        self._queued = 0
        """Events in these batches."""
        self._begin(Batch(_NO_ORIGIN, 1, ()))
        self._arrival: asyncio.Future[None] | None = None
        self._is_full = False
        self._space = asyncio.Event()
        self._space.set()
        self._open = False
        self._ended = False
        self._fifo: FifoOrder | None = None
        self._push: Callable[[Batch], None] = self._enqueue
        self._held: list[Batch] | None = [] if last else None
        """What came before the last values were there, which come first."""
        self._given: dict[bytes, int] = {}
        """The last values that were given, by source: they may come again, on their usual way."""
        self.last_values = 0
        """How many events at its beginning are last values."""

    @property
    def wants_last(self) -> bool:
        """The last values of its topics are given before anything else."""
        return self._held is not None

    async def __aenter__(self) -> Self:
        """Join the community. From here on, events of members that know of this process arrive."""
        if self._open or self._ended:
            raise SubscriptionError("a subscription is entered once; call subscribe again")
        if self._order == "fifo":
            loop = asyncio.get_running_loop()
            self._fifo = FifoOrder(self._enqueue, loop.call_later, self._late)
            self._push = self._fifo.push
        self._open = True
        try:
            await self._node._open_subscription(self)
        except BaseException:
            self.end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
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

    def offer(self, batch: Batch) -> None:
        """Take events of the community if the pattern matches their topic; never blocks."""
        if self._ended:
            return
        if self.pattern.levels is None or self.pattern.matches(batch.topic):
            if self._held is None:
                self._push(batch)
            elif sum(map(len, self._held)) < self._limit:
                self._held.append(batch)
            else:
                self._late(batch)

    def begin_with(self, values: Sequence[Batch]) -> None:
        """Give the last values, then what has come since the subscription began."""
        held, self._held = self._held or [], None
        live = {batch.source for batch in held}
        for batch in values:
            # Of a source that sends already, everything comes on its usual way.
            if self.pattern.matches(batch.topic) and batch.source not in live:
                self._push(batch)
                self._given[batch.source] = batch.first
                self.last_values += 1
        if self._given and self._fifo is None:
            self._push = self._enqueue_new
        for batch in held:
            self._push(batch)

    def _enqueue_new(self, batch: Batch) -> None:
        """Take events that may be last values which were given already."""
        number = self._given.get(batch.source, 0)
        if number in batch.numbers:
            place = number - batch.first
            self._enqueue(batch.part(0, place))
            batch = batch.part(place + 1, len(batch))
        self._enqueue(batch)

    def __len__(self) -> int:
        """How many events wait."""
        return self._queued + length_hint(self._left)

    def waiting(self) -> tuple[Event, ...]:
        """The events that wait, oldest first; they go on waiting."""
        batches = [self._rest_of_current(), *self._queue]
        return tuple(event for batch in batches for event in batch.events())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        # Once for every event: what is not needed for every event is elsewhere.
        for event in self._current:
            if self._is_full:
                self._look_at_space()
            return event
        while not self._queue:
            await self._next_arrival()
        batch = self._queue[0]
        if len(batch.data) == 1:  # as below, and quicker: nothing is left of it
            del self._queue[0]
            self._queued -= 1
            event = Event(batch.origin, batch.data[0], batch.first)
        else:
            self._begin_next()
            event = next(self._current)
        if self._is_full:
            self._look_at_space()
        return event

    def _begin(self, batch: Batch) -> None:
        self._taking = batch
        """The batch of which the application has begun to take events."""
        self._left = iter(batch.data)
        """Its data that was not taken; `length_hint` says of how many events."""
        self._current = batch.events(self._left)

    def _begin_next(self) -> None:
        batch = self._queue.popleft()
        self._queued -= len(batch.data)
        self._begin(batch)

    def _look_at_space(self) -> None:
        """Let publishers on this node go on once there is room."""
        if len(self) < self._room:
            self._is_full = False
            self._space.set()

    async def batches(self, max: int = 1000) -> AsyncIterator[list[Event]]:
        """The events in lists, each of all that wait and at most `max`; it waits while there are none.

            async for events in subscription.batches(max=500): ...

        The events of a list count as taken when the list is given."""
        if type(max) is not int or max < 1:
            raise SubscriptionError(f"max is a number of events, 1 or more, not {max!r}")
        while True:
            try:
                first = await self.__anext__()
            except StopAsyncIteration:
                return
            yield [first, *self.take_waiting(max - 1)]

    def take_waiting(self, most: int) -> list[Event]:
        """The events that wait, at most this many; they count as taken."""
        events = list(islice(self._current, most))
        while len(events) < most and self._queue:
            self._begin_next()
            events += islice(self._current, most - len(events))
        if self._is_full:
            self._look_at_space()
        return events

    def _next_arrival(self) -> asyncio.Future[None]:
        """Done when the queue may not be empty any more; `StopAsyncIteration` when it will stay empty."""
        if self._ended:
            raise StopAsyncIteration
        if not self._open:
            raise SubscriptionError("iterate over a subscription inside `async with`")
        if self._arrival is not None and not self._arrival.done():
            raise SubscriptionError("another task is waiting for this subscription's events")
        self._arrival = asyncio.get_running_loop().create_future()
        return self._arrival

    @property
    def blocks(self) -> bool:
        """Whether publishers on the same node wait for it."""
        return self._overflow == "block"

    async def wait_for_space(self) -> None:
        """With `block`, wait until the queue has room; publishers on the same node do."""
        if self._overflow == "block":
            await self._space.wait()

    def _late(self, batch: Batch) -> None:
        self._deliveries.dropped("late", self.pattern, batch)

    def _enqueue(self, batch: Batch) -> None:
        waiting = self._queued + length_hint(self._left) + len(batch.data)
        excess = waiting - self._limit
        if excess > 0:
            batch = self._make_room(batch, excess)
        if batch.data:
            self._queue.append(batch)
            self._queued += len(batch.data)
            self._deliveries.delivered(self.pattern, batch)
        if waiting >= self._room and not self._ended:
            self._is_full = True
            self._space.clear()
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    def _make_room(self, batch: Batch, excess: int) -> Batch:
        """Drop what is too much of the queue or of a new batch; which part of the batch stays."""
        self.dropped += excess
        if self._overflow != "drop_oldest":
            kept = len(batch) - excess
            self._deliveries.dropped("queue_full", self.pattern, batch.part(kept, len(batch)))
            return batch.part(0, kept)
        while excess and len(self):
            if not length_hint(self._left):
                self._begin_next()
            oldest = self._rest_of_current()
            stop = min(excess, len(oldest))
            self._deliveries.dropped("queue_full", self.pattern, oldest.part(0, stop))
            self._begin(oldest.part(stop, len(oldest)))
            excess -= stop
        if excess:
            self._deliveries.dropped("queue_full", self.pattern, batch.part(0, excess))
        return batch.part(excess, len(batch))

    def _rest_of_current(self) -> Batch:
        """What the application has not taken yet of the batch that it is reading."""
        taking = self._taking
        return taking.part(len(taking) - length_hint(self._left), len(taking))

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
