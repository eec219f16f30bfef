"""In stable phases a message crosses to each participant once; away and back again, nothing is lost."""

from __future__ import annotations

import pytest

from pubsub.topics.config import BroadcastConfig
from tests.pubsub.topics import properties
from tests.pubsub.topics.troupe import Troupe, TroupeConfig


def joined(
    seed: int, size: int, config: TroupeConfig | None = None, logged: bool = False
) -> Troupe:
    """Participants that have all met."""
    troupe = Troupe(seed, size, config)
    for number in range(size):
        troupe.start(number, logged=logged)
        troupe.run(0.3)
    troupe.run(5.0)
    assert all(actor.core.membership.is_stable for actor in troupe.alive())
    return troupe


def payloads_at(troupe: Troupe, number: int) -> list[bytes | None]:
    return [item.payload for item in troupe.actors[number].delivered]


@pytest.mark.parametrize("size", [2, 5, 12, 30])
def test_every_message_crosses_to_each_participant_once(size: int) -> None:
    troupe = joined(size, size)
    for number in range(60):
        troupe.broadcast(number % size)
        troupe.run(0.05)
    troupe.run(5.0)
    deliveries = 60 * (size - 1)
    duplicates = sum(actor.core.counts["duplicates"] for actor in troupe.alive())
    assert [len(actor.delivered) for actor in troupe.alive()] == [60] * size
    assert duplicates / deliveries < 0.05
    assert troupe.payloads == deliveries
    assert [actor.core.held for actor in troupe.alive()] == [0] * size


def test_one_that_was_partitioned_away_during_a_thousand_messages_gets_them_all() -> None:
    troupe = joined(3, 6)
    troupe.partition([5])
    for number in range(1000):
        troupe.broadcast(number % 5)
        troupe.run(0.01)
    troupe.run(10.0)
    assert payloads_at(troupe, 5) == []
    assert [actor.core.held for actor in troupe.alive()][:5] == [1000] * 5
    troupe.heal()
    troupe.run(15.0)
    assert len(payloads_at(troupe, 5)) == 1000
    assert properties.uniform_integrity(troupe) == []
    assert [actor.core.held for actor in troupe.alive()] == [0] * 6


def test_two_that_cannot_talk_to_each_other_get_everything_through_a_third() -> None:
    troupe = joined(12, 4)
    troupe.cut(0, 1)
    troupe.run(5.0)
    assert all(len(actor.core.membership.view.members) == 4 for actor in troupe.alive())
    for number in range(20):
        troupe.broadcast(number % 2)
        troupe.run(0.5)
    troupe.run(15.0)
    assert [len(payloads_at(troupe, number)) for number in range(4)] == [20] * 4
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4


def test_two_partitions_that_both_publish_have_the_same_set_after_they_merge() -> None:
    troupe = joined(4, 6)
    troupe.partition([0, 1, 2])
    troupe.run(5.0)
    for number in range(100):
        troupe.broadcast(number % 6)
    troupe.run(5.0)
    assert len(troupe.actors[0].core.membership.view.members) == 3
    troupe.heal()
    troupe.run(15.0)
    assert [len(payloads_at(troupe, number)) for number in range(6)] == [100] * 6
    copies = sum(actor.core.counts["duplicates"] for actor in troupe.alive())
    assert copies / 300 < 0.05
    assert [actor.core.held for actor in troupe.alive()] == [0] * 6


def test_what_a_crashed_publisher_sent_to_one_reaches_all() -> None:
    troupe = joined(5, 5)
    troupe.holds_back = lambda sender, receiver, message: sender == 0 and receiver != 3
    troupe.broadcast(0, b"last words")
    troupe.run(0.06)
    troupe.crash(0)
    troupe.run(15.0)
    assert [payloads_at(troupe, number) for number in range(1, 5)] == [[b"last words"]] * 4


def test_all_crash_at_once_and_come_back_with_their_logs() -> None:
    troupe = joined(6, 4, logged=True)
    troupe.partition([3])
    for number in range(40):
        troupe.broadcast(number % 4)
    troupe.run(3.0)
    for number in range(4):
        troupe.crash(number)
    troupe.heal()
    for number in (2, 0, 3, 1):
        troupe.run(2.0)
        troupe.start(number, logged=True)
    troupe.run(25.0)
    delivered = [properties.delivered_by(troupe, number) for number in range(4)]
    assert [len(messages) for messages in delivered] == [40] * 4
    assert properties.uniform_integrity(troupe) == []
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4


def test_one_without_a_log_that_comes_back_gets_what_it_had_not_acknowledged() -> None:
    troupe = joined(7, 4)
    troupe.broadcast(0, b"acknowledged")
    troupe.run(3.0)
    troupe.crash(3)
    for _ in range(50):
        troupe.broadcast(0, b"missed")
    troupe.run(5.0)
    troupe.start(3)
    troupe.run(10.0)
    assert payloads_at(troupe, 3) == [b"missed"] * 50
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4


SMALL = BroadcastConfig(window_messages=20, stay_away_when_full=10.0, stay_away=60.0)


def test_a_full_publisher_waits_and_one_that_stays_away_is_told_its_gap() -> None:
    troupe = joined(8, 4, TroupeConfig(broadcast=SMALL))
    publisher = troupe.actors[0].core
    troupe.partition([3])
    troupe.run(5.0)
    for _ in range(20):
        troupe.broadcast(0)
    assert publisher.is_full
    troupe.run(5.0)
    assert publisher.is_full, "it waits for the one that is away"
    troupe.run(20.0)
    assert not publisher.is_full, "and not for ever"
    troupe.broadcast(0, b"while away")
    troupe.run(5.0)
    troupe.heal()
    troupe.run(20.0)
    troupe.broadcast(0, b"back again")
    troupe.run(5.0)
    gaps = [o.of for o in troupe.history if o.what == "gap"]
    assert [(gap.publisher, gap.first, gap.last) for gap in gaps] == [
        (troupe.contacts[0].id, 1, 21)
    ]
    assert payloads_at(troupe, 3) == [b"back again"]
    assert [len(payloads_at(troupe, number)) for number in range(3)] == [22] * 3
    assert len(troupe.actors[0].core.membership.participants) == 4
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4


def test_one_that_never_comes_back_is_given_up_after_stay_away() -> None:
    troupe = joined(9, 3, TroupeConfig(broadcast=SMALL))
    troupe.crash(2)
    troupe.broadcast(0)
    troupe.run(50.0)
    assert [actor.core.held for actor in troupe.alive()] == [1, 1]
    troupe.run(30.0)
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]
    assert len(troupe.actors[0].core.membership.participants) == 2


def test_both_sides_of_a_long_partition_give_each_other_up_and_find_back() -> None:
    troupe = joined(10, 4, TroupeConfig(broadcast=SMALL))
    troupe.partition([0, 1])
    troupe.run(5.0)
    for number in range(4):
        troupe.broadcast(number, b"apart")
    troupe.run(90.0)
    assert [len(actor.core.membership.participants) for actor in troupe.alive()] == [2] * 4
    troupe.heal()
    for actor in troupe.alive():  # as the directory would have them meet
        actor.core.membership.meet(troupe.contacts[(actor.number + 2) % 4])
    troupe.run(15.0)
    troupe.broadcast(0, b"together")
    troupe.run(5.0)
    for number in range(4):
        assert payloads_at(troupe, number) == [b"apart", b"apart", b"together"]
    assert len([o for o in troupe.history if o.what == "gap"]) == 8


def test_one_that_has_no_room_refuses_and_gets_everything_when_it_has() -> None:
    config = BroadcastConfig(window_bytes=4000, most_held_bytes=8000, stay_away_when_full=300.0)
    troupe = joined(11, 4, TroupeConfig(broadcast=config))
    troupe.partition([3])
    troupe.run(5.0)
    for number in range(3):
        for _ in range(6):
            troupe.broadcast(number, bytes(400))
        troupe.run(0.5)
    troupe.run(5.0)
    assert sum(actor.core.counts["refused"] for actor in troupe.alive()) > 0
    assert all(troupe.actors[number].core.state.held.bytes < 9000 for number in (0, 1))
    troupe.heal()
    troupe.run(40.0)
    assert [len(payloads_at(troupe, number)) for number in range(4)] == [18] * 4
    assert [actor.core.held for actor in troupe.alive()] == [0] * 4
