"""Broken versions of the protocol, one for each property: the checkers see that they are broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from overlay.contact import PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.delivering import Delivering
from pubsub.topics.forwarding import CheckAndForward
from pubsub.topics.knowledge import Matrix
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import Item, Row
from pubsub.topics.state import AcknowledgedBy
from pubsub.topics.upkeep import Collecting
from pubsub.topics.views import ViewWatch
from tests.pubsub.topics.checks import violations
from tests.pubsub.topics.memory_log import MemoryLog

Break = Callable[[pytest.MonkeyPatch], None]

SEEDS = 40
"""Within so many runs each mutant must be seen."""


def reaches_a_view_that_others_do_not_see_yet(patch: pytest.MonkeyPatch) -> None:
    look_again = ViewWatch.look_again

    def reach(self: ViewWatch) -> None:
        look_again(self)
        if not self.is_stable:
            self.stable_view = self._seen(self._knowledge.view_fingerprint)
            self._listener.stable(self.stable_view)

    patch.setattr(ViewWatch, "look_again", reach)


def keeps_the_oldest_row_as_printed_in_line_50(patch: pytest.MonkeyPatch) -> None:
    take = Matrix.merge

    def merge(self: Matrix, row: Row) -> bool:
        known = self.rows.get(row.owner)
        if known is not None and (row.boot, row.version) >= (known.boot, known.version):
            return False
        return take(self, row)

    patch.setattr(Matrix, "merge", merge)


def takes_closed_channels_for_open(patch: pytest.MonkeyPatch) -> None:
    def everybody(self: Matrix, start: PeerId) -> tuple[PeerId, ...]:
        return tuple(sorted(self.rows))

    patch.setattr(Matrix, "reachable", everybody)


def leaves_itself_out_of_its_view(patch: pytest.MonkeyPatch) -> None:
    reachable = Matrix.reachable

    def without_me(self: Matrix, start: PeerId) -> tuple[PeerId, ...]:
        found = reachable(self, start)
        return tuple(peer for peer in found if peer != start) if len(found) > 1 else found

    patch.setattr(Matrix, "reachable", without_me)


def does_not_deliver_its_own_messages(patch: pytest.MonkeyPatch) -> None:
    hand_over = Delivering.hand_over

    def only_those_of_others(self: Delivering, source: bytes) -> None:
        if source != self._state.own_source:
            hand_over(self, source)

    patch.setattr(Delivering, "hand_over", only_those_of_others)


def never_forwards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckAndForward, "check", lambda self: None)


def forgets_without_waiting_for_those_who_are_away(patch: pytest.MonkeyPatch) -> None:
    def rows(self: Collecting) -> list[AcknowledgedBy]:
        view = self._state.membership.view.members
        known = self._state.acknowledged.rows
        return [known[peer] for peer in view if peer in known]

    patch.setattr(Collecting, "_rows_that_count", rows)


def takes_again_what_it_has_taken(patch: pytest.MonkeyPatch) -> None:
    def receive(self: TopicBroadcast, sender: PeerId, item: Item) -> None:
        if item.source != self.state.own_source:
            self.state.taken[item.source] = Numbers()
            self._take(item, sender)

    patch.setattr(TopicBroadcast, "_receive_item", receive)


def acknowledges_before_it_is_on_the_disk(patch: pytest.MonkeyPatch) -> None:
    sync = MemoryLog.sync
    count = iter(range(10**9))

    def sometimes(self: MemoryLog, received: Any, then: Callable[[], None]) -> None:
        if next(count) % 9 == 0:
            sync(self, received, then)
        else:
            then()

    patch.setattr(MemoryLog, "sync", sometimes)


def never_tells_what_everybody_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Collecting, "collect", lambda self: False)


def takes_a_node_that_answers_for_a_participant(patch: pytest.MonkeyPatch) -> None:
    await_voice = TopicMembership.opened

    def opened(self: TopicMembership, peer: PeerId) -> None:
        await_voice(self, peer)
        self.heard(peer)

    patch.setattr(TopicMembership, "opened", opened)


MUTANTS: list[tuple[str, Break, bool]] = [
    ("TM1", reaches_a_view_that_others_do_not_see_yet, True),
    ("TM2", keeps_the_oldest_row_as_printed_in_line_50, False),
    ("TM3", takes_closed_channels_for_open, False),
    ("TM4", leaves_itself_out_of_its_view, True),
    ("validity", does_not_deliver_its_own_messages, True),
    ("agreement", never_forwards, True),
    ("agreement", forgets_without_waiting_for_those_who_are_away, True),
    ("uniform integrity", takes_again_what_it_has_taken, True),
    ("agreement", acknowledges_before_it_is_on_the_disk, True),
    ("nothing held", never_tells_what_everybody_has, True),
]


@pytest.mark.parametrize(
    ("broken", "mutate", "heal"), MUTANTS, ids=[mutate.__name__ for _, mutate, _ in MUTANTS]
)
def test_a_protocol_that_does_this_is_found_out(
    broken: str, mutate: Break, heal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert any(broken in violations(seed, heal=heal) for seed in range(SEEDS)), broken


def test_one_that_takes_a_node_that_answers_for_a_participant_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes_a_node_that_answers_for_a_participant(monkeypatch)
    options = {"absent": True, "absent_answer": False}
    assert any("TM2" in violations(seed, heal=False, **options) for seed in range(SEEDS))
