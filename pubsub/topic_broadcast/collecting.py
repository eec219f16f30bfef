"""Garbage collection (DACE, appendix 1, lines 54 to 65): let go of what everybody has.

A message is let go when every participant that this one knows has acknowledged it, reachable or not, and each
said so knowing the same participants. The second condition is not in the paper, which has no word on
newcomers. It makes the vicarious subscription safe: a sponsor that took a message after it announced a
newcomer, which therefore needs it, acknowledges it with a digest that includes the newcomer; whoever does not
know the newcomer yet cannot count that acknowledgement.

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

from pubsub.reliable.numbers import Numbers
from pubsub.topic_broadcast.acknowledgements import AcknowledgedBy
from pubsub.topic_broadcast.state import BroadcastState
from pubsub.topic_membership.messages import NumbersOnWire

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
            for number, held in sorted(state.held.of(source).items()):
                if number in gone and not held.revived:  # those who say so do not know who lacks it
                    self._let_go(source, number)
                    found = True
            state.garbage_of(source).update(mark, ranges)
        return found
