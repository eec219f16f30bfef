"""Any number of publishers' runs and of participants that came and went: state and messages stay bounded."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import numbered_contact
from pubsub.reliable.runs import source_of
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig
from pubsub.topics.knowledge import Roster
from pubsub.topics.messages import Cast, Entry, Item
from tests.pubsub.topics.test_stable_phases import joined
from tests.pubsub.topics.troupe import TOPIC, Troupe, TroupeConfig

PUBLISHER = numbered_contact(500).id


def run_of(number: int) -> bytes:
    return number.to_bytes(8, "big")


def after_runs(runs: int, config: BroadcastConfig) -> Troupe:
    """Two participants have got one message of each of a publisher's runs, the last of which is over."""
    troupe = joined(1, 2, TroupeConfig(config))
    troupe.contacts.append(numbered_contact(2))
    troupe._numbers[troupe.contacts[2].id] = 2
    at_once = 100
    for first in range(0, runs, at_once):
        for receiver in range(2):
            sender, core = troupe.contacts[1 - receiver], troupe.actors[receiver].core
            items = tuple(
                Item(PUBLISHER, run_of(run), 1, False, (), b"x")
                for run in range(first + 1, first + at_once + 1)
            )
            core.receive(sender, Cast(TOPIC, items, (), core.membership.digest))
        troupe.run(2.0)
    troupe.run(10.0)
    return troupe


def check(runs: int, config: BroadcastConfig) -> None:
    troupe = after_runs(runs, config)
    for actor in troupe.alive():
        state = actor.core.state
        assert len(actor.delivered) == runs
        assert len(state.taken) <= config.most_sources + 200
        assert len(state.garbage) <= config.most_sources + 200
        assert all(len(row.numbers) <= 2 * config.most_sources + 400 for row in _rows(actor))
        assert len(state.forgotten) <= 16 * config.most_sources
    troupe.largest = 0
    troupe.start(2)
    troupe.run(10.0)
    assert troupe.largest < 64 * config.most_sources + 20_000
    assert troupe.too_large == []
    for number in range(3):
        troupe.broadcast(number, b"after")
    troupe.run(5.0)
    assert [item.payload for item in troupe.actors[2].delivered] == [b"after"] * 3


def _rows(actor):  # type: ignore[no-untyped-def]
    return actor.core.state.acknowledged.rows.values()


SMALL = BroadcastConfig(most_sources=64)


def test_a_topic_of_many_runs_remembers_few_and_newcomers_join() -> None:
    check(1000, SMALL)


@pytest.mark.sweep
def test_a_topic_of_fifty_thousand_runs() -> None:
    check(50_000, BroadcastConfig())


def test_what_is_forgotten_is_neither_delivered_again_nor_told_as_a_gap() -> None:
    troupe = after_runs(500, SMALL)
    first = troupe.actors[0].core
    forgotten = [
        run
        for run in map(run_of, range(1, 501))
        if source_of(PUBLISHER, run) in first.state.forgotten
    ]
    assert len(forgotten) > 300
    garbage = tuple((source_of(PUBLISHER, run), 1, ()) for run in forgotten[::2])
    items = tuple(Item(PUBLISHER, run, 1, False, (), b"x") for run in forgotten[1::2])
    first.receive(troupe.contacts[1], Cast(TOPIC, items, garbage, bytes(8)))
    troupe.run(30.0)
    assert len(troupe.actors[0].delivered) == 500
    assert not [o for o in troupe.history if o.what == "gap"]
    later = Item(PUBLISHER, forgotten[0], 2, False, (), b"later")
    first.receive(troupe.contacts[1], Cast(TOPIC, (later,), (), bytes(8)))
    troupe.run(1.0)
    assert troupe.actors[0].delivered[-1] == later


def entry(number: int, *, left: bool) -> Entry:
    return Entry(numbered_contact(number), 1, left, 0, bytes(8), "", ())


def test_those_who_left_do_not_keep_others_out() -> None:
    roster = Roster(1024)
    for number in range(3000):
        assert roster.merge(entry(number, left=False), 0.0)
        assert roster.merge(entry(number, left=True), 0.0)
    assert (len(roster.joined), len(roster.left)) == (0, 1024)


def test_a_full_topic_takes_a_newcomer_for_one_that_cannot_be_reached() -> None:
    troupe = joined(1, 4, TroupeConfig(membership=TopicMembershipConfig(most_participants=4)))
    for number in (4, 5):
        troupe.contacts.append(numbered_contact(number))
        troupe._numbers[troupe.contacts[number].id] = number
    troupe.crash(3)
    troupe.run(5.0)
    troupe.start(4)
    troupe.run(15.0)
    troupe.broadcast(4, b"in")
    troupe.run(5.0)
    for number in (0, 1, 2, 4):
        assert troupe.actors[number].delivered[-1].payload == b"in"
        assert len(troupe.actors[number].core.membership.participants) == 4
    troupe.start(5)
    troupe.run(10.0)
    assert not troupe.actors[5].core.membership.is_joined, "all can be reached: it is refused"
