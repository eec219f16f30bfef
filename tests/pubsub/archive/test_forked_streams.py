"""Publishers that go on as another stream in mid-life, as an archive lacks what they no longer keep: nothing
is delivered twice, whichever replica has an event in which stream."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.frontier import Given, goes_on, is_fork, new_stream, stream_of
from pubsub.archive.protocol.messages import Companion
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    CONFIG,
    TOPIC,
    ArchiveActor,
    PublisherActor,
    Simulation,
    SubscriberActor,
    make_event,
)
from tests.pubsub.archive.schedules import run_schedule
from tests.pubsub.archive.test_faults import assert_kept
from tests.pubsub.archive.test_numbers import ARCHIVE, Desk

FORGETFUL = replace(CONFIG, spare=4)
"""Publishers keep so little that they fork whenever replicas were out of touch."""


def forked(sim: Simulation) -> tuple[ArchiveActor, ArchiveActor]:
    """Twenty events that one archive has alone; it fails, and publisher and reader go to the other one."""
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    publisher = PublisherActor(sim, 110)
    sim.subscribers, sim.publishers = [reader], [publisher]
    sim.stage.run_for(2)
    assert publisher.core.archive is not None
    one, other = sim.archives
    if one.contact.id != publisher.core.archive.id:
        one, other = other, one
    reader.core.use(one.contact)
    sim.stage.run_for(2)
    sim.apart = True
    for number in range(20):
        sim.stage.call_at(sim.stage.now + 1 + number * 0.02, publisher.publish)
    sim.stage.run_for(8)
    assert len(sim.history.acknowledged) == len(reader.deliveries) == 20
    stream = publisher.core.stream
    one.crash()
    sim.apart = False
    for number in range(5):
        sim.stage.call_at(sim.stage.now + 1 + number * 0.02, publisher.publish)
    sim.stage.run_for(30)
    assert publisher.core.stream != stream
    return one, other


def assert_all_once(sim: Simulation) -> None:
    assert len(sim.history.acknowledged) == 25
    assert not verdict(sim.history, "exact", ordered=True)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_comes_again_in_another_stream_is_not_delivered_again(restarted: bool) -> None:
    sim = Simulation(1, archives=2, config=FORGETFUL)
    one, _ = forked(sim)
    (reader,) = sim.subscribers
    assert_all_once(sim)
    if restarted:
        reader.crash()
        reader.start()
    one.start()
    sim.stage.run_for(40)
    assert_all_once(sim)


def test_the_archive_hears_that_the_application_is_done_though_streams_differ() -> None:
    sim = Simulation(2, archives=2, config=FORGETFUL)
    one, other = forked(sim)
    one.start()
    sim.stage.run_for(20)
    (reader,) = sim.subscribers
    for archive in (one, other):
        reader.core.use(archive.contact)
        sim.stage.run_for(10)
        entity = archive.core.entities.all["exact"]
        assert entity.done >= archive.core.inventory.highest
    assert_all_once(sim)


@pytest.mark.parametrize("replicas", [2, 3])
def test_schedules_in_which_publishers_fork_lose_and_double_nothing(replicas: int) -> None:
    for seed in range(4):
        assert_kept(
            run_schedule(seed, archives=replicas, quarrels=2, config=FORGETFUL), in_order=False
        )


def test_a_replica_gets_what_is_in_two_streams_in_the_order_of_publishing() -> None:
    sim = Simulation(1, archives=1)
    (first,) = sim.archives
    publisher, run = numbered_contact(110), b"origin.."
    origin = new_stream(publisher.id, 1_000_000_000, 1)
    fork = new_stream(publisher.id, 1_000_000_001, 1, fork=True)
    events = tuple(make_event(publisher, run, number) for number in range(1, 6))
    core = first.core
    core.receive_companion(publisher, Companion(TOPIC, origin, 0, 1, events[:2], 0))
    core.receive_companion(publisher, Companion(TOPIC, fork, 2, 3, events[2:4], 0))
    sim.stage.run_for(1)
    rows = [(origin, 2, n, 1e9, events[n - 1], False) for n in (3, 4, 5)]
    core.take(b"a replica that is gone", rows)
    sim.stage.run_for(1)
    sim.archives.append(sim.make_archive(1))
    sim.stage.run_for(10)
    expected = [(origin, 1), (origin, 2), (fork, 3), (fork, 4), (origin, 5)]
    for archive in sim.archives:
        stored = archive.store.events(TOPIC, 0, 10)
        assert [(one.publisher, one.catenation) for one in stored] == expected


def test_a_subscriber_does_not_take_what_comes_in_a_second_stream_for_given() -> None:
    assert_kept(run_schedule(193, archives=4, quarrels=2, config=FORGETFUL), in_order=False)


def test_a_stream_that_renews_another_one_does_not_say_that_all_before_it_was_given() -> None:
    """An archive that lacked the end of a publisher's last stream gave its next one first."""
    publisher, run = numbered_contact(110).id, b"the run."
    old, origin = new_stream(publisher, 1_000, 1), stream_of(publisher, run)
    renewed = new_stream(publisher, 2_000, 2, renews=True)
    assert not is_fork(renewed)
    given = Given()
    assert given.add(origin, old, 18)
    assert given.add(origin, renewed, 21)
    for again in given, Given(given.marks()):
        assert again.covers(origin, 18)
        assert again.covers(origin, 21)
        assert not again.covers(origin, 19)
        assert again.add(origin, old, 19)


def test_a_publisher_that_runs_for_long_says_that_it_renews_its_stream() -> None:
    desk = Desk(forget_runs=100.0)
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    desk.core.add(b"old")
    desk.answer(1)
    first = desk.core.stream
    desk.stage.run_for(30)
    desk.core.add(b"new")
    assert desk.core.stream != first
    assert (goes_on(first), goes_on(desk.core.stream)) == (False, True)
    assert not is_fork(desk.core.stream)


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_forks_lose_and_double_nothing_whatever_the_seed(replicas: int) -> None:
    for seed in range(200, 300):
        assert_kept(
            run_schedule(seed, archives=replicas, quarrels=2, config=FORGETFUL), in_order=False
        )


STREAMS = [new_stream(b"p" * 20, 1_000, number, fork=number > 0) for number in range(3)]


@hypothesis_given(
    st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 30)), max_size=40),
    st.integers(1, 30),
)
def test_a_position_is_the_same_after_it_was_kept(
    events: list[tuple[bytes, int]], probe: int
) -> None:
    origin = stream_of(b"p" * 20, b"the run.")
    given = Given()
    for stream, catenation in events:
        news = not given.covers(origin, catenation)
        assert given.add(origin, stream, catenation) == news
        assert given.covers(origin, catenation)
    again = Given(given.marks())
    assert again.marks() == given.marks()
    assert again.covers(origin, probe) == given.covers(origin, probe)
    assert dict(given.streams(100)).keys() <= {stream for stream, _ in events}
