"""Handing messages over to the application, in the order that was asked for, and no more than it bears.

With a log, a message is acknowledged as soon as it is on the disk; but while the application has so much
before it that it `is_behind`, only when it is done with the message, as without a log. So publishers wait for
one that is slow, and what it has before it stays within its limit and the windows of those who publish.
"""

from __future__ import annotations

from collections.abc import Callable

from pubsub.topic_broadcast.delivery import Order
from pubsub.topic_broadcast.held_messages import OVERHEAD
from pubsub.topic_broadcast.messages import Item
from pubsub.topic_broadcast.state import BroadcastState
from pubsub.topic_membership.messages import LARGEST


class Delivering:
    """What was taken and the application is not done with."""

    def __init__(
        self, state: BroadcastState, order: Order, deliver: Callable[[Item, int], None]
    ) -> None:
        self._state = state
        self.order = order
        self._deliver = deliver
        self._early: dict[bytes, dict[int, Item]] = {}
        """Messages that were not handed over yet; with FIFO order, because predecessors are missing."""
        self._unfinished: dict[bytes, dict[int, int]] = {}
        """By source and number, and how many bytes."""
        self._messages = 0
        self._bytes = 0
        self._handing_over: dict[bytes, None] = {}
        self._unwritten: dict[bytes, dict[int, None]] = {}
        """Those of them that are not on the disk yet."""

    @property
    def is_behind(self) -> bool:
        """Whether the application has as much before it as it may have."""
        config = self._state.config
        return (
            self._messages >= config.unfinished_messages or self._bytes >= config.unfinished_bytes
        )

    def add(self, item: Item, *, is_written: bool) -> None:
        """The application is to get a message, when `hand_over` is called; one that is not on the disk yet,
        when it is `written`."""
        if not is_written:
            self._unwritten.setdefault(item.source, {})[item.number] = None
        size = OVERHEAD + len(item.payload or b"")
        self._early.setdefault(item.source, {})[item.number] = item
        unfinished = self._unfinished.setdefault(item.source, {})
        self._bytes += size - unfinished.get(item.number, 0)
        self._messages += item.number not in unfinished
        unfinished[item.number] = size

    def written(self, item: Item) -> None:
        """A message is on the disk."""
        unwritten = self._unwritten.get(item.source, {})
        unwritten.pop(item.number, None)
        if not unwritten:
            self._unwritten.pop(item.source, None)

    def finished(self, item: Item) -> None:
        unfinished = self._unfinished.get(item.source, {})
        if item.number in unfinished:
            self._bytes -= unfinished.pop(item.number)
            self._messages -= 1
        if not unfinished:
            self._unfinished.pop(item.source, None)

    def is_done(self, source: bytes, number: int) -> bool:
        """Whether no message of a source up to this number is to come: the application is done with each,
        or it was for others, from before this participant's time, or told as a gap."""
        taken = self._state.taken.get(source)
        mark = self._state.forgotten.get(source, 0) if taken is None else taken.mark
        return number <= mark and all(n > number for n in self._unfinished.get(source, ()))

    def change_order(self, order: Order) -> None:
        """Keep another order from now on; without one, what waited for its predecessors is delivered."""
        self.order = order
        self.hand_over_all()

    def hand_over(self, source: bytes) -> None:
        """Deliver what may be delivered: all, or with FIFO order what has no predecessor missing.

        The application may cause more to be ready while it is called: that comes after what is ready now.
        """
        if source in self._handing_over:
            return
        self._handing_over[source] = None
        try:
            while ready := self._ready(source):
                for number, following in zip(ready, [*ready[1:], None], strict=True):
                    item = self._early[source].pop(number)
                    self._deliver(item, self._complete(source, following))
        finally:
            del self._handing_over[source]
            if not self._early.get(source, True):
                del self._early[source]

    def _ready(self, source: bytes) -> list[int]:
        early, unwritten = self._early.get(source, {}), self._unwritten.get(source, {})
        if self.order == "none":
            return sorted(number for number in early if number not in unwritten)
        mark = min(self._state.taken_of(source).mark, min(unwritten, default=LARGEST) - 1)
        return sorted(number for number in early if number <= mark)

    def _complete(self, source: bytes, following: int | None) -> int:
        """Up to which number every message was delivered, was for others, or is gone; `following` is the
        next one that is delivered."""
        mark = self._state.taken_of(source).mark
        if following is None:
            following = min(self._early[source], default=mark + 1)
        return min(mark, following - 1)

    def hand_over_all(self) -> None:
        for source in list(self._early):
            self.hand_over(source)
