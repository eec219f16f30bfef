"""Nothing grows with the number of messages that were ever published, and no gap is too long to be told."""

from __future__ import annotations

from pubsub.reliable.runs import source_of
from pubsub.topics.config import BroadcastConfig
from tests.pubsub.topics import properties
from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.troupe import Troupe, TroupeConfig

MANY = 1500
SMALL_MESSAGE = 1000
"""Bytes; a thousand numbers one by one would be more."""


def after_many_messages() -> Troupe:
    troupe = joined(1, 3, logged=True)
    for number in range(MANY):
        troupe.broadcast(0)
        if number % 100 == 0:
            troupe.run(0.3)
    troupe.run(5.0)
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]
    return troupe


def largest_of_the_next_messages(troupe: Troupe) -> int:
    troupe.largest = 0
    for actor in troupe.alive():
        troupe.broadcast(actor.number)
        troupe.run(3.0)
        troupe.broadcast(actor.number)
        troupe.run(3.0)
    assert [actor.core.held for actor in troupe.alive()] == [0] * len(troupe.alive())
    return troupe.largest


def test_messages_are_small_after_all_have_restarted_with_their_logs() -> None:
    troupe = after_many_messages()
    for number in range(3):
        troupe.crash(number)
    for number in range(3):
        troupe.start(number, logged=True)
    troupe.run(10.0)
    assert largest_of_the_next_messages(troupe) < SMALL_MESSAGE


def test_a_publisher_that_restarts_tells_one_that_was_given_up_its_gap() -> None:
    config = BroadcastConfig(stay_away=20.0, kept_seconds=1.0)
    troupe = joined(2, 2, TroupeConfig(broadcast=config, order="fifo"), logged=True)
    troupe.partition([1])
    troupe.broadcast(0, b"missed")
    troupe.run(40.0)
    assert len(troupe.actors[0].core.membership.participants) == 1
    troupe.broadcast(0, b"missed too")
    troupe.run(1.0)
    troupe.crash(0)
    troupe.start(0, logged=True)
    troupe.run(5.0)
    troupe.heal()
    troupe.actors[1].core.membership.meet(troupe.contacts[0])
    troupe.run(10.0)
    troupe.broadcast(0, b"later")
    troupe.run(10.0)
    assert payloads_at(troupe, 1) == [b"later"]
    assert [(o.of.first, o.of.last) for o in troupe.history if o.what == "gap"] == [(1, 2)]


def test_what_a_restarted_participant_never_needed_is_not_taken_for_garbage() -> None:
    troupe = Troupe(3, 3)
    troupe.start(0)
    troupe.start(1)
    troupe.run(5.0)
    troupe.partition([1])
    troupe.broadcast(0, b"for the one that is away")
    troupe.run(3.0)
    troupe.start(2, logged=True)  # it does not get this one
    troupe.run(5.0)
    troupe.crash(2)
    troupe.run(1.0)
    troupe.start(2, logged=True)
    troupe.run(5.0)
    troupe.broadcast(2, b"with what it takes for garbage")
    troupe.run(5.0)
    assert troupe.actors[0].core.held == 2
    troupe.heal()
    troupe.run(10.0)
    assert len(payloads_at(troupe, 1)) == 2
    assert properties.no_gaps(troupe) == []


def test_one_that_missed_more_messages_than_anybody_can_count_takes_part_again() -> None:
    missed = 1_000_000
    config = BroadcastConfig(stay_away=10.0, stay_away_when_full=10.0)
    troupe = joined(4, 2, TroupeConfig(broadcast=config), logged=True)
    troupe.broadcast(0, b"got")
    troupe.run(3.0)
    troupe.crash(0)
    core = troupe.actors[0].core.membership
    numbers = troupe.logs[0]._disk["nums"]
    numbers[source_of(core.me, core.run)] = (
        1 + missed,
        (),
    )  # as if it had published them meanwhile
    troupe.start(0, logged=True)
    troupe.run(5.0)
    for _ in range(5):
        troupe.broadcast(0, b"again")
        troupe.run(10.0)
    assert [(o.of.first, o.of.last) for o in troupe.history if o.what == "gap"] == [(2, 1 + missed)]
    assert payloads_at(troupe, 1) == [b"got"] + [b"again"] * 5
    assert troupe.actors[0].core.counts["expelled"] == 0
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]
