"""Indulgent uniform reliable broadcast, majority-ack (the tutorial's section 9, figure 4).

Uniform agreement without a failure detector, however wrong anybody's suspicions are and however long a
partition lasts, as long as a majority of the members is correct. A member delivers a message when more
than half of the members have acknowledged it. N(N - 1) messages, two message delays.

No more than N/2 + 1 copies are kept (exercise 9.1). Acknowledgements carry no payload; a member that
knows of a message and does not get its payload asks the holders in turn. The *keepers* of a message are
the floor(N/2) + 1 members that hold it and are nearest to its origin on the ring of ranks. A member
that has delivered drops its copy when it knows of so many nearer holders, and everyone does when all
members hold it. The nearest floor(N/2) + 1 never find so many nearer ones, so they keep it, and one of
them is correct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.context import Timer
from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Deliver, Send
from pubsub.broadcast.kernel import BadMessage, Channel, Event, Layer, Session
from pubsub.broadcast.message import Message
from pubsub.broadcast.process import Process
from pubsub.reliable.numbers import Numbers

DATA, ACK, WANT = 0, 1, 2


@dataclass(frozen=True)
class IndulgentUniform(Layer):
    name = "iurb"
    requires = ("best-effort broadcast",)
    provides = ("reliable broadcast", "uniform broadcast")

    ask_after: float = 1.0
    """Seconds that a member waits for a payload before it asks a holder, and then the next one."""

    def __post_init__(self) -> None:
        if not self.ask_after > 0:
            raise UsageError(f"ask_after={self.ask_after} must be more than 0 seconds")

    def session(self, process: Process) -> Session:
        return IndulgentSession(process, self.ask_after)


@dataclass(slots=True)
class Copy:
    """What a member knows of one message that not all members are known to hold."""

    channel: Channel
    message: Message | None = None
    """As it was broadcast, with this layer's header; None while only acknowledgements have come."""
    holders: int = 0
    """The members that have acknowledged it, a bit for each rank."""
    timer: Timer | None = None
    asked: int = 0


class IndulgentSession(Session):
    def __init__(self, process: Process, ask_after: float) -> None:
        super().__init__(process)
        self.majority = process.size // 2 + 1
        self._ask_after = ask_after
        self._sent = 0
        self._everyone = (1 << process.size) - 1
        self._delivered = [Numbers() for _ in range(process.size)]
        self._copies: dict[tuple[int, int], Copy] = {}

    @property
    def stored(self) -> int:
        """How many messages and out-of-order numbers are kept."""
        return len(self._copies) + sum(one.span_count for one in self._delivered)

    def holds(self, origin: int, number: int) -> bool:
        """Whether this member keeps the payload of a message."""
        copy = self._copies.get((origin, number))
        return copy is not None and copy.message is not None

    def on_down(self, channel: Channel, event: Event) -> None:
        if not isinstance(event, Broadcast):
            channel.down(self, event)
            return
        self._sent += 1
        message = event.message.push(DATA, self.process.rank, self._sent)

        def send() -> None:
            channel.down(self, Broadcast(message))

        self._hold(self.process.rank, self._sent, Copy(channel), message, send)

    def on_up(self, channel: Channel, event: Event) -> None:
        if not isinstance(event, Deliver):
            channel.up(self, event)
            return
        (kind, origin, number, *more), _ = event.message.pop(3)
        if more or kind > WANT or origin >= self.process.size:
            raise BadMessage("bad_header")
        if kind == WANT:
            self._answer(event.source, origin, number)
        else:
            self._heard(channel, event, kind == DATA, origin, number)

    def _heard(
        self, channel: Channel, event: Deliver, has_payload: bool, origin: int, number: int
    ) -> None:
        """A payload or an acknowledgement came: either way its sender holds the message."""
        copy = self._copies.get((origin, number))
        if copy is None:
            if number in self._delivered[origin]:
                return
            copy = self._copies[origin, number] = Copy(channel)
        copy.holders |= 1 << event.source
        if copy.message is None:
            if has_payload:

                def acknowledge() -> None:
                    if origin != self.process.rank:
                        channel.down(self, Broadcast(Message(None).push(ACK, origin, number)))
                    self._settle(origin, number, copy)

                self._hold(origin, number, copy, event.message, acknowledge)
                return
            if copy.timer is None:
                self._ask_later(origin, number, copy)
        self._settle(origin, number, copy)

    def _hold(
        self, origin: int, number: int, copy: Copy, message: Message, then: Callable[[], None]
    ) -> None:
        """Keep a payload; only `then` may it be acknowledged, or sent for the first time."""
        self._copies[origin, number] = copy
        copy.message = message
        copy.holders |= 1 << self.process.rank
        if copy.timer is not None:
            copy.timer.cancel()
            copy.timer = None
        then()

    def _settle(self, origin: int, number: int, copy: Copy) -> None:
        """Deliver what a majority holds, and drop what others keep."""
        if copy.message is None:
            return
        if copy.holders.bit_count() >= self.majority and self._delivered[origin].add(number):
            _, inner = copy.message.pop(3)
            self._deliver(copy.channel, origin, number, inner)
        if number in self._delivered[origin] and (
            copy.holders == self._everyone or self._nearer_holders(origin, copy) >= self.majority
        ):
            self._drop(origin, number)

    def _deliver(self, channel: Channel, origin: int, number: int, inner: Message) -> None:
        channel.up(self, Deliver(origin, inner, number))

    def _drop(self, origin: int, number: int) -> None:
        del self._copies[origin, number]

    # Who keeps a message, and who is asked for it.

    def _nearest(self, origin: int, copy: Copy) -> list[int]:
        """The members known to hold a message, from its origin on along the ring of ranks."""
        size = self.process.size
        ring = ((origin + step) % size for step in range(size))
        return [rank for rank in ring if copy.holders >> rank & 1]

    def _nearer_holders(self, origin: int, copy: Copy) -> int:
        return self._nearest(origin, copy).index(self.process.rank)

    def _ask_later(self, origin: int, number: int, copy: Copy) -> None:
        copy.timer = self.process.perfect.call_later(
            self._ask_after, lambda: self._ask(origin, number, copy)
        )

    def _ask(self, origin: int, number: int, copy: Copy) -> None:
        holders = self._nearest(origin, copy)
        holder = holders[copy.asked % len(holders)]
        copy.asked += 1
        copy.channel.down(self, Send(holder, Message(None).push(WANT, origin, number)))
        self._ask_later(origin, number, copy)

    def _answer(self, source: int, origin: int, number: int) -> None:
        copy = self._copies.get((origin, number))
        if copy is not None and copy.message is not None and source != self.process.rank:
            copy.channel.down(self, Send(source, copy.message))
