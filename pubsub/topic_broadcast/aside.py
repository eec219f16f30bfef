"""Messages outside reliable broadcast: best-effort, stubborn, and for one participant alone.

    best-effort   sent once to each participant that can be talked to, as a datagram: may be lost or repeated
    stubborn      sent to each participant again and again, for as long as the publisher runs and the receiver
                  takes part: arrives, once, unless a side crashes; nobody but the publisher looks after it
    direct        sent over the channel to one participant: arrives, once, unless a side crashes

A publisher has at most a window of stubborn messages on their way; whoever stays away is given up after
`stay_away`, and when the window is full after `stay_away_when_full`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_broadcast.delivery import Delivery
from pubsub.topic_broadcast.messages import Aside, source_of
from pubsub.topic_broadcast.numbers import Numbers
from pubsub.topic_membership.context import Outcome, TopicContext
from pubsub.topic_membership.membership import TopicMembership

REORDERED = 4096
"""Numbers: a stubborn message that is so far behind others of its publisher is taken for a duplicate."""

DeliverAside = Callable[[Delivery], None]


class _Pending:
    __slots__ = ("message", "since", "underway", "waiting")

    def __init__(self, message: Aside, since: float) -> None:
        self.message = message
        self.since = since
        self.underway: dict[PeerId, None] = {}
        self.waiting: dict[PeerId, None] = {}
        """Those whom it must be sent to, for the first time or again."""


class AsideMessages:
    """One participant's messages outside reliable broadcast, sent and received."""

    def __init__(
        self,
        topic: str,
        context: TopicContext,
        config: BroadcastConfig,
        membership: TopicMembership,
        deliver: DeliverAside,
        on_direct: Callable[[PeerId, bytes], None],
        room: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._context = context
        self._config = config
        self._membership = membership
        self._deliver = deliver
        self._on_direct = on_direct
        self._room = room
        self._numbers = {"best-effort": 0, "stubborn": 0}
        self._pending: dict[int, _Pending] = {}
        self._pending_bytes = 0
        self._taken: dict[bytes, Numbers] = {}
        self._timer: Timer | None = None

    @property
    def is_full(self) -> bool:
        """Whether a stubborn publisher has to wait."""
        config = self._config
        return (
            len(self._pending) >= config.window_messages
            or self._pending_bytes >= config.window_bytes
        )

    def stop(self) -> None:
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()

    def best_effort(self, payload: bytes, to: list[Contact]) -> int:
        """Send once to each."""
        message = self._message("best-effort", payload)
        for contact in to:
            if self._membership.can_talk_to(contact.id):
                self._context.send_datagram(contact, message)
        return message.number

    def stubborn(self, payload: bytes, to: list[Contact]) -> int:
        """Send to each until it has it."""
        message = self._message("stubborn", payload)
        if to:
            pending = _Pending(message, self._context.now())
            pending.waiting = dict.fromkeys(contact.id for contact in to)
            self._pending[message.number] = pending
            self._pending_bytes += len(payload)
            self._try(pending)
        return message.number

    def direct(self, to: Contact, payload: bytes, outcome: Outcome) -> bool:
        message = Aside(self._topic, "direct", self._membership.life, 0, payload)
        return self._context.send(to, message, outcome)

    def receive(self, sender: Contact, message: Aside) -> None:
        if not self._membership.is_joined:
            return
        self._membership.heard(sender.id)
        if message.kind == "direct":
            self._on_direct(sender.id, message.payload)
        elif message.kind == "best-effort":
            self._deliver(
                Delivery(sender.id, message.life, message.number, message.payload, "best-effort")
            )
        else:
            source = source_of(sender.id, message.life)
            if source not in self._taken and len(self._taken) >= self._config.most_sources:
                del self._taken[next(iter(self._taken))]
            earliest = Numbers(max(0, message.number - REORDERED))
            taken = self._taken.setdefault(source, earliest)
            taken.remember_at_most(REORDERED)
            if taken.add(message.number):
                self._deliver(
                    Delivery(sender.id, message.life, message.number, message.payload, "stubborn")
                )

    def _message(self, kind: str, payload: bytes) -> Aside:
        self._numbers[kind] += 1
        return Aside(self._topic, kind, self._membership.life, self._numbers[kind], payload)

    def _try(self, pending: _Pending) -> None:
        for peer in list(pending.waiting):
            entry = self._membership.participants.get(peer)
            if entry is None:
                del pending.waiting[peer]
            elif self._membership.can_talk_to(peer):
                outcome = partial(self._outcome, pending, peer)
                if self._context.send(entry.contact, pending.message, outcome):
                    pending.underway[peer] = pending.waiting.pop(peer)
        if not pending.waiting and not pending.underway:
            self._done(pending)
        elif pending.waiting and self._timer is None:
            self._timer = self._context.call_later(self._config.check_interval, self._try_again)

    def _outcome(self, pending: _Pending, peer: PeerId, arrived: bool) -> None:
        if pending.message.number not in self._pending:
            return
        pending.underway.pop(peer, None)
        if not arrived:
            pending.waiting[peer] = None
        if not arrived or not pending.underway:
            self._try(pending)

    def _try_again(self) -> None:
        self._timer = None
        config, now = self._config, self._context.now()
        wait = config.stay_away_when_full if self.is_full else config.stay_away
        for pending in list(self._pending.values()):
            if now - pending.since >= wait:
                self._done(pending)
            else:
                self._try(pending)

    def _done(self, pending: _Pending) -> None:
        if self._pending.pop(pending.message.number, None) is not None:
            self._pending_bytes -= len(pending.message.payload)
            self._room()
