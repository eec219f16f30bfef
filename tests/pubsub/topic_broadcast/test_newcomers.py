"""Whoever subscribes gets all that its sponsor receives after that, and nothing from before."""

from __future__ import annotations

from typing import Any

import pytest

from pubsub.topic_broadcast.acknowledgements import AcknowledgedBy
from pubsub.topic_broadcast.collecting import Collecting
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_broadcast.messages import Cast
from pubsub.topic_membership.messages import Knowledge
from tests.pubsub.topic_broadcast.troupe import Troupe, TroupeConfig

PUBLISHER, SPONSOR, NEWCOMER = range(3)


def subscribe_behind_the_publishers_back() -> Troupe:
    """The publisher does not hear of the newcomer, and publishes; the sponsor acknowledges it."""
    troupe = Troupe(1, 3, TroupeConfig(BroadcastConfig(kept_seconds=0.01)))
    troupe.start(PUBLISHER)
    troupe.start(SPONSOR)
    troupe.run(5.0)
    troupe.broadcast(PUBLISHER, b"before")
    troupe.run(5.0)

    def of_the_newcomer(sender: int, receiver: int, message: object) -> bool:
        return {sender, receiver} == {PUBLISHER, NEWCOMER} or (
            receiver == PUBLISHER and isinstance(message, Knowledge)
        )

    troupe.holds_back = of_the_newcomer
    troupe.chance.choice = lambda near: near[1]  # type: ignore[method-assign, assignment]
    troupe.start(NEWCOMER)
    troupe.run(0.1)
    assert troupe.actors[NEWCOMER].core.membership.is_joined
    troupe.broadcast(PUBLISHER, b"after")
    return troupe


def test_what_the_sponsor_receives_later_reaches_the_newcomer_though_the_publisher_does_not_know_it() -> (
    None
):
    troupe = subscribe_behind_the_publishers_back()
    troupe.run(3.0)
    assert troupe.actors[PUBLISHER].core.held == 1
    troupe.holds_back = lambda sender, receiver, message: False
    troupe.heal()
    troupe.run(10.0)
    assert [item.payload for item in troupe.actors[NEWCOMER].delivered] == [b"after"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def forgets_though_others_know_other_participants(patch: pytest.MonkeyPatch) -> None:
    def rows(self: Collecting) -> list[AcknowledgedBy]:
        known = self._state.acknowledged.rows
        return [known[peer] for peer in self._state.membership.participants if peer in known]

    def told(self: Collecting, garbage: Any, digest: bytes) -> bool:
        return heard(self, garbage, self._state.membership.digest)

    heard = Collecting.told
    patch.setattr(Collecting, "_rows_that_count", rows)
    patch.setattr(Collecting, "told", told)


def test_a_publisher_that_counts_acknowledgements_of_those_who_know_more_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgets_though_others_know_other_participants(monkeypatch)
    troupe = subscribe_behind_the_publishers_back()
    troupe.run(3.0)
    assert troupe.actors[PUBLISHER].core.held == 0
    troupe.holds_back = lambda sender, receiver, message: False
    troupe.heal()
    troupe.run(10.0)
    assert troupe.actors[NEWCOMER].delivered == []


def test_a_newcomer_gets_nothing_from_before_and_is_told_no_gap() -> None:
    troupe = Troupe(2, 3)
    troupe.start(0)
    for _ in range(20):
        troupe.broadcast(0, b"before")
    troupe.start(1)
    troupe.run(3.0)
    for _ in range(20):
        troupe.broadcast(1, b"before")
    troupe.run(3.0)
    troupe.start(2)
    troupe.run(3.0)
    troupe.broadcast(0, b"after")
    troupe.run(3.0)
    assert [item.payload for item in troupe.actors[2].delivered] == [b"after"]
    assert not [o for o in troupe.history if o.what == "gap"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_a_newcomer_knows_what_is_from_before_its_time_and_what_is_to_come() -> None:
    troupe = Troupe(1, 3, TroupeConfig(order="fifo"))
    publisher = troupe.start(PUBLISHER).core
    troupe.start(SPONSOR)
    troupe.run(5.0)
    troupe.broadcast(PUBLISHER)
    troupe.run(5.0)
    newcomer = troupe.start(NEWCOMER)
    newcomer.is_slow = True
    troupe.run(5.0)

    def is_done(number: int) -> bool:
        me = publisher.membership
        return newcomer.core.is_done(me.me, me.life, number)

    assert is_done(1)
    assert not is_done(2)
    troupe.broadcast(PUBLISHER)
    troupe.run(1.0)
    assert len(newcomer.delivered) == 1
    assert not is_done(2)
    newcomer.finish(1)
    assert is_done(2)
    troupe.run(3.0)
    troupe.crash(NEWCOMER)
    troupe.broadcast(PUBLISHER)
    troupe.run(5.0)
    newcomer = troupe.start(NEWCOMER)
    troupe.holds_back = lambda sender, receiver, message: isinstance(message, Cast)
    troupe.run(5.0)
    assert is_done(2)
    assert not is_done(3)  # it is held for the one that returned
