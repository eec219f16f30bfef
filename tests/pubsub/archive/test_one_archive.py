"""One archive, publishers and subscribers, without faults and with each kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgpack
import pytest

from overlay.errors import UsageError
from pubsub.archive.store.changes import AdvanceSync, Change, PutEntity
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    TOPIC,
    PublisherActor,
    Simulation,
    StageCommit,
    SubscriberActor,
)


def run(sim: Simulation, events: int = 40, seconds: float = 60.0) -> None:
    sim.publishers = [PublisherActor(sim, 10), PublisherActor(sim, 11)]
    sim.subscribers = [
        SubscriberActor(sim, 20, "exact", ordered=True, remembers=True),
        SubscriberActor(sim, 21, "plain", ordered=True, remembers=False),
        SubscriberActor(sim, 22, "quick", ordered=False, remembers=False),
    ]
    for number in range(events):
        for publisher in sim.publishers:
            sim.stage.call_at(0.5 + number * 0.02, publisher.publish)
    sim.stage.run(seconds)


def check(sim: Simulation) -> None:
    for subscriber in sim.subscribers:
        wrong = verdict(sim.history, subscriber.name, ordered=subscriber.ordered)
        assert not wrong, f"seed {sim.stage.seed}, {subscriber.name}: {wrong}"


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_all_that_is_acknowledged_is_delivered_once_and_in_order(seed: int, loss: float) -> None:
    sim = Simulation(seed, loss=loss, duplicate=loss)
    run(sim)
    assert len(sim.history.acknowledged) == 80
    for subscriber in sim.subscribers:
        assert len({id for id, _ in subscriber.deliveries}) == 80
        assert not any(excused for _, excused in subscriber.deliveries)
    check(sim)


def test_nothing_is_delivered_before_the_sync_point_is_on_stable_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = StageCommit.__call__
    stuck: list[Callable[[], None]] = []

    def hold_sync_points(
        self: StageCommit, changes: Sequence[Change], then: Callable[[], None]
    ) -> None:
        is_sync = any(isinstance(one, AdvanceSync) and one.sync > one.done for one in changes)
        commit(self, changes, (lambda: stuck.append(then)) if is_sync and holding else then)

    holding = False
    monkeypatch.setattr(StageCommit, "__call__", hold_sync_points)
    sim = Simulation(1)
    reader = SubscriberActor(sim, 20, "exact", ordered=True, remembers=True)
    sim.subscribers = [reader]
    sim.publishers = [PublisherActor(sim, 10)]
    sim.stage.run(3)
    holding = True
    sim.publishers[0].publish()
    sim.stage.run(8)
    assert len(sim.history.acknowledged) == 1
    assert stuck
    assert not reader.deliveries
    holding = False
    stuck[0]()
    sim.stage.run(20)
    assert len(reader.deliveries) == 1


def test_an_archive_that_cannot_read_a_profile_does_not_start_and_says_what_to_install() -> None:
    """Such as one of XPath, where lxml is no longer installed."""
    sim = Simulation(3)
    reader = SubscriberActor(sim, 20, "choosy", ordered=True, remembers=True)
    sim.stage.run(3)
    assert reader.core.is_registered
    (archive,) = sim.archives
    unreadable = b"\x92\xa7/soccer\xc4\x02\x91\x09"
    archive.store.write(
        [PutEntity(TOPIC, "choosy", 0, msgpack.packb((unreadable, 9, 0.0, 0.0, 0.0)))]
    )
    archive.store.sync()
    archive.crash()
    with pytest.raises(UsageError, match=r"'choosy' .* 'camcast\[xpath\]'"):
        archive.start()


def test_a_subscriber_that_leaves_is_not_answered() -> None:
    """An answer would have it go on, and register again while it closes."""
    sim = Simulation(3)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    sim.stage.run(5)
    assert sim.archives[0].core.entities.all["exact"].is_served
    answers: list[object] = []
    sim.stage.attach(reader.contact, lambda sender, message: answers.append(message))
    reader.core.tell_done(leaving=True)
    reader.core.close()
    sim.stage.run_for(5)
    assert not answers
    assert not sim.archives[0].core.entities.all["exact"].is_served
