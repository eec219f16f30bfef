"""Reliable broadcast with a perfect failure detector: lazy, and uniform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from overlay.errors import check_positive
from pubsub.broadcast.events import Broadcast, Crash, Deliver, Header, LayerMessage
from pubsub.broadcast.kernel import BadMessage, Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.process import GroupProcess
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.stability import Acknowledged

_DATA = 0
_MARKS = _ACK = 1


@dataclass(frozen=True)
class LazyReliable(Layer):
    """Lazy reliable broadcast (the tutorial's section 7, figure 2): others relay for a sender that crashed.

    Agreement: when a correct member delivers a message, every correct member does, whatever becomes of the
    sender; given a perfect failure detector. N - 1 messages and one message delay while nobody crashes.

    What is kept is bounded (the tutorial's exercises 7.1 and 7.2). Delivered messages are a high-water mark
    for each sender. A copy, which may have to be relayed, is kept until every member that is not known to
    have crashed has said that it has the message: members tell their marks after every `tell_every`
    deliveries, and `tell_after` seconds after a delivery at the latest.
    """

    name = "rb"
    requires = ("best-effort broadcast", "perfect failure detector")
    provides = ("reliable broadcast",)

    tell_every: int = 64
    """Deliveries after which a member tells the others what it has: N - 1 more messages for this many
    deliveries."""

    tell_after: float = 1.0
    """Seconds after a delivery by which it tells at the latest."""

    def __post_init__(self) -> None:
        check_positive(self)

    def session(self, process: GroupProcess) -> LayerSession:
        return LazyReliableSession(process, self)


class _Relaying(LayerSession):
    """What both have in common: who broadcast a message and its number travel with it, and members broadcast
    it once more when its sender is known to have crashed."""

    def __init__(self, process: GroupProcess) -> None:
        super().__init__(process)
        self.sent: int = 0

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Broadcast):
            self.sent += 1
            event = Broadcast(event.message.push(_DATA, self.process.rank, self.sent))
        channel.down(self, event)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Deliver):
            self._heard(channel, event)
            return
        if isinstance(event, Crash):
            self._crashed(event.rank)
        channel.up(self, event)

    def _heard(self, channel: LayerChannel, event: Deliver) -> None:
        raise NotImplementedError

    def _crashed(self, rank: int) -> None:
        raise NotImplementedError

    def _relay(self, channel: LayerChannel, message: LayerMessage) -> None:
        channel.down(self, Broadcast(message))


class _Copy(NamedTuple):
    channel: LayerChannel
    via: int
    message: LayerMessage


class LazyReliableSession(_Relaying):
    def __init__(self, process: GroupProcess, layer: LazyReliable) -> None:
        super().__init__(process)
        self._layer = layer
        size = process.size
        self.correct = [True] * size
        self._seen = [Numbers() for _ in range(size)]
        self._copies: list[dict[int, _Copy]] = [{} for _ in range(size)]
        """By origin and number: each with the member that it was received from."""
        self._marks: Acknowledged[int, int] = Acknowledged()
        """By member and origin: up to where the member is known to have delivered."""
        self._untold: list[LayerChannel] = []
        """The channel of each delivery that the others were not told of."""
        self._timer = process.timer(self._tell)

    @property
    def stored(self) -> int:
        """How many copies and out-of-order numbers are kept."""
        return sum(map(len, self._copies)) + sum(one.span_count for one in self._seen)

    def _heard(self, channel: LayerChannel, event: Deliver) -> None:
        header, inner = event.message.pop(2)
        if header[0] == _DATA and len(header) == 3:
            self._data(channel, event, header, inner)
        elif header[0] == _MARKS and len(header) == self.process.size + 1:
            self._told(event.source, header[1:])
        else:
            raise BadMessage("bad_header")

    def _data(
        self, channel: LayerChannel, event: Deliver, header: Header, inner: LayerMessage
    ) -> None:
        _, origin, number = header
        if origin >= self.process.size:
            raise BadMessage("bad_header")
        if not self._seen[origin].add(number):
            return
        channel.up(self, Deliver(origin, inner, number))
        self._copies[origin][number] = _Copy(channel, event.source, event.message)
        if not self.correct[event.source]:
            self._relay(channel, event.message)
        self._untold.append(channel)
        if len(self._untold) >= self._layer.tell_every:
            self._tell()
        else:
            self._timer.set(self._layer.tell_after)

    def _crashed(self, rank: int) -> None:
        if not self.correct[rank]:
            return
        self.correct[rank] = False
        for copies in self._copies:
            for copy in copies.values():
                if copy.via == rank:
                    self._relay(copy.channel, copy.message)
        self._drop_stable()

    # Which copies every member has.

    def _tell(self) -> None:
        self._timer.cancel()
        channel, self._untold = self._untold[-1], []
        marks = [seen.mark for seen in self._seen]
        channel.down(self, Broadcast(LayerMessage(None).push(_MARKS, *marks)))

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


class UniformAllAck(Layer):
    """Uniform reliable broadcast, all-ack (the tutorial's section 8, figure 3).

    Uniform agreement: when any member delivers a message, even one that crashes then, every correct member
    delivers it; given a perfect failure detector. A member delivers a message when every member that is not
    known to have crashed has acknowledged it. N(N - 1) messages, two message delays.

    Payloads travel once (exercise 8.2): an acknowledgement says "I hold it" and carries no payload, and
    only when the sender is known to have crashed do the holders broadcast the payload again, each for
    itself. Nothing of a message is kept once it is delivered (exercise 8.1): every member that was not known
    to have crashed holds it then, and the sender's high-water mark tells repetitions.
    """

    name = "urb"
    requires = ("best-effort broadcast", "perfect failure detector")
    provides = ("reliable broadcast", "uniform broadcast")

    def session(self, process: GroupProcess) -> LayerSession:
        return UniformSession(process)


@dataclass(slots=True)
class _Pending:
    channel: LayerChannel
    message: LayerMessage | None = None
    """As it was broadcast, with this layer's header; None while only acknowledgements have come."""
    holders: int = 0
    """The members that are known to hold it, a bit for each rank."""


class UniformSession(_Relaying):
    def __init__(self, process: GroupProcess) -> None:
        super().__init__(process)
        self.correct = (1 << process.size) - 1
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

    def _heard(self, channel: LayerChannel, event: Deliver) -> None:
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

    def _acknowledge(self, pending: _Pending, data: LayerMessage, origin: int, number: int) -> None:
        sender_is_correct = self.correct >> origin & 1
        if sender_is_correct:
            pending.channel.down(self, Broadcast(LayerMessage(None).push(_ACK, origin, number)))
        else:
            self._relay(pending.channel, data)

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
            del self._pending[origin, number]  # its holders have crashed; it may still arrive
