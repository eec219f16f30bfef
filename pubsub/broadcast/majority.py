"""Uniform reliable broadcast by a majority: without a failure detector, and, with a log, among members that
come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.context import Timer
from overlay.errors import check_positive
from pubsub.broadcast.events import Broadcast, Deliver, Finished, LayerMessage, Send
from pubsub.broadcast.kernel import BadMessage, Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.log import StableLog, StoredMessage
from pubsub.broadcast.process import GroupProcess
from pubsub.reliable.numbers import Numbers

DATA, ACK, WANT, HOLDS, BACK = range(5)
"""Kinds of messages; the last two only where there are logs: "I hold this one, do you?" and "I have come
back"."""


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

    With a log, members may crash and come back, as the tutorial's conclusion invites: any number of them, any
    number of times, and all at once. As long as a majority is up for long enough in the end, every member
    that comes back and stays delivers what any member delivered. A member holds a message in its log before
    it acknowledges the message, or sends it for the first time. A member that comes back says so, and asks
    who else holds what it holds; the others tell it what they keep that it does not hold. While a message is
    not delivered, its holders ask again every `ask_after` seconds. A message is delivered once in a life of
    the process; after a crash, those that were delivered and that the application had not said to be done
    with (`Finished`) are delivered again.
    """

    name = "iurb"
    requires = ("best-effort broadcast",)
    provides = ("reliable broadcast", "uniform broadcast")

    ask_after: float = 1.0
    """Seconds that a member waits for a payload, or with a log for an acknowledgement, before it asks a
    holder, and then the next one."""

    log: StableLog = field(default_factory=StableLog)
    """This member's own; the default keeps nothing."""

    def __post_init__(self) -> None:
        check_positive(self)

    def session(self, process: GroupProcess) -> LayerSession:
        return IndulgentSession(process, self)


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
    def __init__(self, process: GroupProcess, layer: IndulgentUniform) -> None:
        super().__init__(process)
        self.majority = process.size // 2 + 1
        self._ask_after = layer.ask_after
        self._log = layer.log
        self.sent: int = 0
        self._everyone = (1 << process.size) - 1
        self._delivered = [Numbers() for _ in range(process.size)]
        self._copies: dict[tuple[int, int], KnownCopy] = {}
        self._storing: dict[tuple[int, int], None] = {}
        """Messages on their way to the log."""
        self._again = process.timer(self._ask_again)
        self._restored = not self._log.is_durable

    @property
    def stored(self) -> int:
        """How many messages and out-of-order numbers are kept."""
        return len(self._copies) + sum(one.span_count for one in self._delivered)

    def holds(self, origin: int, number: int) -> bool:
        """Whether this member keeps the payload of a message."""
        copy = self._copies.get((origin, number))
        return copy is not None and copy.message is not None

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Finished):
            self._log.taken(event.source, event.number)
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
        is_known = kind <= (BACK if self._log.is_durable else WANT)
        if more or not is_known or origin >= self.process.size:
            raise BadMessage("bad_header")
        if kind == WANT:
            self._answer(event.source, origin, number)
        elif kind == BACK:
            self._welcome_back(event.source)
        else:
            self._heard(channel, event, kind == DATA, origin, number)
        is_here = self.holds(origin, number) or number in self._delivered[origin]
        if kind == HOLDS and is_here:
            self._acknowledge(channel, event.source, origin, number)

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
                        self._tell_all(channel, ACK, origin, number)
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
        """Keep a payload, in the log first; only `then` may it be acknowledged, or sent for the first
        time."""
        if (origin, number) in self._storing:
            return  # it came again while it is being written
        self._storing[origin, number] = None

        def stored() -> None:
            del self._storing[origin, number]
            self._copies[origin, number] = copy
            copy.message = message
            copy.holders |= 1 << self.process.rank
            if copy.timer is not None:
                copy.timer.cancel()
                copy.timer = None
            then()
            self._ask_again_later()

        self._log.held(StoredMessage(origin, number, message), stored)

    def _settle(self, origin: int, number: int, copy: KnownCopy) -> None:
        """Deliver what a majority holds, and drop what others keep."""
        if copy.message is None or self._copies.get((origin, number)) is not copy:
            return  # this member's own acknowledgement, which comes at once, may have settled it
        delivered = self._delivered[origin]
        if copy.holders.bit_count() >= self.majority and delivered.add(number):
            _, inner = copy.message.pop(3)

            def deliver() -> None:
                copy.channel.up(self, Deliver(origin, inner, number))

            self._log.delivered(origin, number, delivered.mark, deliver)
        if number in delivered and (
            copy.holders == self._everyone or self._nearer_holders(origin, copy) >= self.majority
        ):
            self._log.dropped(origin, number)
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

    def _tell_all(self, channel: LayerChannel, *header: int) -> None:
        channel.down(self, Broadcast(LayerMessage(None).push(*header)))

    # Coming back from a crash, with a log.

    def opened(self, channel: LayerChannel) -> None:
        if self._restored:
            return
        self._restored = True
        restored, rank = self._log.restore(), self.process.rank
        for origin, mark in restored.marks.items():
            self._delivered[origin] = Numbers(mark)
        for origin, number in restored.above:
            self._delivered[origin].add(number)
        mine = [number for origin, number in restored.above if origin == rank]
        mine += [copy.number for copy in restored.copies if copy.origin == rank]
        self.sent = max([self._delivered[rank].mark, *mine])
        for origin, number, message in restored.untaken:
            channel.up(self, Deliver(origin, message.pop(3)[1], number))
        self._tell_all(channel, BACK, 0, 0)
        for origin, number, message in restored.copies:
            self._copies[origin, number] = KnownCopy(channel, message, holders=1 << rank)
            self._tell_all(channel, HOLDS, origin, number)
        self._ask_again_later()

    def _welcome_back(self, member: int) -> None:
        for (origin, number), copy in self._copies.items():
            if copy.message is not None and not copy.holders >> member & 1:
                self._acknowledge(copy.channel, member, origin, number)

    def _acknowledge(self, channel: LayerChannel, to: int, origin: int, number: int) -> None:
        if to != self.process.rank:
            channel.down(self, Send(to, LayerMessage(None).push(ACK, origin, number)))

    def _ask_again_later(self) -> None:
        if self._copies and self._log.is_durable:
            self._again.set(self._ask_after)

    def _ask_again(self) -> None:
        waiting = [
            (origin, number, copy.channel)
            for (origin, number), copy in self._copies.items()
            if copy.message is not None and number not in self._delivered[origin]
        ]
        for origin, number, channel in waiting:
            self._tell_all(channel, HOLDS, origin, number)
        if waiting:
            self._ask_again_later()
