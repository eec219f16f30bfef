"""Uniform reliable broadcast, all-ack (the tutorial's section 8, figure 3).

Uniform agreement: when any member delivers a message, even one that crashes then, every correct member
delivers it; given a perfect failure detector. A member delivers a message when every member that is not known
to have crashed has acknowledged it. N(N - 1) messages, two message delays.

Payloads travel once (exercise 8.2): an acknowledgement says "I hold it" and carries no payload, and
only when the sender is known to have crashed do the holders broadcast the payload again, each for
itself. Nothing of a message is kept once it is delivered (exercise 8.1): whoever was not known to have
crashed holds it then, and the sender's high-water mark tells repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pubsub.broadcast.events import Broadcast, Crash, Deliver
from pubsub.broadcast.kernel import BadMessage, Channel, Event, Layer, Session
from pubsub.broadcast.message import Message
from pubsub.broadcast.process import Process
from pubsub.reliable.numbers import Numbers

_DATA, _ACK = 0, 1


class UniformAllAck(Layer):
    name = "urb"
    requires = ("best-effort broadcast", "perfect failure detector")
    provides = ("reliable broadcast", "uniform broadcast")

    def session(self, process: Process) -> Session:
        return UniformSession(process)


@dataclass(slots=True)
class _Pending:
    channel: Channel
    message: Message | None = None
    """As it was broadcast, with this layer's header; None while only acknowledgements have come."""
    holders: int = 0
    """The members that are known to hold it, a bit for each rank."""


class UniformSession(Session):
    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.correct = (1 << process.size) - 1
        self._sent = 0
        self._delivered = [Numbers() for _ in range(process.size)]
        self._pending: dict[tuple[int, int], _Pending] = {}

    @property
    def waiting(self) -> int:
        """How many messages are known and not delivered."""
        return len(self._pending)

    @property
    def stored(self) -> int:
        """How many messages and out-of-order numbers are kept."""
        return len(self._pending) + sum(one.span_count for one in self._delivered)

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
            self._heard(channel, event)
        else:
            channel.up(self, event)

    def _heard(self, channel: Channel, event: Deliver) -> None:
        """A payload or an acknowledgement came: either way its sender holds the message."""
        (kind, origin, number, *more), _ = event.message.pop(3)
        if more or kind > _ACK or origin >= self.process.size:
            raise BadMessage("bad_header")
        if number in self._delivered[origin]:
            return
        pending = self._pending.setdefault((origin, number), _Pending(channel))
        pending.holders |= 1 << event.source
        if kind == _DATA and pending.message is None:
            pending.message = event.message
            pending.holders |= 1 << self.process.rank
            if origin != self.process.rank:
                self._acknowledge(pending, event.message, origin, number)
        self._try_deliver(origin, number, pending)

    def _acknowledge(self, pending: _Pending, data: Message, origin: int, number: int) -> None:
        sender_is_correct = self.correct >> origin & 1
        if sender_is_correct:
            pending.channel.down(self, Broadcast(Message(None).push(_ACK, origin, number)))
        else:
            self._relay(pending.channel, data)

    def _relay(self, channel: Channel, data: Message) -> None:
        channel.down(self, Broadcast(data))

    def _crashed(self, rank: int) -> None:
        self.correct &= ~(1 << rank)
        for (origin, number), pending in list(self._pending.items()):
            self._try_deliver(origin, number, pending)
        for (origin, _), pending in self._pending.items():
            if origin == rank and pending.message is not None:
                self._relay(pending.channel, pending.message)

    def _can_deliver(self, pending: _Pending) -> bool:
        return self.correct & ~pending.holders == 0

    def _try_deliver(self, origin: int, number: int, pending: _Pending) -> None:
        if pending.message is not None and self._can_deliver(pending):
            del self._pending[origin, number]
            self._delivered[origin].add(number)
            _, inner = pending.message.pop(3)
            pending.channel.up(self, Deliver(origin, inner, number))
        elif pending.message is None and not self.correct & (pending.holders | 1 << origin):
            del self._pending[origin, number]  # whoever held it has crashed; it may still arrive
