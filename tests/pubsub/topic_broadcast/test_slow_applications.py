"""Publishers wait for an application that is slow, log or not, and what waits before it is bounded."""

from __future__ import annotations

import pytest

from pubsub.topic_broadcast.config import BroadcastConfig
from tests.pubsub.topic_broadcast.test_stable_phases import joined
from tests.pubsub.topic_broadcast.troupe import Troupe, TroupeConfig

WINDOW, LIMIT = 20, 10
CONFIG = BroadcastConfig(
    window_messages=WINDOW, unfinished_messages=LIMIT, stay_away=600.0, stay_away_when_full=300.0
)


def publish_until_full(troupe: Troupe, most: int) -> int:
    published = 0
    while published < most and not troupe.actors[0].core.is_full:
        troupe.broadcast(0)
        published += 1
        troupe.run(0.5)
    return published


@pytest.mark.parametrize("order", ["none", "fifo"])
@pytest.mark.parametrize("logged", [True, False], ids=["with a log", "without"])
def test_a_publisher_waits_for_one_that_is_slow(logged: bool, order: str) -> None:
    troupe = joined(1, 3, TroupeConfig(broadcast=CONFIG, order=order), logged)  # type: ignore[arg-type]
    slow = troupe.actors[2]
    slow.is_slow = True
    published = publish_until_full(troupe, 100)
    assert WINDOW <= published <= WINDOW + LIMIT + 1
    assert len(slow.unfinished) == published
    for _ in range(12):
        slow.finish(10)
        troupe.run(1.0)
        published += publish_until_full(troupe, 100 - published)
        assert len(slow.unfinished) <= WINDOW + LIMIT + 1
    slow.finish(100)
    troupe.run(3.0)
    assert published == 100
    assert [len(actor.delivered) for actor in troupe.alive()] == [100] * 3
    assert [actor.core.held for actor in troupe.alive()] == [0] * 3
    assert troupe.actors[0].core.counts["expelled"] == 0


def test_what_a_slow_one_has_on_its_disk_is_not_sent_again_after_a_crash() -> None:
    troupe = joined(2, 2, TroupeConfig(broadcast=CONFIG), logged=True)
    troupe.actors[1].is_slow = True
    published = publish_until_full(troupe, 100)
    troupe.actors[1].finish(5)
    troupe.run(1.0)
    troupe.crash(1)
    payloads = troupe.payloads
    again = troupe.start(1, logged=True)
    troupe.run(10.0)
    assert len(again.delivered) == published - 5
    assert troupe.payloads == payloads
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]
