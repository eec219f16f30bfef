"""Messages outside reliable broadcast: best-effort, stubborn, and for one participant alone.

    best-effort   sent once to each participant that can be talked to, as a datagram: may be lost or repeated
    stubborn      sent to each participant again and again, for as long as the publisher runs and the receiver
                  takes part: arrives, once, unless a side crashes; nobody but the publisher looks after it
    direct        sent over the channel to one participant: arrives, once, unless a side crashes

A publisher has at most a window of stubborn messages on their way; a receiver that stays away is given up
after `stay_away`, and when the window is full after `stay_away_when_full`. A receiver says of each stubborn
message that it has taken it, or that it has no room; then it is asked again with one message now and then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import OneTimer
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.runs import source_of
from pubsub.topics.config import BroadcastConfig
from pubsub.topics.context import Outcome, TopicContext
from pubsub.topics.delivering import Delivery
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import Aside

REORDERED = 4096
"""Numbers: a stubborn message that is this many behind others of its publisher is taken for a duplicate."""

SILENT = 5
"""Patiences: a receiver that says nothing of a stubborn message for this long is sent it again."""

DeliverAside = Callable[[Delivery], bool]
"""False where there is no room for a message."""


@dataclass(slots=True)
class _Pending:
    message: Aside
    since: float
    waiting: dict[PeerId, None]
    """The receivers to which the message must be sent, for the first time or again."""
    underway: dict[PeerId, tuple[int, float]] = field(default_factory=dict)
    """Those whom it was sent to, in which boot and when, until they say what became of it."""


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
        self._refusing: dict[PeerId, bool] = {}
        """Those who had no room, and whether it is time to ask them again with one message."""
        self._timer = OneTimer(context.call_later, self._try_again)

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
        self._timer.close()

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
            waiting = dict.fromkeys(contact.id for contact in to)
            pending = _Pending(message, self._context.now(), waiting)
            self._pending[message.number] = pending
            self._pending_bytes += len(payload)
            self._try(pending)
        return message.number

    def direct(self, to: Contact, payload: bytes, outcome: Outcome) -> bool:
        message = Aside(self._topic, "direct", self._membership.run, 0, payload)
        return self._context.try_send(to, message, outcome)

    def receive(self, sender: Contact, message: Aside) -> None:
        if not self._membership.is_joined:
            return
        if message.kind != "best-effort":  # a datagram may be of a node that is gone
            self._membership.heard(sender.id)
        if message.kind == "direct":
            self._on_direct(sender.id, message.payload)
        elif message.kind == "stubborn":
            self._receive_stubborn(sender, message)
        elif message.kind == "best-effort":
            self._deliver(
                Delivery(sender.id, message.run, message.number, message.payload, "best-effort")
            )
        elif message.run == self._membership.run:
            self._heard(sender.id, message.number, message.kind == "taken")

    def _receive_stubborn(self, sender: Contact, message: Aside) -> None:
        source = source_of(sender.id, message.run)
        if source not in self._taken and len(self._taken) >= self._config.most_sources:
            del self._taken[next(iter(self._taken))]
        earliest = Numbers(max(0, message.number - REORDERED))
        taken = self._taken.setdefault(source, earliest)
        taken.give_up_holes(REORDERED)
        delivery = Delivery(sender.id, message.run, message.number, message.payload, "stubborn")
        is_here = message.number in taken or self._deliver(delivery)
        if is_here:
            taken.add(message.number)
        kind = "taken" if is_here else "refused"
        # Should the answer be lost, the message comes again, as its publisher has heard nothing.
        self._context.send(sender, Aside(self._topic, kind, message.run, message.number, b""))

    def _heard(self, peer: PeerId, number: int, taken: bool) -> None:
        """A receiver has said what became of a message."""
        pending = self._pending.get(number)
        if pending is None or pending.underway.pop(peer, None) is None:
            return
        if not taken:
            pending.waiting[peer] = None
            self._refusing.setdefault(peer, False)
        elif self._refusing.pop(peer, None) is not None:
            self._try_all()
        self._done_if_nobody_is_left(pending)

    def _message(self, kind: str, payload: bytes) -> Aside:
        self._numbers[kind] += 1
        return Aside(self._topic, kind, self._membership.run, self._numbers[kind], payload)

    def _try(self, pending: _Pending) -> None:
        for peer in list(pending.waiting):
            entry = self._membership.participants.get(peer)
            if entry is None:
                del pending.waiting[peer]
            elif self._membership.can_talk_to(peer) and self._may_send_to(peer):
                outcome = partial(self._outcome, pending, peer)
                if self._context.try_send(entry.contact, pending.message, outcome):
                    del pending.waiting[peer]
                    pending.underway[peer] = (entry.boot, self._context.now())
        self._done_if_nobody_is_left(pending)

    def _may_send_to(self, peer: PeerId) -> bool:
        if peer not in self._refusing:
            return True
        is_time, self._refusing[peer] = self._refusing[peer], False
        return is_time

    def _done_if_nobody_is_left(self, pending: _Pending) -> None:
        if pending.waiting or pending.underway:
            self._timer.set(self._config.check_interval)
        else:
            self._done(pending)

    def _outcome(self, pending: _Pending, peer: PeerId, arrived: bool) -> None:
        if not arrived and pending.underway.pop(peer, None) is not None:
            pending.waiting[peer] = None
            if pending.message.number in self._pending:
                self._try(pending)

    def _try_again(self) -> None:
        self._refusing = dict.fromkeys(self._refusing, True)
        self._try_all()

    def _try_all(self) -> None:
        config, now = self._config, self._context.now()
        wait = config.stay_away_when_full if self.is_full else config.stay_away
        for pending in list(self._pending.values()):
            if now - pending.since >= wait:
                self._done(pending)
            else:
                self._take_back(pending, now)
                self._try(pending)

    def _take_back(self, pending: _Pending, now: float) -> None:
        """What came before its receiver had begun, or was lost with its memory, must be sent again."""
        for peer, (boot, since) in list(pending.underway.items()):
            entry = self._membership.participants.get(peer)
            is_silent = now - since >= SILENT * self._config.patience
            if entry is None or entry.boot != boot or is_silent:
                del pending.underway[peer]
                pending.waiting[peer] = None

    def _done(self, pending: _Pending) -> None:
        if self._pending.pop(pending.message.number, None) is not None:
            self._pending_bytes -= len(pending.message.payload)
            if not self._pending:
                self._refusing.clear()
            self._room()
