"""Multicast: only those addressed get the payload, everybody else skips its number."""

from __future__ import annotations

from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.troupe import TroupeConfig


def test_only_those_named_get_the_payload() -> None:
    troupe = joined(1, 5, TroupeConfig(order="fifo"))
    chosen = troupe.contacts[3].id
    for _ in range(10):
        troupe.broadcast(0, b"for one", only=True, named=(chosen,))
    troupe.broadcast(0, b"for all")
    troupe.run(5.0)
    assert payloads_at(troupe, 3) == [b"for one"] * 10 + [b"for all"]
    for number in (0, 1, 2, 4):
        assert payloads_at(troupe, number) == [b"for all"]
    assert troupe.payloads == 10 + 4
    assert [actor.core.held for actor in troupe.alive()] == [0] * 5


def test_those_named_as_not_matching_are_left_out() -> None:
    troupe = joined(2, 5)
    refused = (troupe.contacts[1].id, troupe.contacts[2].id)
    troupe.broadcast(0, b"some", named=refused)
    troupe.run(5.0)
    delivered = [payloads_at(troupe, number) for number in range(5)]
    assert delivered == [[b"some"], [], [], [b"some"], [b"some"]]


def test_skipped_numbers_hold_up_nobody_who_wants_order() -> None:
    troupe = joined(3, 4, TroupeConfig(order="fifo"))
    one = troupe.contacts[1].id
    for number in range(30):
        if number % 3:
            troupe.broadcast(0, b"%d" % number, only=True, named=(one,))
        else:
            troupe.broadcast(0, b"%d" % number)
    troupe.run(5.0)
    assert payloads_at(troupe, 1) == [b"%d" % number for number in range(30)]
    assert payloads_at(troupe, 2) == [b"%d" % number for number in range(0, 30, 3)]


def test_one_of_those_addressed_forwards_when_the_publisher_has_crashed() -> None:
    troupe = joined(4, 5)
    named = tuple(troupe.contacts[number].id for number in (1, 4))
    troupe.holds_back = lambda sender, receiver, message: sender == 0 and receiver != 4
    troupe.broadcast(0, b"for two", only=True, named=named)
    troupe.run(0.06)
    troupe.crash(0)
    troupe.run(20.0)
    assert payloads_at(troupe, 1) == payloads_at(troupe, 4) == [b"for two"]
    assert payloads_at(troupe, 2) == payloads_at(troupe, 3) == []
    acknowledged = [actor.core.state.mine.numbers for actor in troupe.alive()]
    assert acknowledged.count(acknowledged[0]) == 4, "the others know that they skip it"
