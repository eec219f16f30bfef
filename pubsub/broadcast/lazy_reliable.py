"""Lazy reliable broadcast (the tutorial's section 7, figure 2): others relay for a sender that crashed.

Agreement: when a correct member delivers a message, every correct member does, whatever becomes of the
sender; given a perfect failure detector. N - 1 messages and one message delay while nobody crashes.

What is kept is bounded (the tutorial's exercises 7.1 and 7.2). Delivered messages are a high-water mark
for each sender. A copy, which may have to be relayed, is kept until every member that is not known to
have crashed has said that it has the message: members tell their marks after every `tell_every`
deliveries, and `tell_after` seconds after a delivery at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from overlay.context import Timer
from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Crash, Deliver
from pubsub.broadcast.kernel import BadMessage, Channel, Event, Layer, Session
from pubsub.broadcast.message import Header, Message
from pubsub.broadcast.process import Process
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.stability import Acknowledged

_DATA, _MARKS = 0, 1


@dataclass(frozen=True)
class LazyReliable(Layer):
    name = "rb"
    requires = ("best-effort broadcast", "perfect failure detector")
    provides = ("reliable broadcast",)

    tell_every: int = 64
    """Deliveries after which a member tells the others what it has: N - 1 more messages for so many."""

    tell_after: float = 1.0
    """Seconds after a delivery by which it tells at the latest."""

    def __post_init__(self) -> None:
        if self.tell_every < 1 or not self.tell_after > 0:
            raise UsageError("tell_every must be 1 or more, and tell_after more than 0 seconds")

    def session(self, process: Process) -> Session:
        return LazyReliableSession(process, self)


class _Copy(NamedTuple):
    channel: Channel
    via: int
    message: Message


class LazyReliableSession(Session):
    def __init__(self, process: Process, layer: LazyReliable) -> None:
        super().__init__(process)
        self._layer = layer
        size = process.size
        self.correct = [True] * size
        self._sent = 0
        self._seen = [Numbers() for _ in range(size)]
        self._copies: list[dict[int, _Copy]] = [{} for _ in range(size)]
        """By origin and number: each with the member that it was received from."""
        self._marks: Acknowledged[int, int] = Acknowledged()
        """By member and origin: up to where the member is known to have delivered."""
        self._untold = 0
        self._timer: Timer | None = None

    @property
    def stored(self) -> int:
        """How many copies and out-of-order numbers are kept."""
        return sum(map(len, self._copies)) + sum(one.span_count for one in self._seen)

    def on_down(self, channel: Channel, event: Event) -> None:
        if isinstance(event, Broadcast):
            self._sent += 1
            event = Broadcast(event.message.push(_DATA, self.process.rank, self._sent))
        channel.down(self, event)

    def on_up(self, channel: Channel, event: Event) -> None:
        if isinstance(event, Crash):
            self._crashed(event.rank)
            channel.up(self, event)
        elif isinstance(event, Deliver):
            header, inner = event.message.pop(2)
            if header[0] == _DATA and len(header) == 3:
                self._data(channel, event, header, inner)
            elif header[0] == _MARKS and len(header) == self.process.size + 1:
                self._told(event.source, header[1:])
            else:
                raise BadMessage("bad_header")
        else:
            channel.up(self, event)

    def _data(self, channel: Channel, event: Deliver, header: Header, inner: Message) -> None:
        _, origin, number = header
        if origin >= self.process.size:
            raise BadMessage("bad_header")
        if not self._seen[origin].add(number):
            return
        channel.up(self, Deliver(origin, inner, number))
        self._copies[origin][number] = _Copy(channel, event.source, event.message)
        if not self.correct[event.source]:
            self._relay(channel, event.message)
        self._untold += 1
        if self._untold >= self._layer.tell_every:
            self._tell(channel)
        elif self._timer is None:
            self._timer = self.process.perfect.call_later(
                self._layer.tell_after, lambda: self._tell(channel)
            )

    def _crashed(self, rank: int) -> None:
        if not self.correct[rank]:
            return
        self.correct[rank] = False
        for copies in self._copies:
            for copy in copies.values():
                if copy.via == rank:
                    self._relay(copy.channel, copy.message)
        self._drop_stable()

    def _relay(self, channel: Channel, message: Message) -> None:
        channel.down(self, Broadcast(message))

    # Which copies every member has.

    def _tell(self, channel: Channel) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._untold = 0
        marks = [seen.mark for seen in self._seen]
        channel.down(self, Broadcast(Message(None).push(_MARKS, *marks)))

    def _told(self, member: int, marks: Header) -> None:
        for origin, mark in enumerate(marks):
            self._marks.raise_to(member, origin, mark)
        self._drop_stable()

    def _drop_stable(self) -> None:
        alive = [rank for rank, correct in enumerate(self.correct) if correct]
        for origin, copies in enumerate(self._copies):
            stable = self._marks.stable(origin, alive, self._seen[origin].mark)
            for number in [number for number in copies if number <= stable]:
                del copies[number]
