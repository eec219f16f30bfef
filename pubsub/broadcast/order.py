"""Orders, on top of any broadcast: FIFO and causal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from overlay.errors import UsageError
from pubsub.broadcast.events import Broadcast, Deliver, Header, LayerMessage
from pubsub.broadcast.kernel import BadMessage, Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.process import GroupProcess
from pubsub.reliable.order import PatientOrder, Verdict


def check_patience(patience: float | None, most_held: int) -> None:
    if patience is not None and not patience > 0:
        raise UsageError(f"patience={patience} must be more than 0 seconds, or None to wait on")
    if most_held < 1:
        raise UsageError(f"most_held={most_held} must be 1 or more")


@dataclass(frozen=True)
class FifoLayer(Layer):
    """FIFO order, on top of any broadcast: one sender's messages are delivered in the order of its
    broadcasts.

    A message that comes before an earlier one of its sender waits for it. Over a broadcast that may miss
    messages for good, `patience` bounds the wait: then the missing ones are given up, and dropped if they
    come after all, so that the order holds among those that are delivered. At most `most_held` messages of
    a sender wait.
    """

    name = "fifo"
    requires = ("broadcast",)
    provides = ("fifo order",)

    patience: float | None = None
    """Seconds that a message waits for earlier ones; None: as long as it takes."""

    most_held: int = 10_000
    """Messages of one sender that wait, with `patience`; one more gives up what they wait for."""

    def __post_init__(self) -> None:
        check_patience(self.patience, self.most_held)

    def session(self, process: GroupProcess) -> LayerSession:
        return FifoSession(process, self)


class FifoSession(LayerSession):
    def __init__(self, process: GroupProcess, layer: FifoLayer) -> None:
        super().__init__(process)
        self.sent: int = 0
        self._order: PatientOrder[int, tuple[LayerChannel, LayerMessage]] = PatientOrder(
            self._emit,
            call_later=lambda delay, action: self.process.perfect.call_later(delay, action),
            patience=layer.patience,
            most_early=layer.most_held,
        )

    @property
    def stored(self) -> int:
        return self._order.waiting

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Broadcast):
            self.sent += 1
            event = Broadcast(event.message.push(self.sent))
        channel.down(self, event)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Deliver):
            channel.up(self, event)
            return
        (number, *_), inner = event.message.pop(1)
        if self._order.take(event.source, number, (channel, inner)) is Verdict.OLD:
            self.process.count("late")

    def _emit(self, source: int, number: int, item: tuple[LayerChannel, LayerMessage]) -> None:
        channel, message = item
        channel.up(self, Deliver(source, message, number))


@dataclass(frozen=True)
class CausalLayer(Layer):
    """Causal order, on top of any broadcast: no message is delivered before one that it may depend on.

    A message depends on what its sender had broadcast and delivered before it. It carries, for each member,
    how many messages that is, and waits until this process has delivered as many. Over a broadcast that may
    miss messages for good, `patience` bounds the wait, as in `FifoLayer`: the missing ones are given up,
    and dropped if they come after all, so that the order holds among those that are delivered.
    """

    name = "causal"
    requires = ("broadcast",)
    provides = ("fifo order", "causal order")

    patience: float | None = None
    """Seconds that a message waits for those it depends on; None: as long as it takes."""

    most_held: int = 10_000
    """Messages that wait, with `patience`; one more gives up what they wait for."""

    def __post_init__(self) -> None:
        check_patience(self.patience, self.most_held)

    def needs(self) -> tuple[str, ...]:
        """Without patience, agreement too: a message must not wait for one that others alone deliver."""
        return (
            self.requires if self.patience is not None else (*self.requires, "reliable broadcast")
        )

    def session(self, process: GroupProcess) -> LayerSession:
        return CausalSession(process, self)


class _Held(NamedTuple):
    channel: LayerChannel
    source: int
    past: Header
    """How many messages of each member it depends on."""
    message: LayerMessage


class CausalSession(LayerSession):
    def __init__(self, process: GroupProcess, layer: CausalLayer) -> None:
        super().__init__(process)
        self._layer = layer
        self.sent: int = 0
        self._delivered = [0] * process.size
        self._held: list[_Held] = []
        self._timer = process.timer(self._give_up)

    @property
    def stored(self) -> int:
        return len(self._held)

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Broadcast):
            past = list(self._delivered)
            past[self.process.rank] = self.sent
            self.sent += 1
            event = Broadcast(event.message.push(*past))
        channel.down(self, event)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Deliver):
            channel.up(self, event)
            return
        past, inner = event.message.pop(self.process.size)
        if len(past) != self.process.size:
            raise BadMessage("bad_header")
        if past[event.source] < self._delivered[event.source]:
            self.process.count("late")
            return
        held = _Held(channel, event.source, past, inner)
        if self._is_due(held) and not self._held:
            self._pass_up(held)
            return
        self._held.append(held)
        self._release()
        if self._layer.patience is not None and len(self._held) > self._layer.most_held:
            self._give_up()

    def _is_due(self, held: _Held) -> bool:
        return all(need <= have for need, have in zip(held.past, self._delivered, strict=True))

    def _pass_up(self, held: _Held) -> None:
        self._delivered[held.source] = held.past[held.source] + 1
        number = self._delivered[held.source]
        held.channel.up(self, Deliver(held.source, held.message, number))

    def _release(self) -> None:
        """Deliver what is due, and what becomes due by that; what waits on has its time."""
        progress = True
        while progress:
            progress = False
            waiting, self._held = self._held, []
            for held in waiting:
                if held.past[held.source] < self._delivered[held.source]:
                    self.process.count("late")
                elif self._is_due(held):
                    self._pass_up(held)
                    progress = True
                else:
                    self._held.append(held)
        if not self._held:
            self._timer.cancel()
        elif self._layer.patience is not None:
            self._timer.set(self._layer.patience)

    def _give_up(self) -> None:
        """Go on with a message that depends on no other one that is here, as if its past were complete."""
        self._timer.cancel()
        if self._held:
            first = min(self._held, key=lambda held: sum(held.past))
            self._delivered = list(map(max, self._delivered, first.past))
            self._release()
