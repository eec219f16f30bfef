"""Messages that are known to exist, since later ones of their publisher came, and that nobody can send.

A publisher that dies may take messages with it that nobody else has, or whose only holders died too, while
later ones live on at others. A participant that lacks them waits, for whoever has them may come back:

    with FIFO order      `hole_patience` seconds since the publisher was last within reach. Later messages
                         wait for them, so the wait is short, and ends even if the publisher is only cut off.
    without an order     the same, once the publisher has left or runs again without these messages, and all
                         participants are within reach; else `stay_away`. Nothing waits for them.

Then they are told as a gap, and count as received. What is on its way from somebody within reach comes long
before: every holder sends it within a few times `patience`.

What others say that everybody has, and is missing here, is waited for a little: this participant was not
known to them when they let it go, and they send what they keep (`BroadcastConfig.kept_seconds`) when they
have heard what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pubsub.reliable.numbers import Numbers
from pubsub.topic_broadcast.delivery import Order
from pubsub.topic_broadcast.messages import source_of
from pubsub.topic_broadcast.state import BroadcastState

OnGap = Callable[[bytes, int, int], None]
"""Source, first and last number that will never come."""

KEPT_COMES = 5
"""Patiences within which those who keep what everybody else has send it to one that they did not know."""


@dataclass(frozen=True, slots=True)
class _Hole:
    """What is missing of one source."""

    since: float
    mark: int
    """Everything up to this number was here at that time."""
    highest: int
    """The highest number that was here at that time: what is missing below has been missing since."""


class Holes:
    """Looks after what is missing below what came; `on_gap` is told what is given up."""

    def __init__(self, state: BroadcastState, on_gap: OnGap) -> None:
        self._state = state
        self._on_gap = on_gap
        self._holes: dict[bytes, _Hole] = {}
        self._let_go: dict[bytes, tuple[Numbers, float]] = {}
        """What others have let go and is missing here, and until when it is waited for."""

    def __len__(self) -> int:
        """Sources of which something was missing when `look` was called last."""
        return len(self._holes) + len(self._let_go)

    def others_let_go(self, source: bytes, gone: Numbers) -> None:
        """Others say that everybody has these messages, some of which are missing here."""
        missing, until = self._let_go.get(source, (Numbers(), 0.0))
        for first, last in gone.without(self._state.taken_of(source)).spans():
            if missing.add_span(first, last):
                until = self._state.context.now() + KEPT_COMES * self._state.config.patience
        self._let_go[source] = (missing, until)

    def look(self, order: Order) -> None:
        """Notice what is missing, and give up what was for too long; to be called now and then."""
        within_reach = self._runs_within_reach()
        now = self._state.context.now()
        for source, (missing, until) in list(self._let_go.items()):
            if now >= until or not missing.without(self._state.taken_of(source)):
                del self._let_go[source]
                self._give_up(source, self._state.taken_of(source), missing)
        before, self._holes = self._holes, {}
        for source, taken in list(self._state.taken.items()):
            if not taken.span_count > 0:
                continue
            hole = before.get(source)
            if hole is None or hole.mark != taken.mark or source in within_reach:
                hole = _Hole(now, taken.mark, taken.highest)
            elif now - hole.since >= self._wait(source, order):
                self._give_up(source, taken, Numbers(hole.highest))
                if not taken.span_count > 0:
                    continue
                hole = _Hole(now, taken.mark, taken.highest)
            self._holes[source] = hole

    def _runs_within_reach(self) -> dict[bytes, None]:
        membership = self._state.membership
        entries = (membership.participants.get(peer) for peer in membership.view.members)
        return {source_of(entry.id, entry.life): None for entry in entries if entry is not None}

    def _wait(self, source: bytes, order: Order) -> float:
        config, membership = self._state.config, self._state.membership
        entries = membership.participants.values()
        is_gone = all(source_of(entry.id, entry.life) != source for entry in entries)
        is_all_within_reach = len(membership.view.members) == len(membership.participants)
        if order == "fifo" or (is_gone and is_all_within_reach):
            return config.hole_patience
        return config.stay_away

    def _give_up(self, source: bytes, taken: Numbers, gone: Numbers) -> None:
        for first, last in gone.without(taken).spans():
            taken.add_span(first, last)
            self._on_gap(source, first, last)
