"""Who sees a view is told as bits: merged in any order, of one view, and believed of others only."""

from __future__ import annotations

from overlay.virtual.stage import numbered_contact
from overlay.wire import decode, encode
from pubsub.topics.knowledge import MOST_EARLY, Sightings
from pubsub.topics.messages import Sight

PEERS = [numbered_contact(number).id for number in range(20)]
VIEW, NEXT = b"the view", b"next one"


def looking(number: int, view: bytes = VIEW) -> Sightings:
    sightings = Sightings(PEERS[number])
    sightings.look_at(view, PEERS)
    return sightings


def told(sightings: Sightings) -> Sight:
    sight = sightings.wire()
    assert sight is not None
    decoded = decode(encode(sight))
    assert isinstance(decoded, Sight)
    return decoded


def test_all_have_spoken_when_the_word_of_each_has_come_by_whatever_way() -> None:
    people = [looking(number) for number in range(len(PEERS))]
    everybody = people[0].of(PEERS)
    for person in people:
        assert person.wire() is None
        person.say()
        assert person.is_said
    for number in (*range(10, 20), *range(9, 0, -1)):
        assert not people[0].include(everybody)
        assert people[0].merge(told(people[number]))
        assert not people[0].merge(told(people[number])), "it is no news any more"
    assert people[0].include(everybody)
    assert people[7].merge(told(people[0]))
    assert people[7].include(everybody)
    assert people[7].is_all_of(told(people[0]))
    assert not people[8].is_all_of(told(people[0]))
    assert people[7].digest == people[0].digest != people[8].digest


def test_twenty_participants_take_a_few_bytes() -> None:
    sightings = looking(0)
    sightings.say()
    assert len(encode(told(sightings))) < 20


def test_what_was_said_of_a_view_that_is_not_seen_yet_counts_when_it_is() -> None:
    ahead, behind = looking(1, NEXT), looking(0)
    ahead.say()
    behind.say()
    assert not behind.merge(told(ahead))
    assert not behind.include(behind.of([PEERS[1]]))
    behind.look_at(NEXT, PEERS)
    assert behind.include(behind.of([PEERS[1]]))
    assert not behind.is_said, "it said so of another view"


def test_few_other_views_are_remembered() -> None:
    sightings = looking(0)
    for number in range(MOST_EARLY + 1):
        sightings.merge(Sight(number.to_bytes(8, "big"), b"\xff" * 3))
    for number, known in ((0, False), (1, True), (MOST_EARLY, True)):
        sightings.look_at(number.to_bytes(8, "big"), PEERS)
        assert sightings.include(sightings.of([PEERS[1]])) is known


def test_nobody_speaks_for_this_participant_or_for_those_that_do_not_exist() -> None:
    sightings = looking(0)
    liar = Sight(VIEW, b"\xff" * 40)
    assert sightings.merge(liar)
    assert not sightings.is_said
    assert not sightings.include(sightings.of(PEERS))
    assert len(told(sightings).by) == 3
    sightings.merge(Sight(NEXT, b"\xff" * 40))
    sightings.look_at(NEXT, PEERS)
    assert not sightings.is_said


def test_a_view_of_nobody_is_seen_by_nobody() -> None:
    assert not looking(0).include(0)
