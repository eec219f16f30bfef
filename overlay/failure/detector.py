"""The failure detector as a pure object: told the time, it asks watched peers and says whom it suspects.

The channel failure detector of DACE section 5.2: hints, not facts. A crashed peer is eventually suspected,
and a suspected peer that is heard again is restored. It monitors only the peers that it was asked to watch,
and asks nothing of those that are heard from anyway.

How strongly a silent peer is suspected is learned from how long it took to answer before. A peer that
does not answer is asked again every r seconds. If question or answer is lost with chance q, the
time to answer is a constant part (the way there and back) and a rest that exceeds t with chance about
q^(t/r); its mean is m = r q / (1 - q), and so q^(t/r) = exp(-t/s) with s = r / ln(1 + r/m). The *suspicion
level* after a silence is minus log10 of that chance: it accrues, and the caller sets the threshold. (The
accrual detector of Hayashibara et al., SRDS 2004, with the tail that repeated questions have, in place of a
normal one.)

Peers that are only listed somewhere (a table) are watched *in turn*: one question every few seconds, however
many they are, and light members more seldom. A peer that is in as many tables as it has entries is then asked
by somebody as often. The first that gets no answer asks others that list the peer, whom the peer has named
(`overlay.failure.probes`), to ask it, and these do the same: so all who list it notice its crash within
seconds of the first, at a cost that does not grow with N. A node that sends it something needs no turn.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.errors import UsageError, check_positive

PRIOR = 8
"""Answers for which the expectation counts until there are answers."""

MEMORY = 32
"""Answers over which the mean is taken, the newer weighing more."""

FALL = 1 / 8
RISE = 1 / 64
"""How fast the constant part follows faster and slower answers: it stays near the fastest usual ones."""

LEAST_REST = 0.001
"""Seconds: the least mean of the rest."""

EXPECTED_ANSWER = 0.2
"""Seconds: how long a peer is thought to take until it has answered."""

SELDOM = 8
"""How many times as long a light member waits before it asks, or is asked, in turn."""

SECOND_TO_ASK = 1.1
"""How much longer the smaller id of a pair waits before it asks, so that only one of the two does."""


ALARM_TURNS = 4
"""Two crashes within as many turns raise an alarm, and there is no other for as long."""


@dataclass(frozen=True)
class FailureConfig:
    """Times are seconds. A crash is noticed within 1.1 x interval + time-out, by default 4.2 s; that of a
    peer which is watched `in_turn`, and to which nothing is sent, within turn x peers + time-out."""

    interval: float = 1.5
    """A watched peer that was silent for this many seconds is asked for a sign of life; any traffic is one.
    Of two that watch each other, the one with the smaller id waits a tenth longer, and so is asked and needs
    not ask."""

    turn: float = 5.0
    """Of the peers that are watched `in_turn`, one is asked every `turn` seconds, however many there are:
    the one that has been silent for longest."""

    turn_retry: float = 0.5
    """A peer that is watched `in_turn`, and to which nothing is sent, is asked again every `turn_retry`
    seconds."""

    helpers: int = 3
    """When such a peer did not answer the first question, this many others, which watch it too if some are
    known, are asked to ask it as well (the indirect probes of SWIM): what cuts off two nodes only is not
    taken for a crash."""

    least_retry: float = 0.1
    """It is asked again every max(least_retry, 1.25 x the shortest usual answer) until it answers."""

    threshold: float = 6.0
    """The suspicion level at which a peer is suspected: minus log10 of the chance that a live peer would take
    that long to answer, given how long it took before."""

    least_timeout: float = 2.5
    """No peer is suspected until this many seconds after it was first asked: a process may stand still for
    that long."""

    most_timeout: float = 30.0
    """Every peer that has not answered for this many seconds is suspected, however slow it was before."""

    light: bool = False
    """A light member asks in turn, and is asked by those who only list it, eight times as seldom. A node that
    is a light member of the DHT is one here as well."""

    probe_interval: float = 2.0
    """A suspected peer is asked again every `probe_interval` seconds."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("helpers",))
        if self.helpers < 0:
            raise UsageError(f"helpers={self.helpers} must be 0 or more")
        if self.most_timeout < self.least_timeout:
            raise UsageError(
                f"most_timeout={self.most_timeout} is less than least_timeout={self.least_timeout}"
            )


class AnswerTime:
    """What is known of how long one peer takes to answer."""

    __slots__ = ("_mean", "_weight", "shortest")

    def __init__(self, expected: float) -> None:
        """`expected`: seconds, assumed until there are answers."""
        self.shortest = expected / 2
        self._mean = expected
        self._weight = PRIOR

    def sample(self, seconds: float) -> None:
        self._weight = min(self._weight + 1, MEMORY)
        self._mean += (seconds - self._mean) / self._weight
        gap = seconds - self.shortest
        self.shortest += gap * (FALL if gap < 0 else RISE)

    def _scale(self, retry: float) -> float:
        rest = max(self._mean - self.shortest, LEAST_REST)
        return retry / math.log1p(retry / rest)

    def level(self, silence: float, retry: float) -> float:
        """The suspicion level after `silence` seconds of questions, `retry` seconds apart, without an
        answer."""
        return max(0.0, silence - self.shortest) / (self._scale(retry) * math.log(10))

    def timeout(self, threshold: float, retry: float) -> float:
        """The silence at which the level reaches `threshold`."""
        return self.shortest + threshold * math.log(10) * self._scale(retry)


@dataclass(frozen=True, slots=True)
class Ask:
    """The peer is to be asked for a sign of life."""

    peer: Contact
    in_turn: bool = False
    """Nothing was sent to it and it is only listed: it needs no channel for that."""


@dataclass(frozen=True, slots=True)
class AskOthers:
    """The peer did not answer at once: these are to ask it as well."""

    peer: Contact
    helpers: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Suspect:
    """The peer is believed to have crashed, or to be cut off."""

    peer: Contact
    again: bool = False
    """That was said before; somebody watches the peer since then who was not told."""


@dataclass(frozen=True, slots=True)
class Restore:
    """A suspected peer was heard again."""

    peer: Contact


Action = Ask | AskOthers | Suspect | Restore


class _Watch:
    __slots__ = (
        "answers",
        "asked_at",
        "contact",
        "count",
        "count_in_turn",
        "due",
        "fellows",
        "heard_at",
        "is_expected",
        "is_light",
        "is_untold",
        "suspected",
        "turns",
    )

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.count = 0
        self.count_in_turn = 0
        self.answers = AnswerTime(EXPECTED_ANSWER)
        self.heard_at = now
        self.asked_at: float | None = None
        """When the peer was first asked and did not answer since."""
        self.is_expected = False
        """What was sent to it over its channel is not acknowledged."""
        self.is_light = False
        """It said that it wants to be asked seldom."""
        self.fellows: tuple[Contact, ...] = ()
        """Others that watch it, as it said last."""
        self.suspected = False
        self.is_untold = False
        """It was suspected already when somebody began to watch it."""
        self.turns = 0
        """How many turns it waits until it is first asked; 0: as many as peers are watched in turn."""
        self.due = now

    @property
    def is_in_turn(self) -> bool:
        """Whether nobody asks for more than that the peer is looked at in turn."""
        return self.count <= 0 < self.count_in_turn

    @property
    def is_idle(self) -> bool:
        """Whether it is watched in turn, and nothing that was sent to it is not acknowledged."""
        return self.is_in_turn and not self.is_expected

    def question(self) -> Ask:
        return Ask(self.contact, self.is_idle)


class Detector:
    """Watches any number of peers; the time of each is looked at only when something may be due."""

    def __init__(
        self,
        me: PeerId,
        config: FailureConfig,
        heard_at: Callable[[PeerId], float | None],
        owes: Callable[[PeerId], bool] = lambda peer: False,
    ) -> None:
        """`heard_at`: when a peer last gave a sign of life, on the clock of `now`; None if not known.

        `owes`: whether something that was sent to a peer is not acknowledged."""
        self._owes = owes
        self._me = me
        self._config = config
        self._heard_at = heard_at
        self._watches: dict[PeerId, _Watch] = {}
        self._in_turn = 0
        """Peers that are watched in turn only."""
        self._suspected_at = -math.inf
        self._alarm_at = -math.inf
        """For one turn after that, nobody waits for its turn."""
        self._is_own_alarm = False
        """Whether this node has itself suspected several."""
        self._queue: list[tuple[float, int, PeerId]] = []
        self._order = 0

    def watch(self, contact: Contact, now: float, *, in_turn: bool = False) -> None:
        """Watch a peer; one that is watched already, once more (and at this address from now on).

        `in_turn`: it need not be asked as soon as it is silent, but in turn with others that are watched so,
        and when an answer is expected of it (`expect`). One that is suspected, and is not heard again, is
        soon reported again."""
        watch = self._watches.get(contact.id)
        is_new = watch is None
        if watch is None:
            watch = self._watches[contact.id] = _Watch(contact, now)
        watch.contact = contact
        self._in_turn -= watch.is_in_turn
        if in_turn:
            watch.count_in_turn += 1
        else:
            watch.count += 1
        self._in_turn += watch.is_in_turn
        if is_new and in_turn:
            watch.turns = (
                self._in_turn
            )  # not all that begin to be watched together are asked together
        if watch.suspected:
            watch.is_untold = True
        if is_new or watch.suspected or not in_turn:
            self._schedule(watch, now)

    def unwatch(self, peer: PeerId, *, in_turn: bool = False) -> None:
        """Take back one `watch`; after the last one the peer is left alone and forgotten.

        But one that owes an answer is forgotten only when it has answered, or has been suspected: somebody
        may wait for what was sent to it."""
        watch = self._watches.get(peer)
        if watch is None:
            return
        self._in_turn -= watch.is_in_turn
        if in_turn:
            watch.count_in_turn -= 1
        else:
            watch.count -= 1
        self._in_turn += watch.is_in_turn
        if watch.asked_at is None or watch.suspected:
            self._forget_unwatched(watch)

    def heard(self, peer: PeerId, now: float) -> None:
        """A watched peer gave a sign of life in another way than `heard_at` knows."""
        watch = self._watches.get(peer)
        if watch is not None:
            watch.heard_at = now
            if watch.suspected:
                self._schedule(watch, now)

    def note_light(self, peer: PeerId, light: bool) -> None:
        """A watched peer said whether it is a light member."""
        watch = self._watches.get(peer)
        if watch is not None:
            watch.is_light = light

    def note_fellows(self, peer: PeerId, fellows: tuple[Contact, ...]) -> None:
        """A watched peer named others that watch it."""
        watch = self._watches.get(peer)
        if watch is not None:
            watch.fellows = fellows

    def doubt(self, peer: PeerId, now: float) -> None:
        """A peer does not answer somebody else, and was asked by this node just now: its silence counts."""
        watch = self._watches.get(peer)
        if watch is not None and watch.is_idle and watch.asked_at is None:
            self._count_silence(watch, now)
            self._schedule(watch, now + self._retry(watch))

    def expect(self, contact: Contact, now: float) -> None:
        """Something was sent to a peer that it acknowledges: its silence from now on counts.

        One that nobody watches is watched until it has answered or is suspected."""
        watch = self._watches.get(contact.id)
        if watch is None:
            watch = self._watches[contact.id] = _Watch(contact, now)
        if watch.asked_at is None and not watch.count:
            self._count_silence(watch, now)
            watch.is_expected = True
            self._schedule(watch, now + max(self._retry(watch), EXPECTED_ANSWER))

    def _count_silence(self, watch: _Watch, now: float) -> None:
        watch.asked_at = now
        # That it was heard, or began to be watched, at this very moment is not the answer.
        watch.heard_at = min(watch.heard_at, math.nextafter(now, -math.inf))

    def _forget_unwatched(self, watch: _Watch) -> bool:
        is_unwatched = watch.count <= 0 and watch.count_in_turn <= 0
        if is_unwatched:
            del self._watches[watch.contact.id]
        return is_unwatched

    def is_watched(self, peer: PeerId) -> bool:
        return peer in self._watches

    def is_suspected(self, peer: PeerId) -> bool:
        watch = self._watches.get(peer)
        return watch is not None and watch.suspected

    def level(self, peer: PeerId, now: float) -> float:
        """The suspicion level of a peer; 0 for one that is not watched, or not being asked."""
        watch = self._watches.get(peer)
        if watch is None or watch.asked_at is None:
            return 0.0
        return watch.answers.level(now - watch.asked_at, self._retry(watch))

    @property
    def watched(self) -> list[Contact]:
        return [watch.contact for watch in self._watches.values()]

    def next_timer(self) -> float | None:
        """When to call `poll` next."""
        queue = self._queue
        while queue and self._is_stale(queue[0]):
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def poll(self, now: float) -> list[Action]:
        """What is to be done, and reported, now."""
        actions: list[Action] = []
        while (due := self.next_timer()) is not None and due <= now:
            watch = self._watches[heapq.heappop(self._queue)[2]]
            self._look(watch, now, actions)
        return actions

    def look_now(self, peer: PeerId, now: float) -> None:
        """Have the next `poll` look at this peer: there is news of it."""
        watch = self._watches.get(peer)
        if watch is not None:
            self._schedule(watch, now)

    def _look(self, watch: _Watch, now: float, actions: list[Action]) -> None:
        heard_at = self._heard_at(watch.contact.id)
        if heard_at is not None and heard_at > watch.heard_at:
            watch.heard_at = heard_at
        if watch.asked_at is not None and watch.heard_at >= watch.asked_at:
            self._answered(watch, watch.heard_at - watch.asked_at, actions)
            if not watch.count and self._owes(watch.contact.id):
                # It was heard, but what was sent since then is not acknowledged.
                watch.asked_at = now
                watch.is_expected = True
                self._schedule(watch, now + max(self._retry(watch), EXPECTED_ANSWER))
                return
            if self._forget_unwatched(watch):
                return
        if watch.asked_at is None:
            self._listen(watch, now, actions)
        elif watch.suspected:
            if watch.is_untold:
                watch.is_untold = False
                actions.append(Suspect(watch.contact, again=True))
            actions.append(watch.question())
            self._schedule(watch, now + self._config.probe_interval)
        else:
            self._insist(watch, watch.asked_at, now, actions)

    def _answered(self, watch: _Watch, seconds: float, actions: list[Action]) -> None:
        watch.asked_at = None
        watch.is_expected = False
        watch.turns = 0
        if watch.suspected:
            watch.suspected = watch.is_untold = False
            actions.append(Restore(watch.contact))
        # A partition says little of how long answers take: learn only that the time-out was too short.
        watch.answers.sample(min(seconds, self._timeout(watch)))

    def _listen(self, watch: _Watch, now: float, actions: list[Action]) -> None:
        interval = self._config.interval
        if watch.is_in_turn:
            seldom = SELDOM if watch.is_light or self._config.light else 1
            turns = watch.turns or self._in_turn
            if now < self._alarm_at + self._config.turn:
                turns = 1
            interval = max(interval, self._config.turn * turns * seldom)
        patience = interval * (1 if self._me > watch.contact.id else SECOND_TO_ASK)
        quiet_until = watch.heard_at + patience
        if now < quiet_until:
            self._schedule(watch, quiet_until)
            return
        watch.asked_at = now
        actions.append(watch.question())
        self._schedule(watch, now + self._retry(watch))

    def _insist(self, watch: _Watch, asked_at: float, now: float, actions: list[Action]) -> None:
        give_up_at = asked_at + self._timeout(watch)
        if now >= give_up_at:
            watch.suspected = True
            if watch.is_expected and watch.fellows:
                actions.append(AskOthers(watch.contact, watch.fellows))
            actions.append(Suspect(watch.contact))
            if watch.is_in_turn:
                self._count_crash(now)
            if not self._forget_unwatched(watch):
                self._schedule(watch, now + self._config.probe_interval)
        else:
            actions.append(watch.question())
            if watch.is_idle and now < asked_at + 2 * self._retry(watch):
                actions.append(AskOthers(watch.contact, self._helpers(watch)))
            self._schedule(watch, min(now + self._retry(watch), give_up_at))

    def _count_crash(self, now: float) -> None:
        """One crash may be the first of several: look at the others. After two, have others look, too."""
        self.alarm(now, is_own=now < self._suspected_at + ALARM_TURNS * self._config.turn)
        self._suspected_at = now

    def alarm(self, now: float, *, is_own: bool = False) -> None:
        """Ask all that wait for their turn within the next one. `is_own`: this node has suspected several."""
        turn = self._config.turn
        is_lasting = now < self._alarm_at + ALARM_TURNS * turn
        if is_lasting and self._is_own_alarm >= is_own:
            return
        self._is_own_alarm = is_own
        self._alarm_at = now
        waiting = [w for w in self._watches.values() if w.is_in_turn and w.asked_at is None]
        for number, watch in enumerate(waiting):
            self._schedule(watch, now + turn / 2 * number / len(waiting))

    def is_alarmed(self, now: float) -> bool:
        """Whether this node suspected several just now: those that it talks to are to look as well."""
        return self._is_own_alarm and now < self._alarm_at + ALARM_TURNS * self._config.turn

    def _helpers(self, silent: _Watch) -> tuple[Contact, ...]:
        """Those that watch it as well; where these are few, others that answered the last question, those
        that were heard last."""
        others = [
            watch
            for watch in self._watches.values()
            if watch.asked_at is None or watch.heard_at >= watch.asked_at
        ]
        others.sort(key=lambda watch: watch.heard_at, reverse=True)
        helpers = {fellow.id: fellow for fellow in silent.fellows if fellow.id != self._me}
        helpers |= {watch.contact.id: watch.contact for watch in others}
        return tuple(helpers.values())[: self._config.helpers]

    def _timeout(self, watch: _Watch) -> float:
        config = self._config
        timeout = watch.answers.timeout(config.threshold, self._retry(watch))
        return min(max(timeout, config.least_timeout), config.most_timeout)

    def _retry(self, watch: _Watch) -> float:
        least = self._config.turn_retry if watch.is_idle else self._config.least_retry
        return max(least, 1.25 * watch.answers.shortest)

    def _schedule(self, watch: _Watch, due: float) -> None:
        watch.due = due
        self._order += 1
        heapq.heappush(self._queue, (due, self._order, watch.contact.id))

    def _is_stale(self, entry: tuple[float, int, PeerId]) -> bool:
        watch = self._watches.get(entry[2])
        return watch is None or watch.due != entry[0]
