"""What a publisher sends again, as the archive that had it has failed, is marked for those whom that archive
may have given it; and nothing else is for that reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pubsub.archive.protocol.inventory import Resent
from pubsub.archive.protocol.publisher import DurablePublisher
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    CONFIG,
    ArchiveActor,
    PublisherActor,
    Simulation,
    SubscriberActor,
)
from tests.pubsub.archive.schedules import run_schedule
from tests.pubsub.archive.test_faults import assert_kept
from tests.pubsub.archive.test_forked_streams import FORGETFUL

EVENTS = 3


def delivered_by_one(sim: Simulation, *, acknowledged: bool = True) -> ArchiveActor:
    """Events that one archive has alone, and has given to a reader that keeps no position; that archive."""
    sim.stage.run(6)
    publisher = PublisherActor(sim, 110)
    reader = SubscriberActor(sim, 120, "plain", ordered=True, remembers=False)
    sim.publishers, sim.subscribers = [publisher], [reader]
    sim.stage.run_for(2)
    one = used_by(sim, publisher)
    reader.core.use(one.contact)
    sim.stage.run_for(2)
    sim.apart = True
    if not acknowledged:
        publisher.core.receive = lambda sender, negotiation: None  # type: ignore[method-assign]
    for _ in range(EVENTS):
        publisher.publish()
    while len(reader.deliveries) < EVENTS:
        sim.stage.run_for(0.0005)
    assert len(sim.history.acknowledged) == (EVENTS if acknowledged else 0)
    return one


def used_by(sim: Simulation, publisher: PublisherActor) -> ArchiveActor:
    used = publisher.core.archive
    assert used is not None
    return next(one for one in sim.archives if one.contact.id == used.id)


def go_elsewhere(sim: Simulation, failed: ArchiveActor) -> None:
    """The archive fails for good. The reader comes back at another one with nothing; and the publisher, whose
    patience is longer than clocks differ, later."""
    (publisher,), (reader,) = sim.publishers, sim.subscribers
    failed.crash()
    reader.crash()
    reader.start()
    sim.stage.run_for(1)
    assert reader.core.is_registered
    sim.stage.run_for(2 * CONFIG.skew)
    publisher.core.__dict__.pop("receive", None)
    publisher.publish()
    sim.stage.run_for(20)


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_what_only_a_failed_archive_had_delivered_comes_again_marked(
    replicas: int, acknowledged: bool
) -> None:
    sim = Simulation(1, archives=replicas)
    one = delivered_by_one(sim, acknowledged=acknowledged)
    sim.apart = False
    go_elsewhere(sim, one)
    assert [id for id, _ in sim.subscribers[0].deliveries] == [
        *list(sim.history.published)[:EVENTS],
        *sim.history.published,
    ]
    assert not verdict(sim.history, "plain", ordered=True)


def forget(self: Resent, stream: bytes, first: int, last: int) -> None:
    """An archive that notes nothing."""


def stay_silent(self: DurablePublisher, replica: bytes) -> None:
    """A publisher that does not say where else it sent its events."""


@pytest.mark.parametrize(
    ("broken", "method", "mutant"),
    [(Resent, "add", forget), (DurablePublisher, "_note_archive", stay_silent)],
)
def test_without_the_note_it_would_come_unmarked(
    broken: type, method: str, mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, method, mutant)
    sim = Simulation(1, archives=2)
    go_elsewhere(sim, delivered_by_one(sim))
    wrong = verdict(sim.history, "plain", ordered=True)
    assert wrong == {"duplicated": list(sim.history.published)[:EVENTS]}


def test_the_mark_outlives_a_restart_and_goes_with_the_event_to_other_replicas() -> None:
    sim = Simulation(1, archives=3)
    one = delivered_by_one(sim)
    go_elsewhere(sim, one)
    second = used_by(sim, sim.publishers[0])
    (third,) = (archive for archive in sim.archives if archive not in (one, second))
    stream = sim.publishers[0].core.stream
    assert not third.core.here.covers(stream, 1)
    second.crash()
    second.start()
    sim.apart = False
    sim.stage.run_for(20)
    for archive in (second, third):
        assert archive.core.here.covers(stream, EVENTS + 1)
        assert archive.core.inventory.resent.covers(stream, 1)
        assert archive.core.inventory.resent.covers(stream, EVENTS)


def test_what_the_other_replica_has_already_is_not_noted_as_sent_again() -> None:
    sim = Simulation(1, archives=2)
    one = delivered_by_one(sim)
    (other,) = (archive for archive in sim.archives if archive is not one)
    sim.apart = False
    sim.stage.run_for(10)
    stream = sim.publishers[0].core.stream
    assert other.core.here.covers(stream, EVENTS)
    go_elsewhere(sim, one)
    assert other.core.here.covers(stream, EVENTS + 1)
    assert not other.core.inventory.resent.covers(stream, EVENTS)


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_sent_to_the_same_archive_again_is_not_marked(stored: bool) -> None:
    # In this seed's crash the disk keeps nothing that was not synced.
    sim = Simulation(4, archives=1)
    sim.stage.run(1)
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run_for(2)
    (archive,) = sim.archives
    publisher.publish()
    frontier = archive.core.here if stored else archive.core.intake
    while not frontier.covers(publisher.core.stream, 1):
        sim.stage.run_for(0.0005)
    assert not sim.history.acknowledged
    archive.crash()
    sim.stage.run_for(6)
    archive.start()
    assert archive.core.here.covers(publisher.core.stream, 1) == stored
    sim.stage.run_for(20)
    assert len(sim.history.acknowledged) == 1
    reader = SubscriberActor(sim, 120, "plain", ordered=True, remembers=False)
    sim.stage.run_for(5)
    assert reader.deliveries == [(id, False) for id in sim.history.published]


@pytest.mark.parametrize(("replicas", "seed"), [(2, 64), (3, 102), (3, 260), (4, 164), (4, 246)])
def test_seeds_that_found_events_delivered_again_unmarked(replicas: int, seed: int) -> None:
    assert_kept(run_schedule(seed, archives=replicas, quarrels=2, config=FORGETFUL), in_order=False)
