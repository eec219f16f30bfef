"""What a participant does later, or now and then while it holds messages: check, gossip, collect, give up.

A participant that acknowledges nothing for `stay_away` while messages wait for it, or for
`stay_away_when_full` while somebody has to wait for room, is taken for gone, so that nobody waits for ever.

Garbage collection (DACE, appendix 1, lines 54 to 65): let go of what everybody has.

A message is let go when every participant that this one knows has acknowledged it, reachable or not, and each
said so knowing the same participants. The second condition is not in the paper, which has no word on
newcomers. It makes the vicarious subscription safe: a sponsor that took a message after it announced a
newcomer, which therefore needs it, acknowledges it with a digest that includes the newcomer; a participant
that does not know the newcomer yet cannot count that acknowledgement.

The publisher hears of every acknowledgement first and tells everybody what may go; a participant that hears
it believes it if it knows the same participants. Where publishers are gone, acknowledgements travel by
gossip.

The paper keeps the highest number that was collected and those below it that are awaited (lines 6 and 7).
Here it is the set of those that were collected: a participant that came later, or has forgotten, says
nothing of earlier ones. Two slips are set right: lines 17 and 18 must add the garbage of the peer that tells
it to what every participant is known to have, and not to the peer's own set alone; and the loop of line 64
must run from the old highest number, which line 63 has overwritten by then.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.context import OneTimer
from pubsub.reliable.numbers import Numbers
from pubsub.topics.acknowledging import Acknowledging
from pubsub.topics.forwarding import CheckAndForward
from pubsub.topics.messages import NumbersOnWire
from pubsub.topics.state import AcknowledgedBy, BroadcastState

TELL_SECONDS = 0.5
"""How long a publisher without further messages waits before it tells everybody what may be forgotten."""

FORWARD_SECONDS = 0.3
"""How long a participant waits after a change of the channels, for others to speak, before it forwards."""

OnMissing = Callable[[bytes, Numbers], None]
"""A source, and numbers of it that others have let go, some of which never came here."""


class Collecting:
    """Lets messages go; `on_missing` is told what others let go that never came here."""

    def __init__(self, state: BroadcastState, on_missing: OnMissing) -> None:
        self._state = state
        self._on_missing = on_missing

    def collect(self) -> bool:
        """Let go of what everybody has; whether that was anything."""
        rows = self._rows_that_count()
        if rows is None:
            return False
        found = False
        for source in list(self._state.held.by_source):
            found = self._collect_from(source, rows) or found
        return found

    def _rows_that_count(self) -> list[AcknowledgedBy] | None:
        """Everybody's acknowledgements, unless somebody knows other participants."""
        state = self._state
        digest = state.membership.digest
        rows = []
        for peer in state.membership.participants:
            row = state.acknowledged.rows.get(peer)
            if row is None or (peer != state.me and row.digest not in (None, digest)):
                return None
            rows.append(row)
        return rows

    def _collect_from(self, source: bytes, rows: list[AcknowledgedBy]) -> bool:
        lowest = None
        holes = False
        for row in rows:
            numbers = row.numbers.get(source)
            if numbers is None:
                return False
            lowest = numbers.mark if lowest is None else min(lowest, numbers.mark)
            holes = holes or numbers.span_count > 0
        assert lowest is not None
        messages = self._state.held.of(source)
        done = [
            number
            for number in messages
            if number <= lowest or (holes and all(row.has(source, number) for row in rows))
        ]
        for number in sorted(done):
            self._let_go(source, number)
        return bool(done)

    def _let_go(self, source: bytes, number: int) -> None:
        state = self._state
        held = state.held.get(source, number)
        if held is not None:
            state.held.drop(source, number)
            state.kept.keep(held, state.context.now())
            state.log.collected(held.item)
        state.garbage_of(source).add(number)

    def told(self, garbage: NumbersOnWire, digest: bytes) -> bool:
        """A peer says what everybody has; whether anything could be let go."""
        state = self._state
        same = digest == state.membership.digest
        found = False
        for source, mark, ranges in garbage:
            gone = Numbers(mark, ranges)
            if gone.without(state.taken_of(source)):
                self._on_missing(source, gone)
            if not same:
                continue
            done = [
                number
                for number, held in state.held.of(source).items()
                if (number <= mark or number in gone) and not held.revived
            ]  # of those that are held again, who says so does not know who lacks them
            for number in sorted(done):
                self._let_go(source, number)
            found = found or bool(done)
            state.garbage_of(source).update(mark, ranges)
        return found


class TopicUpkeep:
    """The timers of a participant; `room` is called when messages have been let go, and `look_for_holes` now
    and then, for as long as it says that something is missing."""

    def __init__(
        self,
        state: BroadcastState,
        forwarding: CheckAndForward,
        acknowledging: Acknowledging,
        collecting: Collecting,
        look_for_holes: Callable[[], bool],
        room: Callable[[], None],
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._acknowledging = acknowledging
        self._collecting = collecting
        self._look_for_holes = look_for_holes
        self._room = room
        self._told = 0
        call_later = state.context.call_later
        self._check_timer = OneTimer(call_later, forwarding.check)
        self._look_timer = OneTimer(call_later, self._look_after)
        self._collect_timer = OneTimer(call_later, self.collect)
        self._tell_timer = OneTimer(call_later, self._tell_garbage)

    def stop(self) -> None:
        for timer in (
            self._check_timer,
            self._look_timer,
            self._collect_timer,
            self._tell_timer,
        ):
            timer.close()

    def check_soon(self) -> None:
        """After a change of the channels: see who lacks what, when others have had time to speak."""
        self._check_timer.set(FORWARD_SECONDS)

    def look_after_later(self) -> None:
        self._look_timer.set(self._state.config.check_interval)

    def collect_soon(self) -> None:
        self._collect_timer.set(self._state.config.ack_delay / 2)

    def collect(self) -> None:
        """Let go of what everybody has."""
        if self._collecting.collect():
            self.after_collecting()

    def after_collecting(self) -> None:
        state = self._state
        garbage = state.garbage.get(state.own_source)
        if garbage is not None and garbage.highest > self._told:
            self._tell_timer.set(TELL_SECONDS)
        self._acknowledging.ask_again_if_refused()
        self._room()

    def _tell_garbage(self) -> None:
        self._told = self._state.garbage_of(self._state.own_source).highest
        self._acknowledging.tell_garbage()

    def _look_after(self) -> None:
        state = self._state
        self._forwarding.check()
        self._acknowledging.ask_again_if_refused()
        old = state.held.older_than(state.context.now() - state.config.patience)
        if old:
            self._acknowledging.gossip(old)
            self._expel_those_who_stay_away()
        self._forget_old_sources()
        self.collect()
        if self._look_for_holes() or len(state.held):
            self.look_after_later()

    def _expel_those_who_stay_away(self) -> None:
        state, now = self._state, self._state.context.now()
        config = state.config
        wait = config.stay_away_when_full if state.is_full else config.stay_away
        for peer in list(state.membership.participants):
            row = state.acknowledged.rows.get(peer)
            if peer == state.me or row is None or now - row.grew_at < wait:
                continue
            if any(
                now - held.since >= wait and not row.has(held.item.source, held.item.number)
                for held in state.held
            ):
                state.counts["expelled"] += 1
                state.membership.expel(peer)

    def _forget_old_sources(self) -> None:
        """With too many, forget those first seen that nobody publishes under any more."""
        state = self._state
        spare = len(state.taken) - state.config.most_sources
        if spare <= 0:
            return
        current = {entry.source for entry in state.membership.participants.values()}
        idle = (s for s in state.taken if s not in current and s not in state.held.by_source)
        for source in [source for _, source in zip(range(spare), idle, strict=False)]:
            state.forget(source)
        for row in state.acknowledged.rows.values():
            for source in [s for s in row.numbers if s not in state.taken]:
                del row.numbers[source]
        for source in [s for s in state.garbage if s not in state.taken]:
            del state.garbage[source]
