"""Uniform reliable broadcast by a majority: without a failure detector, and, with a log, among members that
come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.context import Timer
from overlay.errors import check_positive
from pubsub.broadcast.events import Broadcast, Deliver, Finished, LayerMessage, Send
from pubsub.broadcast.kernel import BadMessage, Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.log import StableLog, StoredMessage
from pubsub.broadcast.process import GroupProcess
from pubsub.reliable.numbers import Numbers

DATA, ACK, WANT = 0, 1, 2


@dataclass(frozen=True)
class IndulgentUniform(Layer):
    """Indulgent uniform reliable broadcast, majority-ack (the tutorial's section 9, figure 4).

    Uniform agreement without a failure detector, however wrong anybody's suspicions are and however long a
    partition lasts, as long as a majority of the members is correct. A member delivers a message when more
    than half of the members have acknowledged it. N(N - 1) messages, two message delays.

    No more than N/2 + 1 copies are kept (exercise 9.1). Acknowledgements carry no payload; a member that
    knows of a message and does not get its payload asks the holders in turn. The *keepers* of a message are
    the floor(N/2) + 1 members that hold it and are nearest to its origin on the ring of ranks. A member
    that has delivered drops its copy when it knows of floor(N/2) + 1 nearer holders, and everyone does when
    all members hold it. The nearest floor(N/2) + 1 never find that many nearer ones, so they keep it, and one
    of them is correct.
    """

    name = "iurb"
    requires = ("best-effort broadcast",)
    provides = ("reliable broadcast", "uniform broadcast")

    ask_after: float = 1.0
    """Seconds that a member waits for a payload before it asks a holder, and then the next one."""

    def __post_init__(self) -> None:
        check_positive(self)

    def session(self, process: GroupProcess) -> LayerSession:
        return IndulgentSession(process, self.ask_after)


@dataclass(slots=True)
class KnownCopy:
    """What a member knows of one message that not all members are known to hold."""

    channel: LayerChannel
    message: LayerMessage | None = None
    """As it was broadcast, with this layer's header; None while only acknowledgements have come."""
    holders: int = 0
    """The members that have acknowledged it, a bit for each rank."""
    timer: Timer | None = None
    asked: int = 0


class IndulgentSession(LayerSession):
    def __init__(self, process: GroupProcess, ask_after: float) -> None:
        super().__init__(process)
        self.majority = process.size // 2 + 1
        self._ask_after = ask_after
        self.sent: int = 0
        self._everyone = (1 << process.size) - 1
        self._delivered = [Numbers() for _ in range(process.size)]
        self._copies: dict[tuple[int, int], KnownCopy] = {}

    @property
    def stored(self) -> int:
        """How many messages and out-of-order numbers are kept."""
        return len(self._copies) + sum(one.span_count for one in self._delivered)

    def holds(self, origin: int, number: int) -> bool:
        """Whether this member keeps the payload of a message."""
        copy = self._copies.get((origin, number))
        return copy is not None and copy.message is not None

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Broadcast):
            channel.down(self, event)
            return
        self.sent += 1
        message = event.message.push(DATA, self.process.rank, self.sent)

        def send() -> None:
            channel.down(self, Broadcast(message))

        self._hold(self.process.rank, self.sent, KnownCopy(channel), message, send)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
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
        self, channel: LayerChannel, event: Deliver, has_payload: bool, origin: int, number: int
    ) -> None:
        """A payload or an acknowledgement came: either way its sender holds the message."""
        copy = self._copies.get((origin, number))
        if copy is None:
            if number in self._delivered[origin]:
                return
            copy = self._copies[origin, number] = KnownCopy(channel)
        copy.holders |= 1 << event.source
        if copy.message is None:
            if has_payload:

                def acknowledge() -> None:
                    if origin != self.process.rank:
                        channel.down(self, Broadcast(LayerMessage(None).push(ACK, origin, number)))
                    self._settle(origin, number, copy)

                self._hold(origin, number, copy, event.message, acknowledge)
                return
            if copy.timer is None:
                self._ask_later(origin, number, copy)
        self._settle(origin, number, copy)

    def _hold(
        self,
        origin: int,
        number: int,
        copy: KnownCopy,
        message: LayerMessage,
        then: Callable[[], None],
    ) -> None:
        """Keep a payload; only `then` may it be acknowledged, or sent for the first time."""
        self._copies[origin, number] = copy
        copy.message = message
        copy.holders |= 1 << self.process.rank
        if copy.timer is not None:
            copy.timer.cancel()
            copy.timer = None
        then()

    def _settle(self, origin: int, number: int, copy: KnownCopy) -> None:
        """Deliver what a majority holds, and drop what others keep."""
        if copy.message is None or self._copies.get((origin, number)) is not copy:
            return  # this member's own acknowledgement, which comes at once, may have settled it
        if copy.holders.bit_count() >= self.majority and self._delivered[origin].add(number):
            _, inner = copy.message.pop(3)
            self._deliver(copy.channel, origin, number, inner)
        if number in self._delivered[origin] and (
            copy.holders == self._everyone or self._nearer_holders(origin, copy) >= self.majority
        ):
            self._drop(origin, number)

    def _deliver(
        self, channel: LayerChannel, origin: int, number: int, inner: LayerMessage
    ) -> None:
        channel.up(self, Deliver(origin, inner, number))

    def _drop(self, origin: int, number: int) -> None:
        del self._copies[origin, number]

    # Who keeps a message, and who is asked for it.

    def _nearest(self, origin: int, copy: KnownCopy) -> list[int]:
        """The members known to hold a message, from its origin on along the ring of ranks."""
        size = self.process.size
        ring = ((origin + step) % size for step in range(size))
        return [rank for rank in ring if copy.holders >> rank & 1]

    def _nearer_holders(self, origin: int, copy: KnownCopy) -> int:
        return self._nearest(origin, copy).index(self.process.rank)

    def _ask_later(self, origin: int, number: int, copy: KnownCopy) -> None:
        copy.timer = self.process.perfect.call_later(
            self._ask_after, lambda: self._ask(origin, number, copy)
        )

    def _ask(self, origin: int, number: int, copy: KnownCopy) -> None:
        holders = self._nearest(origin, copy)
        holder = holders[copy.asked % len(holders)]
        copy.asked += 1
        copy.channel.down(self, Send(holder, LayerMessage(None).push(WANT, origin, number)))
        self._ask_later(origin, number, copy)

    def _answer(self, source: int, origin: int, number: int) -> None:
        copy = self._copies.get((origin, number))
        if copy is not None and copy.message is not None and source != self.process.rank:
            copy.channel.down(self, Send(source, copy.message))


HOLDS, BACK = 3, 4
"""More kinds of messages: "I hold this one, do you?" and "I have come back"."""


@dataclass(frozen=True)
class RecoverableUniform(Layer):
    """Uniform reliable broadcast among members that crash and come back, with what must survive in a log.

    The tutorial's conclusion invites it; it is the indulgent broadcast with stable
    storage. Any number of members may crash, any number of times, and all of them at once: as long as a
    majority is up for long enough in the end, every member that comes back and stays delivers what any
    member delivered.

    A member holds a message in its log before it acknowledges it, or sends it for the first time. A member
    that comes back says so, and asks who else holds what it holds; the others tell it what they keep that
    it does not hold. While a message is not delivered, its holders ask again every `ask_after` seconds.

    A message is delivered once in a life of the process. After a crash, those that were delivered and that
    the application had not said to be done with (`Finished`) are delivered again.
    """

    name = "iurb with a log"
    requires = ("best-effort broadcast",)
    provides = ("reliable broadcast", "uniform broadcast", "recovery")

    log: StableLog
    """This member's own."""

    ask_after: float = 1.0
    """Seconds until a member asks again for a payload or an acknowledgement that it misses."""

    def __post_init__(self) -> None:
        check_positive(self)

    def session(self, process: GroupProcess) -> LayerSession:
        return RecoverableSession(process, self)


class RecoverableSession(IndulgentSession):
    def __init__(self, process: GroupProcess, layer: RecoverableUniform) -> None:
        super().__init__(process, layer.ask_after)
        self._log = layer.log
        self._restored = False
        self._storing: dict[tuple[int, int], None] = {}
        """Messages on their way to the log."""
        self._again = process.timer(self._ask_again)

    def opened(self, channel: LayerChannel) -> None:
        if not self._restored:
            self._restored = True
            self._restore(channel)

    def _restore(self, channel: LayerChannel) -> None:
        restored = self._log.restore()
        for origin, mark in restored.marks.items():
            self._delivered[origin] = Numbers(mark)
        for origin, number in restored.above:
            self._delivered[origin].add(number)
        mine = [number for origin, number in restored.above if origin == self.process.rank]
        mine += [copy.number for copy in restored.copies if copy.origin == self.process.rank]
        self.sent = max([self._delivered[self.process.rank].mark, *mine])
        for origin, number, message in restored.untaken:
            channel.up(self, Deliver(origin, message.pop(3)[1], number))
        channel.down(self, Broadcast(LayerMessage(None).push(BACK, 0, 0)))
        for origin, number, message in restored.copies:
            copy = self._copies[origin, number] = KnownCopy(channel, message)
            copy.holders = 1 << self.process.rank
            channel.down(self, Broadcast(LayerMessage(None).push(HOLDS, origin, number)))
        self._ask_again_later()

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Finished):
            self._log.taken(event.source, event.number)
        super().on_down(channel, event)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Deliver):
            (kind, origin, number, *more), _ = event.message.pop(3)
            if kind in (HOLDS, BACK):
                if more or origin >= self.process.size:
                    raise BadMessage("bad_header")
                if kind == HOLDS:
                    self._answer_holder(channel, event, origin, number)
                else:
                    self._welcome_back(event.source)
                return
        super().on_up(channel, event)

    def _answer_holder(
        self, channel: LayerChannel, event: Deliver, origin: int, number: int
    ) -> None:
        self._heard(channel, event, False, origin, number)
        if self.holds(origin, number) or number in self._delivered[origin]:
            self._acknowledge(channel, event.source, origin, number)

    def _welcome_back(self, member: int) -> None:
        for (origin, number), copy in self._copies.items():
            if copy.message is not None and not copy.holders >> member & 1:
                self._acknowledge(copy.channel, member, origin, number)

    def _acknowledge(self, channel: LayerChannel, to: int, origin: int, number: int) -> None:
        if to != self.process.rank:
            channel.down(self, Send(to, LayerMessage(None).push(ACK, origin, number)))

    # What must be in the log before anybody is told.

    def _hold(
        self,
        origin: int,
        number: int,
        copy: KnownCopy,
        message: LayerMessage,
        then: Callable[[], None],
    ) -> None:
        if (origin, number) in self._storing:
            return  # it came again while it is being written
        self._storing[origin, number] = None

        def stored() -> None:
            del self._storing[origin, number]
            super(RecoverableSession, self)._hold(origin, number, copy, message, then)
            self._ask_again_later()

        self._log.held(StoredMessage(origin, number, message), stored)

    def _deliver(
        self, channel: LayerChannel, origin: int, number: int, inner: LayerMessage
    ) -> None:
        def delivered() -> None:
            super(RecoverableSession, self)._deliver(channel, origin, number, inner)

        self._log.delivered(origin, number, self._delivered[origin].mark, delivered)

    def _drop(self, origin: int, number: int) -> None:
        self._log.dropped(origin, number)
        super()._drop(origin, number)

    # Asking again.

    def _ask_again_later(self) -> None:
        if self._copies:
            self._again.set(self._ask_after)

    def _ask_again(self) -> None:
        waiting = [
            (origin, number, copy.channel)
            for (origin, number), copy in self._copies.items()
            if copy.message is not None and number not in self._delivered[origin]
        ]
        for origin, number, channel in waiting:
            channel.down(self, Broadcast(LayerMessage(None).push(HOLDS, origin, number)))
        if waiting:
            self._ask_again_later()
