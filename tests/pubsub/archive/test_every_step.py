"""One to five replicas, of which any one is left: all others are killed for good at each step of a run.

A step is a message that an archive handles, or a commit that it finishes. The run goes from the first sign of
life to when every replica has every event and knows that it was delivered, and some heartbeats on; from then
on nothing happens but heartbeats. It is the same run for every step, up to the kill: for each survivor one
of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pubsub.archive.protocol.replica_table import ReplicaTable
from tests.pubsub.archive.checkers import lost, verdict
from tests.pubsub.archive.harness import Simulation
from tests.pubsub.archive.test_replicas import Steps, has_all, publish, subscribe

MEETING = 4.0
"""Seconds in which the archives meet, before anything is published."""

EVENTS = 5

IDLE = 3.0
"""Seconds of heartbeats at the end."""

LONGEST = 60.0
"""Seconds in which everything must have happened; a fifth of all messages is lost."""


def begin(replicas: int, survivor: int, kill_at: int | None) -> tuple[Simulation, Steps]:
    sim = Simulation(10 * replicas + survivor, archives=replicas, loss=0.2)
    steps = Steps(sim, kill_at, survivor)
    sim.stage.run(MEETING)
    subscribe(sim)
    publish(sim, EVENTS, copies=replicas)
    return sim, steps


def run_until(sim: Simulation, is_over: Callable[[], bool]) -> None:
    end = sim.stage.now + LONGEST
    while not is_over() and sim.stage.now < end:
        sim.stage.run_for(0.1)


def is_settled(sim: Simulation) -> bool:
    """Whether every replica has every event, and knows that the subscriber is done with them."""
    if len(sim.history.acknowledged) < EVENTS:
        return False
    stream = sim.publishers[0].core.stream
    entities = [archive.core.entities.all.get("exact") for archive in sim.archives]
    return all(has_all(sim, archive) for archive in sim.archives) and all(
        entity is not None
        and (entity.covered.covers(stream, EVENTS) or entity.done >= archive.core.inventory.highest)
        for archive, entity in zip(sim.archives, entities, strict=True)
    )


def count_steps(replicas: int, survivor: int) -> int:
    sim, steps = begin(replicas, survivor, None)
    run_until(sim, lambda: is_settled(sim))
    assert is_settled(sim)
    sim.stage.run_for(IDLE)
    return steps.count


def kill(replicas: int, survivor: int, step: int) -> Simulation:
    """The run with a kill; then a newcomer asks for everything that was acknowledged."""
    sim, steps = begin(replicas, survivor, step)
    run_until(sim, lambda: steps.count >= step)
    subscribe(sim, "late", 121)
    run_until(sim, lambda: not lost(sim.history, "exact") and not lost(sim.history, "late"))
    sim.stage.run_for(IDLE)
    return sim


def assert_kept_at(replicas: int, survivor: int, step: int) -> None:
    sim = kill(replicas, survivor, step)
    for name in ("exact", "late"):
        wrong = verdict(sim.history, name, ordered=True)
        assert not wrong, (
            f"{replicas} replicas, all but {survivor} killed at step {step}: {name} {wrong}"
        )


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 5])
def test_what_is_acknowledged_survives_on_any_one_replica(replicas: int) -> None:
    """A share of the steps of each run, another one for each survivor; the sweep has them all."""
    for survivor in range(replicas):
        steps = count_steps(replicas, survivor)
        for step in range(1 + survivor, steps + 1, 12 * replicas):
            assert_kept_at(replicas, survivor, step)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("replicas", "survivor"),
    [(replicas, survivor) for replicas in range(1, 6) for survivor in range(replicas)],
)
def test_what_is_acknowledged_survives_on_any_one_replica_at_every_step(
    replicas: int, survivor: int
) -> None:
    for step in range(1, count_steps(replicas, survivor) + 1):
        assert_kept_at(replicas, survivor, step)


def test_an_archive_that_counts_copies_which_are_not_there_loses_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        ReplicaTable, "safe", lambda self, stream, here: (here,) * (1 + len(self.peers))
    )
    survivor = 1
    steps = range(1, count_steps(2, survivor) + 1)
    assert any(lost(kill(2, survivor, step).history, "late") for step in steps)
