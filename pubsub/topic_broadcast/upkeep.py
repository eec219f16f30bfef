"""What a participant does later, or now and then while it holds messages: check, gossip, collect, give up.

A participant that acknowledges nothing for `stay_away` while messages wait for it, or for
`stay_away_when_full` while somebody has to wait for room, is taken for gone, so that nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.context import Timer
from pubsub.topic_broadcast.acknowledging import Acknowledging
from pubsub.topic_broadcast.check_and_forward import CheckAndForward
from pubsub.topic_broadcast.collecting import Collecting
from pubsub.topic_broadcast.messages import source_of
from pubsub.topic_broadcast.state import BroadcastState


class Upkeep:
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
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()

    def later(self, name: str, delay: float, action: Callable[[], None]) -> None:
        """Do something once, unless it is to be done anyway."""
        if name in self._timers or self._stopped:
            return

        def ring() -> None:
            del self._timers[name]
            if not self._stopped:
                action()

        self._timers[name] = self._state.context.call_later(delay, ring)

    def check_soon(self) -> None:
        """After a change of the channels: see who lacks what, when others have had time to speak."""
        self.later("check", self._state.config.forward_delay, self._forwarding.check)

    def look_after_later(self) -> None:
        self.later("look after", self._state.config.check_interval, self._look_after)

    def collect_soon(self) -> None:
        self.later("collect", self._state.config.ack_delay / 2, self.collect)

    def collect(self) -> None:
        """Let go of what everybody has."""
        if self._collecting.collect():
            self.after_collecting()

    def after_collecting(self) -> None:
        state = self._state
        garbage = state.garbage.get(state.own_source)
        if garbage is not None and garbage.highest > self._told:
            self.later("tell", state.config.tell_delay, self._tell_garbage)
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
        people = state.membership.participants.values()
        current = {source_of(entry.id, entry.life) for entry in people}
        idle = (s for s in state.taken if s not in current and s not in state.held.by_source)
        for source in [source for _, source in zip(range(spare), idle, strict=False)]:
            state.forget(source)
        for row in state.acknowledged.rows.values():
            for source in [s for s in row.numbers if s not in state.taken]:
                del row.numbers[source]
        for source in [s for s in state.garbage if s not in state.taken]:
            del state.garbage[source]
