"""FIFO order, on top of any broadcast: one sender's messages are delivered in the order of its broadcasts.

A message that comes before an earlier one of its sender waits for it. Over a broadcast that may miss
messages for good, `patience` bounds the wait: then the missing ones are given up, and dropped if they
come after all, so that the order holds among those that are delivered. At most `most_held` messages of
a sender wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Deliver
from pubsub.broadcast.kernel import Channel, Event, Layer, Session
from pubsub.broadcast.message import Message
from pubsub.broadcast.process import Process
from pubsub.reliable.order import PatientOrder, Verdict


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


class FifoSession(Session):
    def __init__(self, process: Process, layer: FifoOrder) -> None:
        super().__init__(process)
        self._sent = 0
        self._order: PatientOrder[int, tuple[Channel, Message]] = PatientOrder(
            self._emit,
            call_later=lambda delay, action: self.process.perfect.call_later(delay, action),
            patience=layer.patience,
            most_early=layer.most_held,
        )

    @property
    def stored(self) -> int:
        return self._order.waiting

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
        if self._order.take(event.source, number, (channel, inner)) is Verdict.OLD:
            self.process.count("late")

    def _emit(self, source: int, number: int, item: tuple[Channel, Message]) -> None:
        channel, message = item
        channel.up(self, Deliver(source, message, number))
