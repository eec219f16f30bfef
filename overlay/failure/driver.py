"""The failure detector of a node: the pure detector, run over the node's channels and its probes.

A sign of life is any packet of the peer's side of the channel; peers that exchange messages are never asked
for more. A peer that is only listed is asked by a probe, which needs no channel. Suspicion is a hint: a
partition, or a peer that stands still for longer than the time-out, looks like a crash, and is taken back
when the peer is heard again.

**Strict mode** is for protocols that are proved with a perfect detector: once crashed, for ever crashed. A
strict subscriber is told of each peer at most once, and never that it came back; a peer that restarted (its
channel's session is another one) counts as crashed, for its state is gone. That is a *perfect* detector only
in a synchronous system: of the questions sent within `least_timeout`, at least one and its answer must
arrive, and no live process may stand still for longer. Where that does not hold, a live peer may be declared
crashed for ever, and the protocol above excludes it as if it had been.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.channel import Channels, PeerRestarted, TooManyChannels
from overlay.contact import Contact, PeerId
from overlay.errors import ClosedError
from overlay.failure.detector import Ask, AskOthers, Detector, FailureConfig, Restore, Suspect
from overlay.failure.probes import Probes
from overlay.metrics import Metrics
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import FrameKind

PeerHandler = Callable[[Contact], None]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Subscription:
    suspect: PeerHandler
    restore: PeerHandler | None
    strict: bool
    crashed: dict[PeerId, None] = field(default_factory=dict)


class FailureDetector:
    """Tells subscribers of watched peers that seem to have crashed, and that they are back."""

    def __init__(self, endpoint: Endpoint, channels: Channels, config: FailureConfig) -> None:
        metrics: Metrics = endpoint.metrics
        me = endpoint.contact.id
        self._turn = channels.turn
        self._channels = channels
        self._detector = Detector(me, config, channels.heard_at, channels.owes)
        self._subscriptions: dict[_Subscription, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Not asked of the timer: uvloop's has no `when` once its time has come.
        self._rings_at = 0.0
        self._closed = False
        self._asked = metrics.counter("failure_asked", "Signs of life asked for")
        self._suspected = metrics.counter("failure_suspected", "Suspicions raised")
        self._restored = metrics.counter("failure_restored", "Suspicions taken back")
        self._malformed = metrics.counter("probes_malformed", "Probes that make no sense")
        self._probes = Probes(
            lambda peer, body: endpoint.send(peer.address, FrameKind.PROBE, body),
            self._turn.now,
            self,
            light=config.light,
        )
        endpoint.on(FrameKind.PROBE, self._probes.receive)
        channels.on_restart(self._restarted)
        channels.on_state(lambda peer, state: self._news(peer))

    def watch(self, contact: Contact, *, in_turn: bool = False) -> None:
        """Watch a peer until `unwatch` was called as often as this, with the same `in_turn`.

        `in_turn`: of all peers that are watched so one is asked every `turn` seconds, which costs the same
        however many they are; and one that owes an answer (`expect`) is asked as soon as any other. Of one
        that is suspected already, subscribers are told again: some began to care for it just now.
        """
        if not self._closed:
            self._detector.watch(contact, self._turn.now(), in_turn=in_turn)
            self._arm()

    def unwatch(self, contact: Contact, *, in_turn: bool = False) -> None:
        self._detector.unwatch(contact.id, in_turn=in_turn)
        self._arm()

    def heard(self, peer: PeerId) -> None:
        """A peer gave a sign of life by a message that came over no channel."""
        self._detector.heard(peer, self._turn.now())
        if self._detector.is_suspected(peer):
            self._arm()

    def answered(self, peer: PeerId, light: bool) -> None:
        self._detector.note_light(peer, light)

    def named(self, peer: PeerId, watchers: tuple[Contact, ...]) -> None:
        self._detector.note_fellows(peer, watchers)

    def doubted(self, peer: PeerId) -> None:
        self._detector.doubt(peer, self._turn.now())
        self._arm()

    def alarmed(self) -> None:
        self._detector.alarm(self._turn.now())
        self._arm()

    def is_alarmed(self) -> bool:
        return self._detector.is_alarmed(self._turn.now())

    def malformed(self) -> None:
        self._malformed.add()

    def watched_by(self, contact: Contact) -> None:
        """A peer has this node in a table: when this node falls silent, the peer is to be told."""
        self._probes.watched_by(contact)

    def expect(self, contact: Contact) -> None:
        """Something was sent to a peer over its channel: its silence counts from now on."""
        self._detector.expect(contact, self._turn.now())
        self._arm()

    def subscribe(
        self, suspect: PeerHandler, restore: PeerHandler | None = None, *, strict: bool = False
    ) -> Callable[[], None]:
        """Call the handlers at each suspicion and each restoration; the result ends the subscription.

        A suspicion may be told more than once (see `watch`).

        `strict`: once crashed, for ever crashed (see above); `restore` is then never called.
        """
        subscription = _Subscription(suspect, restore, strict)
        self._subscriptions[subscription] = None
        return lambda: self._subscriptions.pop(subscription, None)

    def is_suspected(self, peer: PeerId) -> bool:
        return self._detector.is_suspected(peer)

    def level(self, peer: PeerId) -> float:
        """The suspicion level of a watched peer, see `accrual`; 0 while it is not being asked."""
        return self._detector.level(peer, self._turn.now())

    @property
    def watched(self) -> list[Contact]:
        return self._detector.watched

    def close(self) -> None:
        """Stop; no handler is called any more."""
        self._closed = True
        self._subscriptions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        due = self._detector.next_timer()
        if self._timer is not None:
            if due is not None and self._rings_at <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None and not self._closed:
            self._rings_at = due
            self._timer = self._turn.call_at(due, self._ring, due)

    def _ring(self, due: float) -> None:
        self._timer = None
        for action in self._detector.poll(max(self._turn.now(), due)):
            if isinstance(action, Ask):
                self._ask(action)
            elif isinstance(action, AskOthers):
                self._probes.ask_through(action.peer, action.helpers)
            elif isinstance(action, Suspect):
                self._suspected.value += not action.again
                self._tell_suspect(action.peer)
            elif isinstance(action, Restore):
                self._restored.value += 1
                self._tell_restore(action.peer)
        self._arm()

    def _ask(self, question: Ask) -> None:
        self._asked.value += 1
        if question.in_turn:
            self._probes.ask(question.peer)
            return
        try:
            self._channels.to(question.peer).ping()
        except (TooManyChannels, ClosedError) as problem:
            _log.debug("cannot ask %s: %s", question.peer, problem)

    def _news(self, peer: Contact) -> None:
        """A channel changed its state: a suspected peer may be back."""
        if self._detector.is_suspected(peer.id):
            self._detector.look_now(peer.id, self._turn.now())
            self._arm()

    def _restarted(self, peer: Contact, event: PeerRestarted) -> None:
        if self._detector.is_watched(peer.id):
            self._tell_suspect(peer, only_strict=True)

    def _tell_suspect(self, peer: Contact, only_strict: bool = False) -> None:
        for subscription in list(self._subscriptions):
            if subscription.strict:
                if peer.id in subscription.crashed:
                    continue
                subscription.crashed[peer.id] = None
            elif only_strict:
                continue
            self._call(subscription.suspect, peer)

    def _tell_restore(self, peer: Contact) -> None:
        for subscription in list(self._subscriptions):
            if subscription.restore is not None and not subscription.strict:
                self._call(subscription.restore, peer)

    def _call(self, handler: PeerHandler, peer: Contact) -> None:
        try:
            handler(peer)
        except Exception:
            _log.exception("a handler of the failure detector failed")
