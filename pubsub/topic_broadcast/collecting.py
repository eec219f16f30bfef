"""Garbage collection (DACE, appendix 1, lines 54 to 65): let go of what everybody has.

A message is let go when every participant that this one knows has acknowledged it, reachable or not, and each
said so knowing the same participants. The second condition is not in the paper, which has no word on
newcomers. It makes the vicarious subscription safe: a sponsor that took a message after it announced a
newcomer, which therefore needs it, acknowledges it with a digest that includes the newcomer; whoever does not
know the newcomer yet cannot count that acknowledgement.

The publisher hears of every acknowledgement first and tells everybody what may go; a participant that hears
it believes it if it knows the same participants. Where publishers are gone, acknowledgements travel by
gossip.
"""

from __future__ import annotations

from collections.abc import Callable

from pubsub.topic_broadcast.acknowledgements import AcknowledgedBy
from pubsub.topic_broadcast.messages import GarbageOnWire
from pubsub.topic_broadcast.numbers import FARTHEST
from pubsub.topic_broadcast.state import BroadcastState

OnGap = Callable[[bytes, int, int], None]
"""Source, first and last number that will never come."""


class Collecting:
    """Lets messages go; `on_gap` is told what others let go that never came here."""

    def __init__(self, state: BroadcastState, on_gap: OnGap) -> None:
        self._state = state
        self._on_gap = on_gap

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
            holes = holes or numbers.has_holes
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
            state.log.collected(held.item)
        state.garbage_of(source).collect(number)

    def told(self, garbage: GarbageOnWire, digest: bytes) -> bool:
        """A peer says what everybody has; whether anything could be let go."""
        state = self._state
        same = digest == state.membership.digest
        found = False
        for source, highest, awaited in garbage:
            self._skip_what_is_gone(source, highest, awaited)
            if not same:
                continue
            waiting = set(awaited)
            for number in sorted(state.held.of(source)):
                if number <= highest and number not in waiting:
                    self._let_go(source, number)
                    found = True
            state.garbage_of(source).learn(highest, awaited)
        return found

    def _skip_what_is_gone(self, source: bytes, highest: int, awaited: tuple[int, ...]) -> None:
        """Nobody will send what everybody was taken to have: count it as received, and say so."""
        state = self._state
        taken = state.taken_of(source)
        if highest <= taken.mark:
            return
        if highest > taken.mark + FARTHEST:
            self._on_gap(source, taken.mark + 1, highest - FARTHEST)
            taken.update(highest - FARTHEST, ())
        waiting = set(awaited)
        gone = [number for number in taken.missing_until(highest) if number not in waiting]
        for first, last in _runs(gone):
            taken.update(taken.mark, range(first, last + 1))
            self._on_gap(source, first, last)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as first and last."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
