"""Participants that began a topic without knowing of each other get what they published apart."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import numbered_contact
from pubsub.topics.config import BroadcastConfig
from pubsub.topics.delivering import Order
from pubsub.topics.log import TopicLog
from pubsub.topics.messages import Item
from pubsub.topics.state import HeldMessage, KeptMessages
from tests.pubsub.topics import properties
from tests.pubsub.topics.troupe import Troupe, TroupeConfig


def begin_apart(seed: int, config: TroupeConfig | None = None) -> Troupe:
    """0 and 1 know each other, and so do 2 and 3; all of them publish."""
    troupe = Troupe(seed, 4, config)
    troupe.partition([2, 3])
    for number in range(4):
        actor = troupe._actor(number, TopicLog(), "")
        if number % 2:
            actor.core.membership.subscribe(troupe.contacts[number - 1])
        else:
            actor.core.start()
        troupe.run(1.0)
    for turn in range(20):
        troupe.broadcast(turn % 4, b"%d" % turn)
        troupe.run(0.1)
    troupe.run(5.0)
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4
    return troupe


def meet(troupe: Troupe) -> None:
    troupe.heal()
    troupe.actors[1].core.membership.meet(troupe.contacts[2])
    troupe.run(30.0)


@pytest.mark.parametrize("order", ["none", "fifo"])
def test_those_who_began_apart_get_what_was_published_apart(order: Order) -> None:
    for seed in range(8):
        troupe = begin_apart(seed, TroupeConfig(order=order))
        meet(troupe)
        assert [len(actor.delivered) for actor in troupe.alive()] == [20] * 4, f"seed {seed}"
        assert properties.uniform_integrity(troupe) == []
        assert not [o for o in troupe.history if o.what == "gap"]
        assert [actor.core.held for actor in troupe.alive()] == [0] * 4
        if order == "fifo":
            assert properties.fifo(troupe) == []


def test_what_is_not_kept_any_more_is_told_as_a_gap_once() -> None:
    troupe = begin_apart(1, TroupeConfig(BroadcastConfig(kept_seconds=1.0)))
    meet(troupe)
    for actor in troupe.alive():
        gaps = [o.of for o in troupe.history if o.what == "gap" and o.who == actor.number]
        assert sorted((gap.first, gap.last) for gap in gaps) == [(1, 5), (1, 5)]
    troupe.broadcast(0, b"after")
    troupe.run(5.0)
    assert [actor.delivered[-1].payload for actor in troupe.alive()] == [b"after"] * 4


def test_kept_messages_are_bounded_in_time_and_bytes() -> None:
    publisher = numbered_contact(1).id
    kept = KeptMessages(seconds=60.0, most_bytes=10_000)
    for number in range(1, 101):
        kept.keep(
            HeldMessage(Item(publisher, b"the run1", number, False, (), bytes(1000)), 0.0),
            float(number),
        )
    assert len(kept) == 10_000 // 1256
    lacked = kept.take_lacked(lambda source, number: number != 99, 100.0, 100.0)
    assert [item.number for item in lacked] == [99]
    assert kept.take_lacked(lambda source, number: False, 90.0, 100.0) == [], "it was known before"
    assert kept.take_lacked(lambda source, number: False, 100.0, 159.5)[0].number == 100
    assert len(kept) == 0


@pytest.mark.parametrize("order", ["none", "fifo"])
def test_one_that_returns_alone_gets_what_it_lacked_and_no_gap_for_what_it_had(
    order: Order,
) -> None:
    """Its node found nobody at first, so that it began the topic anew, without a sponsor or a log."""
    for seed in range(6):
        troupe = Troupe(seed, 4, TroupeConfig(order=order))
        for number in range(4):
            troupe.start(number)
            troupe.run(1.0)
        for turn in range(20):
            troupe.broadcast(turn % 3, b"%d" % turn)
            troupe.run(0.1)
        troupe.run(5.0)
        troupe.crash(3)
        troupe.run(3.0)
        missed = [b"while it was away %d" % turn for turn in range(6)]
        for turn, payload in enumerate(missed):
            troupe.broadcast(turn % 3, payload)
        troupe.run(2.0)
        back = troupe._actor(3, TopicLog(), "")
        back.core.start()
        troupe._change_channels()
        troupe.run(1.0)
        back.core.membership.meet(troupe.contacts[seed % 3])
        troupe.run(40.0)
        assert sorted(item.payload or b"" for item in back.delivered) == missed, f"seed {seed}"
        assert not [o.of for o in troupe.history if o.what == "gap"], f"seed {seed}"
        assert [actor.core.held for actor in troupe.alive()] == [0] * 4
