"""Schedules of loss, duplication, reordering, partitions and crashes of publishers, subscribers, archives and
disks: what was acknowledged is delivered, in each publisher's order, and not twice."""

from __future__ import annotations

import pytest

from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import Simulation
from tests.pubsub.archive.schedules import run_schedule


def assert_kept(sim: Simulation, *, in_order: bool = True) -> None:
    """Every promise was kept, and everything that was to be archived is."""
    for subscriber in sim.subscribers:
        wrong = verdict(sim.history, subscriber.name, ordered=subscriber.ordered)
        if not in_order:
            wrong.pop("reordered", None)
        assert not wrong, f"seed {sim.stage.seed}, {subscriber.name}: {wrong}"
    for publisher in sim.publishers:
        assert publisher.core.owed == 0, f"seed {sim.stage.seed}: a publisher still waits"
    assert sim.history.acknowledged


@pytest.mark.parametrize("seed", range(8))
def test_nothing_acknowledged_is_lost_doubled_or_reordered(seed: int) -> None:
    assert_kept(run_schedule(seed))


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_nothing_acknowledged_is_lost_doubled_or_reordered_whatever_the_seed(first: int) -> None:
    for seed in range(first, first + 50):
        assert_kept(run_schedule(seed))


@pytest.mark.parametrize("seed", [*range(3), 104])
def test_everybody_comes_back_though_the_directory_loses_questions(seed: int) -> None:
    assert_kept(run_schedule(seed, archives=2, deaf=0.3))


@pytest.mark.sweep
def test_everybody_comes_back_though_the_directory_loses_questions_whatever_the_seed() -> None:
    for seed in range(100, 120):
        assert_kept(run_schedule(seed, archives=2, deaf=0.3))


def test_order_is_kept_at_an_archive_that_the_one_before_did_not_know() -> None:
    """All replicas that the first one knew had the events, so that their publisher let them go."""
    assert_kept(run_schedule(29, archives=5, copies=3, newcomers=3, quarrels=4))


@pytest.mark.sweep
@pytest.mark.parametrize("first", [0, 30])
def test_order_is_kept_among_five_archives_that_quarrel_whatever_the_seed(first: int) -> None:
    for seed in range(first, first + 30):
        assert_kept(run_schedule(seed, archives=5, copies=3, newcomers=3, quarrels=4))


def test_a_torn_write_does_not_hold_up_what_comes_after_it() -> None:
    assert_kept(run_schedule(57))


def test_a_publisher_that_continues_an_earlier_life_is_not_held_up_by_its_window() -> None:
    assert_kept(run_schedule(2))
