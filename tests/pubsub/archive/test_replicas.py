"""Replicas of an archive: none is the first, and all but one may fail at any step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from overlay.contact import Contact
from pubsub.archive.protocol.delivery import OrderedSubscriber, SharingSubscriber
from pubsub.archive.protocol.managed_topic import ManagedTopic
from pubsub.archive.protocol.messages import (
    ReplicaInvoice,
    ReplicaParts,
    ReplicaSummary,
    StoredEvents,
)
from pubsub.archive.protocol.subscriber import DurableSubscriber
from pubsub.archive.store.changes import Change, StoredEvent
from tests.pubsub.archive.checkers import lost, verdict
from tests.pubsub.archive.harness import (
    TOPIC,
    ArchiveActor,
    PublisherActor,
    Simulation,
    StageCommit,
    SubscriberActor,
)
from tests.pubsub.archive.schedules import run_schedule
from tests.pubsub.archive.test_faults import assert_kept
from tests.pubsub.archive.test_repair import damage


def subscribe(sim: Simulation, name: str = "exact", number: int = 120) -> SubscriberActor:
    actor = SubscriberActor(sim, number, name, ordered=True, remembers=True)
    sim.subscribers.append(actor)
    return actor


def publish(sim: Simulation, events: int, *, copies: int = 1) -> PublisherActor:
    """A publisher, and its events from now on, one every 20 ms."""
    publisher = PublisherActor(sim, 110 + len(sim.publishers), copies)
    sim.publishers.append(publisher)
    for number in range(events):
        sim.stage.call_at(sim.stage.now + 1 + number * 0.02, publisher.publish)
    return publisher


def has_all(sim: Simulation, archive: ArchiveActor) -> bool:
    ids = list(sim.history.acknowledged)
    return len(archive.store.sequences(TOPIC, ids)) == len(ids)


def check(sim: Simulation) -> None:
    for subscriber in sim.subscribers:
        wrong = verdict(sim.history, subscriber.name, ordered=True)
        assert not wrong, f"seed {sim.stage.seed}, {subscriber.name}: {wrong}"


# All but one fail.


class Steps:
    """Counts messages that archives handle and commits that they finish, and kills all but one of them, for
    good, just before a given one; and the publishers, who could otherwise send everything again."""

    def __init__(self, sim: Simulation, kill_at: int | None, survivor: int) -> None:
        self.sim = sim
        self.kill_at = kill_at
        self.survivor = survivor
        self.count = 0
        for archive in sim.archives:
            self._watch(archive)

    def _watch(self, archive: ArchiveActor) -> None:
        receive, sync = archive._receive, archive.store.sync

        def counted(sender: Contact, message: object) -> None:
            if self._goes_on(archive):
                receive(sender, message)

        def counted_sync() -> None:
            if self._goes_on(archive):
                sync()

        self.sim.stage.attach(archive.contact, counted)
        archive.store.sync = counted_sync  # type: ignore[method-assign]

    def _goes_on(self, archive: ArchiveActor) -> bool:
        self.count += 1
        if self.count == self.kill_at:
            for number, victim in enumerate(self.sim.archives):
                if number != self.survivor:
                    victim.crash()
            for publisher in self.sim.publishers:
                publisher.crash()
        return self.sim.stage.is_up(archive.contact)


def run_kill(replicas: int, kill_at: int | None, survivor: int) -> tuple[Simulation, int]:
    sim = Simulation(kill_at or replicas, archives=replicas, loss=0.2)
    steps = Steps(sim, kill_at, survivor)
    sim.stage.run(6)
    subscribe(sim)
    publish(sim, 5, copies=replicas)
    sim.stage.run(30)
    subscribe(sim, "late", 121)  # has nothing but what the archives have
    sim.stage.run_for(60)  # a fifth of all messages is lost
    return sim, steps.count


def kill_at_steps(replicas: int, survivor: int, stride: int) -> None:
    """Each step in a run of another seed; `test_every_step` has all steps of one. Those that the stride
    leaves out differ from one survivor to the next."""
    whole, steps = run_kill(replicas, None, 0)
    assert len(whole.history.acknowledged) == 5
    check(whole)
    for step in range(1 + survivor * stride // replicas, steps, stride):
        sim, _ = run_kill(replicas, step, survivor)
        where = f"{replicas} replicas, all but number {survivor} killed at step {step}"
        assert not lost(sim.history, "late"), where
        check(sim)


@pytest.mark.parametrize(("replicas", "stride"), [(1, 40), (2, 60), (3, 150)])
def test_what_all_replicas_have_survives_the_loss_of_all_but_one(
    replicas: int, stride: int
) -> None:
    for survivor in range(replicas):
        kill_at_steps(replicas, survivor, stride)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("replicas", "survivor", "stride"),
    [
        (replicas, survivor, stride)
        for replicas, stride in ((2, 1), (3, 1), (4, 16), (5, 40))
        for survivor in range(replicas)
    ],
)
def test_what_all_replicas_have_survives_on_any_one_of_them_whatever_the_seed(
    replicas: int, survivor: int, stride: int
) -> None:
    kill_at_steps(replicas, survivor, stride)


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_that_crash_and_come_back_lose_nothing(replicas: int) -> None:
    for seed in range(2):
        assert_kept(run_schedule(seed, archives=replicas))


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", [2, 3, 4, 5])
def test_replicas_that_crash_and_come_back_lose_nothing_whatever_the_seed(replicas: int) -> None:
    for seed in range(100, 100 + 72 // replicas):
        assert_kept(run_schedule(seed, archives=replicas))


def test_an_event_costs_each_replica_one_invoice_to_each_other_one_and_one_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Simulation(1, archives=3)
    sim.stage.run(5)
    told: list[object] = []
    written: list[Sequence[Change]] = []
    receive, commit = ManagedTopic.receive, StageCommit.__call__

    def received(self: ManagedTopic, sender: Contact, message: object) -> None:
        told.extend([message] if isinstance(message, ReplicaInvoice) else [])
        receive(self, sender, message)

    def committed(self: StageCommit, changes: Sequence[Change], then: Callable[[], None]) -> None:
        has_event = any(isinstance(change, StoredEvent) for change in changes)
        written.extend([] if has_event else [changes])
        commit(self, changes, then)

    monkeypatch.setattr(ManagedTopic, "receive", received)
    monkeypatch.setattr(StageCommit, "__call__", committed)
    publish(sim, 100)
    sim.stage.run_for(5)
    assert all(has_all(sim, archive) for archive in sim.archives)
    assert len(told) < 1.1 * 3 * 2 * 100  # a few ask for what came out of order
    assert len(written) <= 3, written


def test_a_replica_asks_for_what_another_one_says_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not wait until both have compared all that they have, which takes three messages more."""
    sim = Simulation(1, archives=3)
    sim.stage.run(5)
    publisher = publish(sim, 20)
    sim.stage.run_for(0.9)
    (origin,) = [one for one in sim.archives if one.contact == publisher.core.archive]
    deaf = next(one for one in sim.archives if one is not origin)
    receive = ManagedTopic.receive

    def received(self: ManagedTopic, sender: Contact, message: object) -> None:
        is_from_origin = isinstance(message, StoredEvents) and message.replica == origin.replica
        is_compared = isinstance(message, ReplicaSummary | ReplicaParts)
        if not is_compared and not (self is deaf.core and is_from_origin):
            receive(self, sender, message)

    monkeypatch.setattr(ManagedTopic, "receive", received)
    sim.stage.run_for(6)
    assert len(sim.history.acknowledged) == 20
    assert has_all(sim, deaf)


# Coming, going, repairing.


def test_a_new_replica_catches_up_before_it_answers_and_then_replaces_the_first() -> None:
    sim = Simulation(1)
    reader = subscribe(sim)
    publish(sim, 100)
    sim.stage.run(10)
    assert len(reader.deliveries) == 100
    sim.archives.append(sim.make_archive(1))
    first, second = sim.archives
    assert not second.core.replication.is_ready
    sim.stage.run_for(10)
    assert second.core.replication.is_ready
    assert has_all(sim, second)
    first.crash()
    publish(sim, 20)
    sim.stage.run_for(30)
    assert len(reader.deliveries) == 120
    check(sim)


def test_a_replica_that_was_away_catches_up() -> None:
    sim = Simulation(2, archives=2)
    subscribe(sim)
    sim.stage.run(6)
    sim.archives[1].crash()
    publish(sim, 60)
    sim.stage.run_for(10)
    sim.archives[1].start()
    sim.stage.run_for(20)
    assert has_all(sim, sim.archives[1])
    sim.archives[0].crash()
    publish(sim, 10)
    sim.stage.run_for(30)
    assert len(sim.history.acknowledged) == 70
    check(sim)


@pytest.mark.parametrize("kind", [OrderedSubscriber, SharingSubscriber])
def test_what_a_replica_gave_before_the_others_met_it_comes_again_marked(
    kind: type[DurableSubscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubscriberActor, "subscriber_classes", (kind, kind))
    sim = Simulation(7, archives=2)
    sim.apart = True
    second, first = sim.archives  # the replica with the lowest name serves shared names
    second.crash()
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "plain", ordered=True, remembers=False)
    monkeypatch.setattr(reader.core, "done_with", lambda numbered: None)  # until it crashes
    publisher = publish(sim, 3)
    while len(reader.deliveries) < 3:
        sim.stage.run_for(0.0005)
    publisher.crash()
    reader.crash()
    first.crash()
    second.start()
    reader.start()
    sim.stage.run_for(10)
    assert reader.core.replica == second.replica
    assert not second.core.replication.table.peers
    session = reader.core._session
    sim.apart = False
    first.start()
    sim.stage.run_for(10)
    assert reader.core._session == session
    ids = list(sim.history.published)
    assert reader.deliveries == [(id, again) for again in (False, True) for id in ids]


def test_a_replica_leaves_only_when_another_one_has_everything() -> None:
    sim = Simulation(3, archives=2)
    subscribe(sim)
    sim.stage.run(6)
    one, other = sim.archives
    sim.stage.partition([one.contact])
    publish(sim, 30)
    left: list[float] = []
    sim.stage.run_for(8)
    one.core.replication.leave(lambda: left.append(sim.stage.now))
    other.core.replication.leave(lambda: left.append(sim.stage.now))
    sim.stage.run_for(8)
    assert not left
    one.core.replication._leaving = None
    sim.stage.heal()
    sim.stage.run_for(20)
    assert len(left) == 1
    assert has_all(sim, one)
    other.crash()
    sim.stage.run_for(20)
    check(sim)
    assert other.replica not in one.core.replication.table.peers


def test_a_flipped_bit_is_found_and_repaired_from_another_replica() -> None:
    sim = Simulation(4, archives=2)
    sim.stage.run(6)
    publish(sim, 40, copies=2)
    sim.stage.run_for(10)
    assert len(sim.history.acknowledged) == 40
    victim = sim.archives[0]
    victim.crash()
    damage(victim, list(sim.history.acknowledged)[20])
    victim.start()
    assert any(one.reason == "corrupt" for one in victim.store.damage())
    sim.stage.run_for(20)
    assert not [one for one in victim.store.damage() if one.reason == "corrupt"]
    assert has_all(sim, victim)
    sim.archives[1].crash()
    subscribe(sim)
    sim.stage.run_for(20)
    check(sim)


def test_a_flipped_bit_without_a_replica_is_told_as_a_gap() -> None:
    sim = Simulation(5)
    reader = subscribe(sim)
    sim.stage.run_for(2)
    reader.crash()
    publish(sim, 40)
    sim.stage.run_for(5)
    (archive,) = sim.archives
    archive.crash()
    damage(archive, list(sim.history.acknowledged)[20])
    archive.start()
    reader.start()
    sim.stage.run_for(30)
    assert len(reader.gaps) == 1
    assert len(lost(sim.history, "exact")) == 1
    assert len(reader.deliveries) == 39


def test_every_replica_knows_that_nobody_waits_for_what_nobody_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SubscriberActor, "pattern", f"{TOPIC}/italy")
    sim = Simulation(6, archives=2)
    sim.stage.run(6)
    reader = subscribe(sim, "choosy")
    publish(sim, 40)
    sim.stage.run_for(20)
    assert not reader.deliveries
    for archive in sim.archives:
        assert archive.store.count(TOPIC) == 40
        assert archive.core.entities.all["choosy"].done >= archive.store.first_sequence(TOPIC) + 39
        assert not archive.core.entities.unread()
