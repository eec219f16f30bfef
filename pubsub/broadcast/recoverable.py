"""Uniform reliable broadcast among members that crash and come back, with what must survive in a log.

The tutorial's conclusion invites it; it is the indulgent broadcast (see `indulgent`) with stable
storage. Any number of members may crash, any number of times, and all of them at once: as long as a
majority is up for long enough in the end, every member that comes back and stays delivers what any
member delivered.

A member holds a message in its log before it acknowledges it, or sends it for the first time. A member that
comes back says so, and asks who else holds what it holds; the others tell it what they keep that it does not
hold. While a message is not delivered, its holders ask again every `ask_after` seconds.

A message is delivered once in a life of the process. After a crash, those that were delivered and that the
application had not said to be done with (`Taken`) are delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.context import Timer
from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Deliver, Send, Taken
from pubsub.broadcast.indulgent import ACK, Copy, IndulgentSession
from pubsub.broadcast.kernel import BadMessage, Channel, Event, Layer, Session
from pubsub.broadcast.message import Message
from pubsub.broadcast.process import Process
from pubsub.broadcast.stable_log import StableLog, Stored
from pubsub.reliable.numbers import Numbers

HOLDS, BACK = 3, 4
"""More kinds of messages: "I hold this one, do you?" and "I have come back"."""


@dataclass(frozen=True)
class RecoverableUniform(Layer):
    name = "iurb with a log"
    requires = ("best-effort broadcast",)
    provides = ("reliable broadcast", "uniform broadcast", "recovery")

    log: StableLog
    """This member's own."""

    ask_after: float = 1.0
    """Seconds until a member asks again for a payload or an acknowledgement that it misses."""

    def __post_init__(self) -> None:
        if not self.ask_after > 0:
            raise UsageError(f"ask_after={self.ask_after} must be more than 0 seconds")

    def session(self, process: Process) -> Session:
        return RecoverableSession(process, self)


class RecoverableSession(IndulgentSession):
    def __init__(self, process: Process, layer: RecoverableUniform) -> None:
        super().__init__(process, layer.ask_after)
        self._log = layer.log
        self._restored = False
        self._storing: dict[tuple[int, int], None] = {}
        """Messages on their way to the log."""
        self._again: Timer | None = None

    def opened(self, channel: Channel) -> None:
        if not self._restored:
            self._restored = True
            self._restore(channel)

    def _restore(self, channel: Channel) -> None:
        restored = self._log.restore()
        for origin, mark in restored.marks.items():
            self._delivered[origin] = Numbers(mark)
        for origin, number in restored.above:
            self._delivered[origin].add(number)
        mine = [number for origin, number in restored.above if origin == self.process.rank]
        mine += [copy.number for copy in restored.copies if copy.origin == self.process.rank]
        self._sent = max([self._delivered[self.process.rank].mark, *mine])
        for origin, number, message in restored.untaken:
            channel.up(self, Deliver(origin, message.pop(3)[1], number))
        channel.down(self, Broadcast(Message(None).push(BACK, 0, 0)))
        for origin, number, message in restored.copies:
            copy = self._copies[origin, number] = Copy(channel, message)
            copy.holders = 1 << self.process.rank
            channel.down(self, Broadcast(Message(None).push(HOLDS, origin, number)))
        self._ask_again_later()

    def on_down(self, channel: Channel, event: Event) -> None:
        if isinstance(event, Taken):
            self._log.taken(event.source, event.number)
        super().on_down(channel, event)

    def on_up(self, channel: Channel, event: Event) -> None:
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

    def _answer_holder(self, channel: Channel, event: Deliver, origin: int, number: int) -> None:
        self._heard(channel, event, False, origin, number)
        if self.holds(origin, number) or number in self._delivered[origin]:
            self._acknowledge(channel, event.source, origin, number)

    def _welcome_back(self, member: int) -> None:
        for (origin, number), copy in self._copies.items():
            if copy.message is not None and not copy.holders >> member & 1:
                self._acknowledge(copy.channel, member, origin, number)

    def _acknowledge(self, channel: Channel, to: int, origin: int, number: int) -> None:
        if to != self.process.rank:
            channel.down(self, Send(to, Message(None).push(ACK, origin, number)))

    # What must be in the log before anybody is told.

    def _hold(
        self, origin: int, number: int, copy: Copy, message: Message, then: Callable[[], None]
    ) -> None:
        if (origin, number) in self._storing:
            return  # it came again while it is being written
        self._storing[origin, number] = None

        def stored() -> None:
            del self._storing[origin, number]
            super(RecoverableSession, self)._hold(origin, number, copy, message, then)
            self._ask_again_later()

        self._log.held(Stored(origin, number, message), stored)

    def _deliver(self, channel: Channel, origin: int, number: int, inner: Message) -> None:
        def delivered() -> None:
            super(RecoverableSession, self)._deliver(channel, origin, number, inner)

        self._log.delivered(origin, number, self._delivered[origin].mark, delivered)

    def _drop(self, origin: int, number: int) -> None:
        self._log.dropped(origin, number)
        super()._drop(origin, number)

    # Asking again.

    def _ask_again_later(self) -> None:
        if self._again is None and self._copies:
            self._again = self.process.perfect.call_later(self._ask_after, self._ask_again)

    def _ask_again(self) -> None:
        self._again = None
        waiting = [
            (origin, number, copy.channel)
            for (origin, number), copy in self._copies.items()
            if copy.message is not None and number not in self._delivered[origin]
        ]
        for origin, number, channel in waiting:
            channel.down(self, Broadcast(Message(None).push(HOLDS, origin, number)))
        if waiting:
            self._ask_again_later()
