"""FIFO order holds with a log too, and what is missing for good holds up nothing for ever."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import numbered_contact
from pubsub.topics.delivering import Order
from pubsub.topics.messages import Cast
from tests.pubsub.topics import properties
from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.troupe import Troupe, TroupeConfig


@pytest.mark.parametrize("logged", [True, False])
def test_one_that_catches_up_gets_each_publishers_messages_in_order(logged: bool) -> None:
    for seed in range(3):
        troupe = joined(seed, 3, TroupeConfig(order="fifo"), logged=logged)
        troupe.partition([2])
        for number in range(200):
            troupe.broadcast(0, b"%d" % number)
            troupe.run(0.01)
        troupe.heal()
        for number in range(200, 300):
            troupe.broadcast(0, b"%d" % number)
            troupe.run(0.02)
        troupe.run(20.0)
        assert properties.fifo(troupe) == [], f"seed {seed}"
        assert len(troupe.actors[2].delivered) == 300


PUBLISHER, HOLDER, AWAY, NEWCOMER = range(4)


def lose_the_first_of_a_publisher(order: Order, seed: int = 1) -> Troupe:
    """One is cut off while ten messages are published; those who have them crash. A newcomer has ten more,
    and brings them to the one that was cut off."""
    troupe = joined(seed, 3, TroupeConfig(order=order))
    troupe.contacts.append(numbered_contact(NEWCOMER))
    troupe._numbers[troupe.contacts[NEWCOMER].id] = NEWCOMER
    troupe.partition([AWAY])
    for number in range(10):
        troupe.broadcast(PUBLISHER, b"%d" % number)
    troupe.run(2.0)
    troupe.crash(HOLDER)
    troupe.run(10.0)
    troupe.start(NEWCOMER)
    troupe.run(5.0)
    for number in range(10, 20):
        troupe.broadcast(PUBLISHER, b"%d" % number)
    troupe.run(5.0)
    troupe.crash(PUBLISHER)
    troupe.heal()
    return troupe


def gaps_of(troupe: Troupe) -> list[tuple[int, int, int]]:
    return [(o.who, o.of.first, o.of.last) for o in troupe.history if o.what == "gap"]


LATER = [b"%d" % number for number in range(10, 20)]


def test_without_an_order_nothing_waits_for_what_died_with_its_publisher() -> None:
    troupe = lose_the_first_of_a_publisher("none")
    troupe.run(20.0)
    assert sorted(payloads_at(troupe, AWAY), key=str) == LATER
    assert gaps_of(troupe) == [], "the publisher may come back with it"


def test_without_an_order_the_gap_is_told_when_the_publisher_has_stayed_away() -> None:
    troupe = lose_the_first_of_a_publisher("none")
    troupe.run(troupe.config.broadcast.stay_away + 60.0)
    assert gaps_of(troupe) == [(AWAY, 1, 10)]


def test_without_an_order_the_gap_is_told_soon_when_all_are_back_without_it() -> None:
    troupe = lose_the_first_of_a_publisher("none")
    troupe.run(5.0)
    troupe.start(PUBLISHER)
    troupe.start(HOLDER)
    troupe.run(troupe.config.broadcast.hole_patience + 30.0)
    assert gaps_of(troupe) == [(AWAY, 1, 10)]


def test_with_fifo_order_the_gap_is_told_and_what_follows_delivered_within_a_minute_or_so() -> None:
    troupe = lose_the_first_of_a_publisher("fifo")
    troupe.run(30.0)
    assert payloads_at(troupe, AWAY) == []
    troupe.run(troupe.config.broadcast.hole_patience - 10.0)
    assert payloads_at(troupe, AWAY) == LATER
    assert gaps_of(troupe) == [(AWAY, 1, 10)]


def test_with_fifo_order_a_publisher_that_comes_back_in_time_is_waited_for() -> None:
    troupe = joined(3, 3, TroupeConfig(order="fifo"))
    troupe.holds_back = lambda sender, receiver, message: (
        sender == 0 and isinstance(message, Cast) and message.items[0].number <= 5
    )
    for number in range(10):
        troupe.broadcast(0, b"%d" % number)
        troupe.run(0.5)
    troupe.partition([0])
    troupe.run(40.0)
    assert payloads_at(troupe, 1) == []
    troupe.holds_back = lambda sender, receiver, message: False
    troupe.heal()
    troupe.run(15.0)
    assert payloads_at(troupe, 1) == payloads_at(troupe, 2) == [b"%d" % n for n in range(10)]
    assert gaps_of(troupe) == []
