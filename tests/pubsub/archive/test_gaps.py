"""What an archive removes before a subscriber had it is told to that one: always, and by every replica."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.messages import AckResponse
from pubsub.archive.store.gaps import MOST_GAPS, EntityGap, with_gap
from pubsub.archive.store.retention import Retention
from pubsub.reliable.numbers import Span
from pubsub.reliable.runs import Gap, Reason
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import TOPIC, PublisherActor, Simulation, SubscriberActor
from tests.pubsub.archive.schedules import BUSY, QUIET, add_newcomers, break_things, fill, publish
from tests.pubsub.archive.test_forgotten_runs import retain

KEEP_FIVE = Retention(max_count=5, drop_unseen=True)


def published(sim: Simulation, events: int = 20) -> None:
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run_for(6)
    for _ in range(events):
        publisher.publish()
        sim.stage.run_for(0.05)
    sim.stage.run_for(30)
    assert len(sim.history.acknowledged) == events


def subscribe(sim: Simulation, name: str = "exact") -> SubscriberActor:
    actor = SubscriberActor(sim, 120, name, ordered=True, remembers=True)
    sim.subscribers.append(actor)
    return actor


def ids(gaps: list[Gap]) -> set[bytes]:
    return {
        gap.run + number.to_bytes(8, "big")
        for gap in gaps
        for number in range(gap.first, gap.last + 1)
    }


def test_one_who_was_registered_later_is_told_of_what_was_removed_before_it_was_read() -> None:
    sim = Simulation(1)
    published(sim)
    (archive,) = sim.archives
    late = subscribe(sim)
    while not late.core.is_registered:
        sim.stage.run_for(0.0005)
    late.crash()
    archive.core.forget_old(KEEP_FIVE)
    sim.stage.run_for(5)
    late.start()
    sim.stage.run_for(20)
    assert len(late.deliveries) == 5
    assert ids(late.gaps) == set(list(sim.history.acknowledged)[:15])
    assert [(gap.publisher, gap.reason) for gap in late.gaps] == [
        (sim.publishers[0].contact.id, "forgotten")
    ]


def test_one_who_has_read_so_far_is_told_of_nothing() -> None:
    sim = Simulation(2)
    published(sim)
    late = subscribe(sim)
    sim.stage.run_for(30)
    assert len(late.deliveries) == 20
    sim.archives[0].core.forget_old(KEEP_FIVE)
    sim.stage.run_for(20)
    assert not late.gaps


def test_a_gap_is_told_though_responses_are_lost() -> None:
    sim = Simulation(4)
    (archive,) = sim.archives
    reader = subscribe(sim)
    publisher = PublisherActor(sim, 110)
    sim.stage.run(5)
    sim.stage.partition([reader.contact])
    for _ in range(20):
        publisher.publish()
    sim.stage.run_for(1)
    archive.core.forget_old(KEEP_FIVE)
    sim.stage.run_for(0.1)
    lost: list[AckResponse] = []

    def receive(sender: Contact, message: object) -> None:
        if isinstance(message, AckResponse) and message.gaps and len(lost) < 3:
            lost.append(message)
        else:
            reader._receive(sender, message)

    sim.stage.attach(reader.contact, receive)
    sim.stage.heal()
    sim.stage.run_for(30)
    assert len(lost) == 3
    assert [(gap.source, gap.first, gap.last, gap.reason) for gap in reader.gaps] == [*lost[0].gaps]
    assert len(reader.deliveries) == 5
    entity = archive.store.entity(TOPIC, "exact")
    assert entity is not None
    assert entity.gaps == ()


SOURCES = (b"P" * 28, b"Q" * 28)


def respond(reader: SubscriberActor, replica: bytes, *gaps: tuple[bytes, int, int]) -> None:
    core = reader.core
    assert core.archive is not None
    rows = tuple((*gap, "forgotten") for gap in gaps)
    response = AckResponse(TOPIC, reader.name, core._session, replica, 0, 0, (), rows, 0.0, "", 0)
    core.receive_response(core.archive, response)


def told(reader: SubscriberActor) -> list[tuple[bytes, int, int]]:
    return [(gap.source, gap.first, gap.last) for gap in reader.gaps]


def test_a_gap_is_told_once_whichever_replica_tells_it() -> None:
    sim = Simulation(3)
    reader = subscribe(sim)
    sim.stage.run(3)
    one, other = SOURCES
    respond(reader, b"one", (one, 100, 200))
    reader.core.use(numbered_contact(7))
    respond(reader, b"other", (other, 100, 200), (one, 150, 160))
    assert told(reader) == [(one, 100, 200), (other, 100, 200)]


def test_numbers_of_two_replicas_are_told_apart_where_the_source_is_not_known() -> None:
    sim = Simulation(3)
    reader = subscribe(sim)
    sim.stage.run(3)
    respond(reader, b"one", (b"", 100, 200))
    reader.core.use(numbered_contact(7))
    respond(reader, b"other", (b"", 5, 9))
    respond(reader, b"other", (b"", 5, 9))
    reader.core.use(numbered_contact(8))
    respond(reader, b"one", (b"", 100, 200), (b"", 50, 60))
    assert told(reader) == [(b"", 100, 200), (b"", 5, 9), (b"", 50, 60)]


def test_of_a_gap_that_has_grown_what_is_new_is_told() -> None:
    sim = Simulation(3)
    reader = subscribe(sim)
    sim.stage.run(3)
    one = SOURCES[0]
    respond(reader, b"one", (one, 5, 9), (one, 20, 20))
    respond(reader, b"one", (one, 5, 30))
    assert told(reader) == [(one, 5, 9), (one, 20, 20), (one, 10, 19), (one, 21, 30)]


def gap(number: int, source: bytes = SOURCES[0], reason: Reason = "forgotten") -> EntityGap:
    return EntityGap("anna", Span(number, number), source, number, number, reason)


def gathered(gaps: Iterable[EntityGap]) -> list[EntityGap]:
    kept: list[EntityGap] = []
    for one in gaps:
        kept = with_gap(kept, one)
    return kept


def test_what_follows_a_gap_of_its_source_makes_it_longer() -> None:
    one, other = SOURCES
    mixed = [gap(number, source) for number in range(1, 9) for source in (one, other)]
    assert gathered(mixed) == [
        EntityGap("anna", Span(1, 8), one, 1, 8, "forgotten"),
        EntityGap("anna", Span(1, 8), other, 1, 8, "forgotten"),
    ]
    assert gathered([gap(1), gap(2, reason="lost"), gap(4)]) == [
        gap(1),
        gap(2, reason="lost"),
        gap(4),
    ]


def test_gaps_of_an_entity_are_bounded_and_the_publisher_is_named_as_long_as_it_can_be() -> None:
    odd = gathered(gap(number) for number in range(1, 1001, 2))
    assert len(odd) == MOST_GAPS
    assert {one.source for one in odd} == {SOURCES[0]}
    assert (odd[0].first, odd[-1].last) == (1, 999)

    many = gathered(gap(number, number.to_bytes(28, "big")) for number in range(1, 1001))
    assert len(many) == MOST_GAPS
    assert many[0] == EntityGap.unnamed("anna", Span(1, 1001 - MOST_GAPS), "forgotten")
    assert all(one.source for one in many[1:])


def run_dropping(seed: int) -> Simulation:
    """Faults, while the archive removes all but the last ten events, whoever waits for them."""
    sim = Simulation(
        seed,
        archives=1,
        loss=0.1 * (seed % 3),
        duplicate=0.1 * (seed % 2),
        latency=(0.001, 0.001 + 0.05 * (seed % 4)),
    )
    fill(sim)
    add_newcomers(sim, 2)
    publish(sim, 60)
    break_things(sim, 12, [*sim.archives, *sim.publishers, *sim.subscribers])
    retain(sim, Retention(max_count=10, drop_unseen=True))
    sim.stage.run(BUSY + QUIET)
    return sim


@pytest.mark.parametrize("seed", [29, 37])
def test_who_was_notified_of_what_is_removed_goes_on_behind_it(seed: int) -> None:
    """The notice was lost, and what it spoke of was asked for, for ever."""
    check_dropping(seed)


@pytest.mark.sweep
def test_who_was_notified_of_what_is_removed_goes_on_behind_it_whatever_the_seed() -> None:
    for seed in range(100, 130):
        check_dropping(seed)


def check_dropping(seed: int) -> None:
    sim = run_dropping(seed)
    kept = {event.id for event in sim.archives[0].store.events(TOPIC, 0, 100)}
    for subscriber in sim.subscribers:
        wrong = verdict(sim.history, subscriber.name, ordered=subscriber.ordered)
        assert not kept & set(wrong.pop("lost", ())), (seed, subscriber.name)
        assert not wrong
