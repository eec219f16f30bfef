"""Registrations and removals of durable names, while replicas fail, leave and come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.delivery import OrderedSubscriber
from pubsub.archive.protocol.dissemination import Interest
from pubsub.archive.protocol.messages import BUSY, REGISTER_AGAIN, AckResponse, Register
from pubsub.archive.protocol.subscriber import Subscribing
from tests.pubsub.archive.checkers import lost, verdict
from tests.pubsub.archive.harness import (
    CONFIG,
    TOPIC,
    ArchiveActor,
    PublisherActor,
    Simulation,
    SubscriberActor,
)
from tests.pubsub.archive.schedules import run_schedule
from tests.pubsub.archive.test_faults import assert_kept


def pair(seed: int, **options: object) -> Simulation:
    """Two replicas that have met, close to each other."""
    options = {"sync_seconds": 0.001, **options}
    sim = Simulation(seed, archives=2, latency=(0.0005, 0.001), **options)  # type: ignore[arg-type]
    sim.stage.run(6)
    return sim


def subscribe(sim: Simulation, name: str, **options: object) -> SubscriberActor:
    number = 120 + len(sim.subscribers)
    options = {"ordered": True, "remembers": True, **options}
    actor = SubscriberActor(sim, number, name, **options)  # type: ignore[arg-type]
    sim.subscribers.append(actor)
    return actor


def used_and_other(sim: Simulation, reader: SubscriberActor) -> tuple[ArchiveActor, ArchiveActor]:
    assert reader.core.archive is not None
    used, other = sim.archives
    return (used, other) if used.contact.id == reader.core.archive.id else (other, used)


def start_publisher(sim: Simulation, copies: int = 2) -> PublisherActor:
    publisher = PublisherActor(sim, 110, copies)
    sim.publishers.append(publisher)
    sim.stage.run_for(2)
    return publisher


@pytest.mark.parametrize("skew", [0.0, CONFIG.skew])
@pytest.mark.parametrize("seed", range(5))
def test_a_registration_outlives_the_archive_that_had_no_time_to_tell_of_it(
    seed: int, skew: float
) -> None:
    sim = pair(seed, skew=skew)
    publisher = start_publisher(sim)
    publisher.publish()
    sim.stage.run_for(3)
    reader = subscribe(sim, "new", since="now")
    while not reader.core.is_registered:
        sim.stage.run_for(0.0005)
    used, other = used_and_other(sim, reader)
    sim.stage.partition([reader.contact])
    for _ in range(5):
        publisher.publish()
    while len(sim.history.acknowledged) < 6:
        sim.stage.run_for(0.0005)
    assert not other.store.entity(TOPIC, "new")
    used.crash()
    sim.stage.heal()
    sim.stage.run_for(60)
    assert not verdict(sim.history, "new", ordered=True)
    assert len(reader.deliveries) == 5, "what came long before the registration is not for it"


@pytest.mark.parametrize("seed", range(3))
def test_what_a_replica_with_a_faster_clock_delivered_comes_again_only_marked(seed: int) -> None:
    sim = pair(seed)
    publisher = start_publisher(sim)
    reader = subscribe(sim, "plain", remembers=False)
    sim.stage.run_for(3)
    used, _ = used_and_other(sim, reader)
    used.clock_ahead = CONFIG.skew * 0.99
    assert publisher.core.archive is not None
    publisher.core.use(used.contact, used.replica, publisher.core.last, 1_000_000_000)
    sim.stage.run_for(1)
    publisher.publish()
    while not reader.deliveries:
        sim.stage.run_for(0.0005)
    reader.crash()
    used.crash()
    reader.start()
    sim.stage.run_for(20)
    assert [id for id, _ in reader.deliveries] == list(sim.history.published) * 2
    assert not verdict(sim.history, "plain", ordered=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_replica_that_was_away_does_not_bring_an_earlier_interest_back(seed: int) -> None:
    sim = pair(seed, skew=CONFIG.skew)
    reader = subscribe(sim, "changed")
    sim.stage.run_for(6)
    used, other = used_and_other(sim, reader)
    other.crash()
    reader.crash()
    reader.pattern = f"{TOPIC}/*"
    reader.start()
    sim.stage.run_for(6)
    assert reader.core.is_registered
    reader.crash()
    other.start()
    sim.stage.run_for(20)
    for archive in (used, other):
        assert archive.core.entities.all["changed"].interest.pattern == f"{TOPIC}/*"
        archive.crash()
        archive.start()
        assert archive.core.entities.all["changed"].interest.pattern == f"{TOPIC}/*"


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_replica_delivered_that_is_forgotten_comes_again_only_marked(
    restarted: bool,
) -> None:
    sim = pair(1)
    publisher = start_publisher(sim)
    reader = subscribe(sim, "plain", remembers=False)
    sim.stage.run_for(3)
    used, other = used_and_other(sim, reader)
    publisher.publish()
    while not reader.deliveries:
        sim.stage.run_for(0.0005)
    reader.crash()
    used.crash()
    sim.stage.run_for(3)
    assert other.core.replication.forget_replica(used.replica)
    sim.stage.run_for(1)
    if restarted:
        other.crash()
        other.start()
    sim.stage.run_for(5)
    publisher.publish()
    reader.start()
    sim.stage.run_for(20)
    again, new = list(sim.history.published)
    assert reader.deliveries == [(again, False), (again, True), (new, False)]


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_newcomers_get_all_that_is_published_after_their_registration(replicas: int) -> None:
    for seed in range(2):
        assert_kept(run_schedule(seed, archives=replicas, newcomers=6))


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_newcomers_get_everything_whatever_the_seed(replicas: int) -> None:
    for seed in range(100, 130):
        assert_kept(run_schedule(seed, archives=replicas, newcomers=6))


def test_a_replica_leaves_only_when_another_one_knows_its_subscribers() -> None:
    sim = pair(3)
    publisher = start_publisher(sim)
    reader = subscribe(sim, "new", since="now", remembers=False)
    while not reader.core.is_registered:
        sim.stage.run_for(0.0005)
    used, other = used_and_other(sim, reader)
    reader.crash()
    left: list[bool] = []
    used.core.replication.leave(lambda: left.append(other.store.entity(TOPIC, "new") is not None))
    sim.stage.run_for(5)
    assert left == [True]
    publisher.publish()
    sim.stage.run_for(1)
    used.crash()
    sim.stage.run_for(5)
    reader.start()
    sim.stage.run_for(20)
    assert not lost(sim.history, "new")


def test_one_who_has_left_acknowledges_neither_events_nor_subscribers() -> None:
    sim = pair(4)
    publisher = start_publisher(sim, copies=1)
    assert publisher.core.archive is not None
    used = next(one for one in sim.archives if one.contact.id == publisher.core.archive.id)
    left: list[int] = []
    used.core.replication.leave(lambda: left.append(0))
    while not left:
        sim.stage.run_for(0.01)
        publisher.publish()
    reader = subscribe(sim, "late", since="now")
    reader.core.use(used.contact)
    publisher.publish()
    sim.stage.run_for(10)
    assert used.store.entity(TOPIC, "late") is None
    (other,) = (one for one in sim.archives if one is not used)
    ids = list(sim.history.acknowledged)
    assert len(ids) == publisher.count
    assert len(other.store.sequences(TOPIC, ids)) == len(ids)


@pytest.mark.parametrize(
    ("name", "interest"),
    [
        ("a\0b", Interest(TOPIC).packed()),
        ("", Interest(TOPIC).packed()),
        ("new\nline", Interest(TOPIC).packed()),
        ("x" * 256, Interest(TOPIC).packed()),
        ("fine", b"no interest"),
    ],
)
def test_one_who_cannot_be_registered_is_told_so(name: str, interest: bytes) -> None:
    sim = pair(5)
    answers: list[str] = []
    core = OrderedSubscriber(
        sim.stage.context(numbered_contact(121)),
        Subscribing(TOPIC, name, interest),
        CONFIG,
        deliver=lambda numbered: None,
        on_gap=lambda gap: None,
        on_silent=lambda: None,
        on_registered=answers.append,
    )
    sim.stage.attach(numbered_contact(121), core.receive_response)  # type: ignore[arg-type]
    core.use(sim.archives[0].contact)
    sim.stage.run_for(3)
    assert len(answers) == 1
    assert answers[0]
    assert names(sim) == [[], []]


def names(sim: Simulation) -> list[list[str]]:
    return [list(archive.core.entities.all) for archive in sim.archives]


def test_a_removed_name_does_not_come_back_with_a_replica_that_was_away() -> None:
    sim = pair(6)
    reader = subscribe(sim, "gone")
    sim.stage.run_for(3)
    used, other = used_and_other(sim, reader)
    assert names(sim) == [["gone"], ["gone"]]
    other.crash()
    reader.core.leave()
    sim.stage.run_for(2)
    used.crash()
    used.start()
    other.start()
    sim.stage.run_for(10)
    assert names(sim) == [[], []]


def test_a_name_that_is_unknown_where_it_is_removed_is_removed_everywhere() -> None:
    sim = pair(7)
    reader = subscribe(sim, "gone")
    while not reader.core.is_registered:
        sim.stage.run_for(0.0005)
    used, other = used_and_other(sim, reader)
    assert not other.store.entity(TOPIC, "gone")
    used.crash()
    reader.core.leave()
    reader.core.use(other.contact)
    sim.stage.run_for(2)
    used.start()
    sim.stage.run_for(10)
    assert names(sim) == [[], []]


def test_a_name_that_is_registered_again_stays_though_old_news_of_its_removal_come() -> None:
    sim = pair(8)
    reader = subscribe(sim, "again")
    sim.stage.run_for(3)
    used, other = used_and_other(sim, reader)
    other.crash()
    reader.core.leave()
    sim.stage.run_for(2)
    used.clock_ahead = -500.0  # whatever its clock says, this comes after
    reader.start()
    sim.stage.run_for(5)
    assert names(sim)[sim.archives.index(used)] == ["again"]
    other.start()
    sim.stage.run_for(10)
    assert names(sim) == [["again"], ["again"]]
    used.crash()
    used.start()
    sim.stage.run_for(10)
    assert names(sim) == [["again"], ["again"]]


def test_a_removal_is_forgotten_after_its_time() -> None:
    sim = pair(9)
    reader = subscribe(sim, "gone")
    sim.stage.run_for(3)
    reader.core.leave()
    sim.stage.run_for(3)
    assert all(archive.store.notes(TOPIC, "gone/") for archive in sim.archives)
    for archive in sim.archives:
        archive.clock_ahead = CONFIG.tombstones
    sim.stage.run_for(3)
    assert not any(archive.store.notes(TOPIC, "gone/") for archive in sim.archives)
    assert not any(list(archive.core.entities.tombstones) for archive in sim.archives)


def test_a_name_that_nobody_uses_is_forgotten_and_one_in_use_at_another_replica_is_not() -> None:
    sim = pair(10, config=replace(CONFIG, abandoned=60.0))
    used, left = subscribe(sim, "used"), subscribe(sim, "left")
    sim.stage.run_for(3)
    left.crash()
    sim.stage.run_for(200)
    assert names(sim) == [["used"], ["used"]], "it has had no event, and is there"
    one, _ = used_and_other(sim, used)
    other = next(archive for archive in sim.archives if archive is not one)
    other.crash()
    used.crash()
    sim.stage.run_for(200)
    assert "used" in one.core.entities.all, "it may be in use at the other replica"
    other.start()
    sim.stage.run_for(100)
    assert names(sim) == [[], []]


def test_a_time_after_which_names_are_abandoned_is_not_shorter_than_a_failover() -> None:
    with pytest.raises(UsageError, match=r"abandoned=5\.0 must be 0, or at least ten times"):
        DurableConfig(abandoned=5.0)


class _Alone:
    """A subscriber, and what it sends to an archive that is played by hand."""

    def __init__(self, taking: str = "") -> None:
        self.sim = pair(7)
        self.archive = numbered_contact(130)
        self.sent: list[object] = []
        self.displaced: list[str] = []
        self.core = OrderedSubscriber(
            self.sim.stage.context(numbered_contact(121)),
            Subscribing(TOPIC, "name", Interest(TOPIC).packed()),
            CONFIG,
            deliver=lambda numbered: None,
            on_gap=lambda gap: None,
            on_silent=lambda: None,
            on_registered=lambda refused: None,
            on_displaced=self.displaced.append,
            taking=taking,
        )
        self.sim.stage.attach(self.archive, lambda sender, message: self.sent.append(message))
        self.core.use(self.archive)
        self.sim.stage.run_for(0.1)

    def answer(self, refused: str = "") -> None:
        (session,) = {one.session for one in self.sent[-1:]}  # type: ignore[attr-defined]
        said = AckResponse(TOPIC, "name", session, b"replica", refused=refused)
        self.core.receive_response(self.archive, said)
        self.sim.stage.run_for(0.1)


def test_who_has_said_goodbye_does_not_take_the_name_again() -> None:
    alone = _Alone()
    alone.answer()
    alone.core.tell_done(leaving=True)
    alone.sim.stage.run_for(0.1)
    alone.answer(REGISTER_AGAIN)  # to an invoice that was on its way
    alone.sim.stage.run_for(5)
    assert sum(isinstance(one, Register) for one in alone.sent) == 1


def test_an_answer_from_before_the_registration_displaces_nobody() -> None:
    alone = _Alone()
    alone.answer(BUSY)
    alone.answer()
    alone.answer(BUSY)
    assert alone.core.is_registered
    assert not alone.displaced


def test_of_several_that_take_a_name_over_the_last_one_has_it_and_the_others_are_told() -> None:
    sim = pair(8)
    archive = sim.archives[0].contact
    words: list[list[str]] = []
    for number in range(12):
        said: list[str] = []
        core = OrderedSubscriber(
            sim.stage.context(numbered_contact(140 + number)),
            Subscribing(TOPIC, "name", Interest(TOPIC).packed()),
            CONFIG,
            deliver=lambda numbered: None,
            on_gap=lambda gap: None,
            on_silent=lambda: None,
            on_registered=lambda refused: None,
            on_displaced=said.append,
            taking=f"word {number}",
        )
        sim.stage.attach(numbered_contact(140 + number), core.receive_response)  # type: ignore[arg-type]
        core.use(archive)
        words.append(said)
        sim.stage.run_for(0.2)
    sim.stage.run_for(20)
    assert words == [*([f"word {number}"] for number in range(1, 12)), []]
