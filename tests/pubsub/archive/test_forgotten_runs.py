"""Runs of publishers are forgotten with their events, and nothing is lost or doubled for it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from overlay import wire
from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.archived_event import id_of
from pubsub.archive.protocol.frontier import (
    ComparedFrontier,
    Frontier,
    begin_of,
    new_stream,
)
from pubsub.archive.protocol.messages import Companion
from pubsub.archive.store.retention import Retention
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    CONFIG,
    TOPIC,
    PublisherActor,
    Simulation,
    SubscriberActor,
    make_event,
)

QUICK = replace(CONFIG, forget_runs=20.0, window=256, batch=256)
OLD = Retention(max_age=10.0)


class Sizes:
    """The largest message of each kind that anybody sent."""

    def __init__(self, sim: Simulation, every: int = 1) -> None:
        self.largest: dict[str, int] = {}
        self._every = every
        self._seen = 0
        sim.stage.observe(self._see)

    def _see(self, time: float, sender: Contact, to: Contact, message: object) -> None:
        self._seen += 1
        if self._seen % self._every == 0:
            name = type(message).__name__
            size = len(wire.encode(message))
            self.largest[name] = max(size, self.largest.get(name, 0))


def retain(sim: Simulation, retention: Retention = OLD) -> None:
    """Have every archive forget old events now and then."""

    def forget() -> None:
        for archive in sim.archives:
            if archive.up:
                archive.core.forget_old(retention)
        sim.stage.call_at(sim.stage.now + 2, forget)

    forget()


def known_streams(sim: Simulation) -> list[int]:
    """How many streams each archive knows, wherever it does."""
    counts = []
    for archive in sim.archives:
        core = archive.core
        frontiers = [core.here]
        frontiers += [peer.frontier for peer in core.replication.table.peers.values()]
        frontiers += [entity.covered for entity in core.entities.all.values()]
        stored = len(archive.store.catenations(TOPIC))
        counts.append(max(stored, len(core.intake), *(len(one) for one in frontiers)))
    return counts


def add_runs(sim: Simulation, count: int, begin: int = 1_000_000_000) -> None:
    """Have the first archive store one event of each of so many runs, as publishers would have sent them."""
    archive = sim.archives[0]
    for number in range(count):
        publisher = numbered_contact(1_000 + number)
        stream = new_stream(publisher.id, begin, number)
        event = make_event(publisher, number.to_bytes(8, "big"), 1)
        archive.core.receive_companion(publisher, Companion(TOPIC, stream, 0, 1, (event,), 0))
        if number % 500 == 0:
            sim.stage.run_for(0.05)


def caught_up(sim: Simulation, runs: int) -> None:
    for _ in range(200):
        sim.stage.run_for(1)
        if all(one.store.count(TOPIC) == runs for one in sim.archives):
            return
    raise AssertionError([one.store.count(TOPIC) for one in sim.archives])


def test_a_new_replica_that_meets_nobody_for_long_lacks_nothing_later() -> None:
    sim = Simulation(1, archives=1, config=QUICK)
    sim.stage.run(6)
    add_runs(sim, 5)
    sim.apart = True
    sim.archives.append(sim.make_archive(1))
    sim.stage.run_for(3 * QUICK.forget_runs)
    assert sim.archives[1].store.count(TOPIC) == 0
    sim.apart = False
    sim.stage.run_for(20)
    assert [archive.store.count(TOPIC) for archive in sim.archives] == [5, 5]


def run_many(runs: int) -> None:
    """Three replicas catch up with very many runs, those that are new too, in messages of bounded size; then
    events go with retention, and the runs with them."""
    config = replace(CONFIG, forget_runs=20.0, window=1_024, batch=256, unread=8_192)
    sim = Simulation(1, archives=2, config=config)
    sizes = Sizes(sim, every=3)
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "reader", ordered=True, remembers=False)
    idle = SubscriberActor(sim, 121, "idle", ordered=True, remembers=False)
    sim.subscribers = [reader, idle]
    sim.stage.run_for(2)
    idle.crash()
    add_runs(sim, runs)
    caught_up(sim, runs)
    sim.archives.append(sim.make_archive(2))
    caught_up(sim, runs)
    sim.stage.run_for(20)
    for _ in range(runs // 100):
        if len(reader.deliveries) < runs:
            sim.stage.run_for(1)
    assert all(one.core.replication.is_ready for one in sim.archives)
    assert all("idle" in one.core.entities.all for one in sim.archives)
    assert len(reader.deliveries) == runs
    assert max(sizes.largest.values()) < config.batch_bytes + 40_000, sizes.largest
    assert max(known_streams(sim)) <= runs
    reader.core.leave()
    idle.start()
    sim.stage.run_for(30)
    idle.core.leave()
    sim.stage.run_for(5)
    retain(sim)
    sim.stage.run_for(120)
    assert [one.store.count(TOPIC) for one in sim.archives] == [0, 0, 0]
    assert known_streams(sim) == [0, 0, 0]
    assert max(sizes.largest.values()) < config.batch_bytes + 40_000, sizes.largest


def test_replicas_catch_up_with_many_runs_in_bounded_messages_and_forget_them() -> None:
    run_many(600)


def looks_at_marks(runs: int, *, leaves: bool = False) -> int:
    """How often it is looked whether a frontier covers a mark, until another replica has caught up: a new
    one, or one that was out of touch, while the first one `leaves`."""
    config = replace(CONFIG, window=1_024, batch=256)
    sim = Simulation(1, archives=2 if leaves else 1, config=config)
    sim.stage.run(6)
    sim.apart = leaves
    add_runs(sim, runs)
    sim.stage.run_for(2)
    looks = 0

    def counted(self: Frontier, stream: bytes, catenation: int) -> bool:
        nonlocal looks
        looks += 1
        return covers(self, stream, catenation)

    covers = Frontier.covers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Frontier, "covers", counted)
        sim.apart = False
        left: list[None] = []
        if leaves:
            sim.archives[0].core.leave(lambda: left.append(None))
        else:
            sim.archives.append(sim.make_archive(1))
        caught_up(sim, runs)
        sim.stage.run_for(5)
        assert bool(left) == leaves
    assert sim.archives[1].core.replication.is_ready
    return looks


def test_catching_up_does_not_take_longer_for_each_run_the_more_runs_there_are() -> None:
    """Every event that came was compared with all that had come before."""
    assert looks_at_marks(2_000) < 2 * 4 * looks_at_marks(500)


def test_leaving_does_not_take_longer_for_each_run_the_more_runs_there_are() -> None:
    """With every message that came it was looked again at all runs that the other replica has by now."""
    assert looks_at_marks(2_000, leaves=True) < 2 * 4 * looks_at_marks(500, leaves=True)


@pytest.mark.sweep
def test_replicas_catch_up_with_fifty_thousand_runs() -> None:
    run_many(50_000)


@pytest.mark.parametrize("seed", range(3))
def test_runs_are_forgotten_while_publishers_and_subscribers_go_on(seed: int) -> None:
    sim = Simulation(seed, archives=3, loss=0.05, config=QUICK)
    retain(sim)
    steady, fickle = PublisherActor(sim, 110), PublisherActor(sim, 111)
    sim.publishers = [steady, fickle]
    sim.subscribers = [
        SubscriberActor(sim, 120, "exact", ordered=True, remembers=True),
        SubscriberActor(sim, 121, "plain", ordered=True, remembers=False),
    ]
    chance = random.Random(seed)
    sim.stage.run(4)
    for turn in range(150):
        steady.publish()
        fickle.publish()
        sim.stage.run_for(1)
        if turn % 3 == 0 and not fickle.pending:
            fickle.crash()
            fickle.start()
        if turn % 20 == 10:
            victim = chance.choice([*sim.archives, *sim.subscribers])
            victim.crash()
            sim.stage.run_for(chance.uniform(0.1, 5))
            victim.start()
    sim.stage.run_for(20)
    for subscriber in sim.subscribers:
        assert not verdict(sim.history, subscriber.name, ordered=True)
    assert fickle.lives > 40
    sim.stage.run_for(100)
    assert max(known_streams(sim)) <= 1, "only what goes on is remembered"
    assert len(sim.subscribers[0].core.done) <= 1


def test_a_publisher_whose_run_was_forgotten_goes_on_as_another_stream() -> None:
    sim = Simulation(1, archives=2, config=QUICK)
    retain(sim)
    publisher = PublisherActor(sim, 110)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    sim.publishers, sim.subscribers = [publisher], [reader]
    sim.stage.run(4)
    publisher.publish()
    sim.stage.run_for(100)
    assert known_streams(sim) == [0, 0]
    before = publisher.core.stream
    publisher.publish()
    sim.stage.run_for(5)
    assert begin_of(publisher.core.stream) > begin_of(before)
    assert [id for id, _ in reader.deliveries] == list(sim.history.published)
    assert not publisher.pending


def test_what_a_replica_alone_has_is_not_forgotten() -> None:
    sim = Simulation(2, archives=2, config=QUICK)
    retain(sim)
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run(4)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    sim.subscribers = [reader]
    sim.stage.run_for(3)
    sim.apart = True
    assert reader.core.archive is not None
    used = next(one for one in sim.archives if one.contact.id == reader.core.archive.id)
    other = next(one for one in sim.archives if one is not used)
    publisher.core.use(other.contact, other.replica, publisher.core.last, 1_000_000_007)
    publisher.publish()
    sim.stage.run_for(200)
    assert other.store.count(TOPIC) == 1
    sim.apart = False
    sim.stage.run_for(20)
    assert not verdict(sim.history, "exact", ordered=True)
    assert len(reader.deliveries) == 1


def test_a_run_that_began_in_the_future_is_not_taken() -> None:
    sim = Simulation(3, config=QUICK)
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run(3)
    archive = sim.archives[0]
    publisher.core.use(archive.contact, archive.replica, 0, 2_000_000_000)
    publisher.core.stream = new_stream(publisher.contact.id, 2_000_000_000, 7)
    publisher.publish()
    sim.stage.run_for(3)
    assert not publisher.pending
    (stored,) = archive.store.events(TOPIC, 0, 10)
    assert id_of(stored.body) == next(iter(sim.history.published))
    assert begin_of(stored.publisher) < 1_000_000_100


def test_a_frontier_forgets_by_age_and_its_digests_with_it() -> None:
    marks = [(new_stream(bytes([n]) * 20, 1_000 + n, n, fork=n % 2 == 0), n + 1) for n in range(50)]
    one, young = ComparedFrontier(marks), ComparedFrontier(marks[20:])
    assert one.digest() != young.digest()
    assert one.differing(young.packed_sums())
    assert sorted(one.forget(1_020)) == sorted(stream for stream, _ in marks[:20])
    assert one.digest() == young.digest()
    assert not one.differing(young.packed_sums())
    assert all(one.covers(*mark) for mark in marks)
    assert not one.raise_to(*marks[3])
    assert one.covers(marks[3][0], 1_000_000)
    assert not one.is_forked(bytes([4]) * 20)
    assert one.is_forked(bytes([24]) * 20)
