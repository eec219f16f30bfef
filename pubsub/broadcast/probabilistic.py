"""Probabilistic broadcast (the tutorial's section 10, figure 5): gossip over unreliable links.

The sender gossips a message to `fanout` random members, who gossip it again, `maxrounds` rounds in all.
Each member delivers it at most once; one that is correct delivers it with a probability (see
`missing`), not for sure.

By the letter of the figure a member gossips at every reception, which costs up to fanout + fanout^2 +
... + fanout^maxrounds messages. With `first_only` (exercise 10.1) it gossips at the first one alone: at
most N x fanout messages, for about the same coverage when there are enough rounds. What a member stores
and sends is bounded (exercise 10.2) by `most_stored` and `throughput`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from overlay.context import OneTimer
from overlay.errors import UsageError, check_positive
from pubsub.broadcast.events import Broadcast, Deliver, LayerMessage, Receive, Send
from pubsub.broadcast.kernel import BadMessage, Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.process import GroupProcess
from pubsub.reliable.numbers import Numbers

FARTHEST = 1 << 20
"""Numbers: how far above the highest so far a message may be; a peer that claims more is not believed."""


@dataclass(frozen=True)
class Probabilistic(Layer):
    name = "pb"
    requires = ("unreliable links",)
    provides = ("broadcast", "probabilistic broadcast")

    fanout: int = 4
    """Random members that a message is gossiped to; all others where the group is smaller."""

    maxrounds: int = 6
    """Rounds in which a message is gossiped; 1: by its sender alone."""

    first_only: bool = False
    """Gossip a message at its first reception only."""

    most_stored: int = 1024
    """Numbers remembered of each sender to tell repetitions, and messages that wait for `throughput`."""

    throughput: float | None = None
    """Messages a second that a member may send; None: no limit. More wait, the oldest giving way."""

    def __post_init__(self) -> None:
        check_positive(self)
        if self.throughput is not None and not self.throughput > 0:
            raise UsageError(f"throughput={self.throughput} must be more than 0 messages a second")

    def session(self, process: GroupProcess) -> LayerSession:
        return ProbabilisticSession(process, self)


def missing(members: int, fanout: int, rounds: int, loss: float = 0.0) -> float:
    """The probability that a member other than the sender misses a message, gossiped at every reception.

    Exact, for links that lose each message with probability `loss`. Let u be the probability that one
    gossip and all that follows from it misses the member: with a = loss + (1 - loss) u' for the round
    after, u = (1 - q) a^fanout + q loss a^(fanout - 1), where q = fanout/(members - 1) is the
    probability to be picked.
    """
    picked = fanout / (members - 1)
    missed = 1.0
    for _ in range(rounds):
        one = loss + (1 - loss) * missed
        missed = (1 - picked) * one**fanout + picked * loss * one ** (fanout - 1)
    return missed


class ProbabilisticSession(LayerSession):
    def __init__(self, process: GroupProcess, layer: Probabilistic) -> None:
        super().__init__(process)
        self._layer = layer
        self._fanout = min(layer.fanout, process.size - 1)
        self._others = [rank for rank in range(process.size) if rank != process.rank]
        self.sent: int = 0
        self._seen: dict[int, Numbers] = {}
        self._pacer = _Pacer(self, layer.throughput, layer.most_stored)

    @property
    def stored(self) -> int:
        """How many numbers and waiting messages are kept."""
        return len(self._pacer.waiting) + sum(one.span_count for one in self._seen.values())

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Broadcast):
            channel.down(self, event)
            return
        self.sent += 1
        rank = self.process.rank
        self._saw(rank, self.sent)
        channel.up(self, Deliver(rank, event.message, self.sent))
        self._gossip(channel, event.message, rank, self.sent, self._layer.maxrounds - 1)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Receive):
            channel.up(self, event)
            return
        (origin, number, rounds, *more), inner = event.message.pop(3)
        if more or origin >= self.process.size or rounds >= self._layer.maxrounds:
            raise BadMessage("bad_header")
        first = self._saw(origin, number)
        if first:
            channel.up(self, Deliver(origin, inner, number))
        if rounds > 0 and (first or not self._layer.first_only):
            self._gossip(channel, inner, origin, number, rounds - 1)

    def _saw(self, origin: int, number: int) -> bool:
        seen = self._seen.get(origin)
        if seen is None:
            seen = self._seen[origin] = Numbers()
        if number > seen.highest + FARTHEST:
            raise BadMessage("number_too_far")
        is_new = seen.add(number)
        seen.give_up_holes(self._layer.most_stored)
        return is_new

    def _gossip(
        self, channel: LayerChannel, inner: LayerMessage, origin: int, number: int, rounds: int
    ) -> None:
        message = inner.push(origin, number, rounds)
        for rank in self.process.unreliable.random.sample(self._others, self._fanout):
            self._pacer.send(channel, Send(rank, message))


class _Pacer:
    """Lets at most `throughput` messages a second down; with no limit, all of them at once."""

    def __init__(self, session: LayerSession, throughput: float | None, most: int) -> None:
        self.waiting: deque[tuple[LayerChannel, Send]] = deque(maxlen=most)
        self._session = session
        self._interval = 0.0 if throughput is None else 1 / throughput
        self._timer = OneTimer(
            lambda delay, ring: session.process.unreliable.call_later(delay, ring), self._next
        )

    def send(self, channel: LayerChannel, send: Send) -> None:
        if not self._interval:
            channel.down(self._session, send)
            return
        if len(self.waiting) == self.waiting.maxlen:
            self._session.process.count("throughput")
        self.waiting.append((channel, send))
        if not self._timer.is_set:
            self._next()

    def _next(self) -> None:
        if self.waiting:
            channel, send = self.waiting.popleft()
            self._timer.set(self._interval)
            channel.down(self._session, send)
