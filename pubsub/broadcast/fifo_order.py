"""FIFO order, on top of any broadcast: one sender's messages are delivered in the order of its broadcasts.

A message that comes before an earlier one of its sender waits for it. Over a broadcast that may miss
messages for good, `patience` bounds the wait: then the missing ones are given up, and dropped if they
come after all, so that the order holds among those that are delivered. At most `most_held` messages of
a sender wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.context import Timer
from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Deliver
from pubsub.broadcast.kernel import Channel, Event, Layer, Session
from pubsub.broadcast.message import Message
from pubsub.broadcast.process import Process


def check_patience(patience: float | None, most_held: int) -> None:
    if patience is not None and not patience > 0:
        raise UsageError(f"patience={patience} must be more than 0 seconds, or None to wait on")
    if most_held < 1:
        raise UsageError(f"most_held={most_held} must be 1 or more")


@dataclass(frozen=True)
class FifoOrder(Layer):
    name = "fifo"
    requires = ("broadcast",)
    provides = ("fifo order",)

    patience: float | None = None
    """Seconds that a message waits for earlier ones; None: as long as it takes."""

    most_held: int = 10_000
    """Messages of one sender that wait, with `patience`; one more gives up what they wait for."""

    def __post_init__(self) -> None:
        check_patience(self.patience, self.most_held)

    def session(self, process: Process) -> Session:
        return FifoSession(process, self)


@dataclass(slots=True)
class _Sender:
    next: int = 1
    held: dict[int, tuple[Channel, Message]] | None = None
    timer: Timer | None = None


class FifoSession(Session):
    def __init__(self, process: Process, layer: FifoOrder) -> None:
        super().__init__(process)
        self._layer = layer
        self._sent = 0
        self._senders: dict[int, _Sender] = {}

    @property
    def stored(self) -> int:
        return sum(len(sender.held or ()) for sender in self._senders.values())

    def on_down(self, channel: Channel, event: Event) -> None:
        if isinstance(event, Broadcast):
            self._sent += 1
            event = Broadcast(event.message.push(self._sent))
        channel.down(self, event)

    def on_up(self, channel: Channel, event: Event) -> None:
        if not isinstance(event, Deliver):
            channel.up(self, event)
            return
        (number, *_), inner = event.message.pop(1)
        sender = self._senders.setdefault(event.source, _Sender())
        if number < sender.next:
            self.process.count("late")
            return
        sender.held = sender.held or {}
        sender.held[number] = (channel, inner)
        self._release(event.source, sender)
        if self._layer.patience is not None and len(sender.held or ()) > self._layer.most_held:
            self._give_up(event.source, sender)

    def _release(self, source: int, sender: _Sender) -> None:
        held = sender.held or {}
        while sender.next in held:
            channel, message = held.pop(sender.next)
            channel.up(self, Deliver(source, message, sender.next))
            sender.next += 1
        if not held:
            sender.held = None
            if sender.timer is not None:
                sender.timer.cancel()
                sender.timer = None
        elif sender.timer is None and self._layer.patience is not None:
            sender.timer = self.process.perfect.call_later(
                self._layer.patience, lambda: self._give_up(source, sender)
            )

    def _give_up(self, source: int, sender: _Sender) -> None:
        """Go on with the lowest message that is here."""
        if sender.timer is not None:
            sender.timer.cancel()
            sender.timer = None
        if sender.held:
            sender.next = min(sender.held)
            self._release(source, sender)
