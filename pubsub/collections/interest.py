"""An interest in elements to come: iterate over them, or have a callback called for each.

    async with collection.contains(filter="price > 10") as elements:
        async for element in elements:
            ...
    interest = await collection.contains(notify)       # calls notify(element), plain or async

Elements wait in a queue. In a weak collection a full queue drops its oldest element, and counts it; in a
strong one nothing is dropped: while an interest has no room, its node acknowledges nothing, and
publishers wait in the end. An interest that takes (`remove`) is done with an element when the next one is
asked for, when its callback has returned, or when its `async with` block ends without an exception; else
the element goes to another taker.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Self, get_args

from overlay.errors import ClosedError, UsageError, check_function
from pubsub.collections.content import Element
from pubsub.filters import Filter
from pubsub.reliable.receipts import News
from pubsub.reliable.runs import Gap, GapError, Gaps

if TYPE_CHECKING:
    from pubsub.collections.dac import DAC

Predicate = Callable[[Any], bool]
Notify = Callable[[Any], Awaitable[None] | None]
"""Called with each `Element`, and with `gaps="give"` with each `Gap`."""
Finish = Callable[[bool], None]
"""Called once with whether the application is done with an element; otherwise it is given back."""


CALLS_A_TURN = 16
"""Elements that a plain callback may be called for before others on the loop get a turn."""

_log = logging.getLogger(__name__)


class Interest:
    """Made by `contains`, `contains_all` and `remove`; it begins when entered, awaited or iterated."""

    def __init__(
        self,
        collection: DAC,
        notify: Notify | None,
        filter: str | Filter | Predicate | None,
        *,
        below: bool = False,
        takes: bool = False,
        gaps: Gaps = "skip",
    ) -> None:
        if gaps not in get_args(Gaps):
            raise UsageError(f'gaps is "skip", "give" or "raise", not {gaps!r}')
        if gaps == "raise" and notify is not None:
            raise UsageError(
                'gaps="raise" is for iteration: a callback is given its gaps with "give"'
            )
        self.gaps: Gaps = gaps
        """What happens where elements will never come."""
        self.below = below
        """Subtopics' elements are wanted too."""
        self.takes = takes
        """Elements are wanted for this interest alone."""
        self.filter: Filter | None = None
        """The expression, which publishers may apply for this node."""
        self.dropped = 0
        """Elements that were dropped because the queue was full."""
        self._predicate: Predicate | None = None
        if isinstance(filter, str | Filter):
            self.filter = Filter.parse(filter) if isinstance(filter, str) else filter
            self._predicate = self.filter.matches
        elif filter is not None:
            check_function("filter", filter)
            self._predicate = filter
        if takes and filter is not None and self.filter is None:
            raise UsageError(
                "remove() takes an expression: others cannot call a Python function to choose"
            )
        self._collection = collection
        self._notify = notify
        self._queue: deque[tuple[Element | Gap, Finish | None]] = deque()
        self._finish: Finish | None = None
        """To be called when the application is done with the element that it got last."""
        self._wanting_room: list[Finish] = []
        self._arrival = News()
        self._worker: asyncio.Task[None] | None = None
        self._begun = False
        self._ended = False

    # Beginning and ending.

    async def __aenter__(self) -> Self:
        if self._ended:
            raise ClosedError("this interest has ended: ask the collection again")
        await self._begin()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._settle(kind is None)
        await self.close()

    async def close(self) -> None:
        """Unsubscribe. Elements in hand that the application is not done with go to other takers; a callback
        that unsubscribes is done with its element when it has returned, and is called no more."""
        if not self._ended:
            self.end()
            await self.stopped()
            await self._collection._end_interest(self)

    def end(self) -> None:
        """No element comes any more; for the collection, which tells others."""
        self._ended = True
        if self._worker is None or self._worker is not asyncio.current_task():
            if self._worker is not None:
                self._worker.cancel()
            self._settle(False)
        self._give_back()
        self._tell_room()
        self._arrival.tell()

    def _give_back(self) -> None:
        """What waits goes to other takers; or, where the collection is closed, comes again from its log."""
        waiting, self._queue = self._queue, deque()
        for element, finish in waiting:
            self._let_pass(finish)
            if not self.takes:
                self._queue.append((element, None))

    def _let_pass(self, finish: Finish | None) -> None:
        """This interest ends before the application was given an element."""
        if finish is not None:
            finish(not self.takes and not self._collection.is_closed)

    async def stopped(self) -> None:
        """Wait until the callback is not running any more, unless it is who waits."""
        if self._worker is not None and self._worker is not asyncio.current_task():
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _begin(self) -> None:
        if self._begun or self._ended:
            return
        self._begun = True
        if self._notify is not None:
            self._worker = self._collection.tasks.start("callbacks", self._work(self._notify))
        try:
            await self._collection._begin_interest(self)
        except BaseException:
            self.end()
            self._collection._give_up_interest(self)
            raise

    # Elements.

    def matches(self, element: Element) -> bool:
        """Whether it is one of those asked for; a predicate that fails counts as no."""
        if not self.below and element.topic != self._collection.topic:
            return False
        try:
            return self._predicate is None or bool(self._predicate(element.data))
        except Exception:
            self._collection._count_error("filter")
            _log.exception("a filter of %s failed", self._collection.topic)
            return False

    def offer(self, element: Element, finish: Finish | None = None) -> None:
        """Take an element that matches; a weak collection's queue is bounded."""
        if self._ended:
            self._let_pass(finish)
            return
        if not self._collection.is_strong and len(self._queue) >= self._collection.queue:
            self._queue.popleft()
            self.dropped += 1
            self._collection._count_drop("queue_full")
        self._queue.append((element, finish))
        self._arrival.tell()

    def tell_gap(self, gap: Gap) -> None:
        """Elements will never come, in the place that they would have had; if this interest wants to know."""
        if not self._ended and not self.takes and self.gaps != "skip":
            self._queue.append((gap, None))
            self._arrival.tell()

    @property
    def has_room(self) -> bool:
        return self._ended or len(self._queue) < self._collection.queue

    def when_room(self, then: Finish) -> None:
        """Call this with True when there is room; now, or after elements were taken from the queue."""
        self._wanting_room.append(then)
        self._tell_room()

    def _tell_room(self) -> None:
        if self._wanting_room and self.has_room:
            waiting, self._wanting_room = self._wanting_room, []
            for then in waiting:
                then(True)

    def wake(self) -> None:
        """Have who waits for an element look whether one can come."""
        self._arrival.tell()

    def __len__(self) -> int:
        """How many elements wait."""
        return len(self._queue)

    def __aiter__(self) -> Self:
        if self._notify is not None:
            raise UsageError("this interest calls its callback: iterate over one without")
        return self

    async def __anext__(self) -> Any:
        """The next `Element`; where elements will never come, as `gaps` says."""
        await self._begin()
        self._settle(True)
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            self._collection.tasks.check()
            await self._arrival.wait()
        element = self._next()
        if isinstance(element, Gap) and self.gaps == "raise":
            raise GapError(element)
        return element

    def _next(self) -> Element | Gap:
        element, self._finish = self._queue.popleft()
        self._tell_room()
        return element

    def _settle(self, is_done: bool) -> None:
        """The application is done with the element that it got last, or will never be."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(is_done)

    async def _work(self, notify: Notify) -> None:
        for calls in itertools.count(1):
            if calls % CALLS_A_TURN == 0:
                await asyncio.sleep(0)
            while not (self._queue or self._ended):
                await self._arrival.wait()
            if self._ended:
                return
            is_done = await self._call(notify, self._next())
            self._settle(is_done or not self.takes)

    async def _call(self, notify: Notify, element: Element | Gap) -> bool:
        """Whether the callback did its work; what it raises is logged and counted."""
        try:
            result = notify(element)
            if inspect.isawaitable(result):
                await result
        except (Exception, asyncio.CancelledError) as error:
            worker = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and worker and worker.cancelling():
                raise  # this interest ends; otherwise something that the callback awaited was cancelled
            self._collection._count_error("notify")
            _log.exception("a callback of %s failed", self._collection.topic)
            return False
        return True
