"""What an archive removes before a subscriber had it is told to that one: always, and by every replica."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.messages import AckResponse
from pubsub.archive.store.retention import Retention
from tests.pubsub.archive.harness import TOPIC, PublisherActor, Simulation, SubscriberActor

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


def numbers(gaps: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in gaps for number in range(first, last + 1)}


def test_one_who_was_registered_later_is_told_of_what_was_removed_before_it_was_read() -> None:
    sim = Simulation(1)
    published(sim)
    (archive,) = sim.archives
    stored = list(archive.store.sequences(TOPIC, sim.history.acknowledged).values())
    late = subscribe(sim)
    while not late.core.is_registered:
        sim.stage.run_for(0.0005)
    late.crash()
    archive.core.forget_old(KEEP_FIVE)
    sim.stage.run_for(5)
    late.start()
    sim.stage.run_for(20)
    assert len(late.deliveries) == 5
    assert numbers(late.gaps) == set(stored[:15])


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
    assert reader.gaps == list(lost[0].gaps)
    assert len(reader.deliveries) == 5
    entity = archive.store.entity(TOPIC, "exact")
    assert entity is not None
    assert entity.gaps == ()


def respond(reader: SubscriberActor, replica: bytes, *gaps: tuple[int, int]) -> None:
    core = reader.core
    assert core.archive is not None
    response = AckResponse(
        TOPIC, reader.name, core._session, replica, 1, 0, 0, (), gaps, 0.0, "", 0
    )
    core.receive_response(core.archive, response)


def test_gaps_of_another_replica_are_told_though_its_numbers_are_lower() -> None:
    sim = Simulation(3)
    reader = subscribe(sim)
    sim.stage.run(3)
    respond(reader, b"one", (100, 200))
    reader.core.use(numbered_contact(7))
    respond(reader, b"other", (5, 9))
    respond(reader, b"other", (5, 9))
    reader.core.use(numbered_contact(8))
    respond(reader, b"one", (100, 200), (50, 60))
    assert reader.gaps == [(100, 200), (5, 9), (50, 60)]


def test_of_a_gap_that_has_grown_what_is_new_is_told() -> None:
    sim = Simulation(3)
    reader = subscribe(sim)
    sim.stage.run(3)
    respond(reader, b"one", (5, 9), (20, 20))
    respond(reader, b"one", (5, 30))
    assert reader.gaps == [(5, 9), (20, 20), (10, 19), (21, 30)]
