"""The live tier: the real nodes in real processes over UDP, read from their traces.

A row builds one network, lets it settle, kills what is to crash, waits until the tables are repaired, and
publishes its events one after another, those of a series of p_sel in turn. The processes are on this machine,
or one on each of some executors of Spark (`bench.spark.executor`). Nothing is made to be lost; events travel
over channels. Times depend on the machines and their load: nothing here is the same twice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.experiment import Experiment, ExperimentError
from bench.players import Line
from bench.populations.live import LivePopulation
from bench.results import Result
from bench.traces import CommunityMembers, Observation, histories, results_of

SETTLE_SECONDS = {"eager": 25.0, "lazy": 2.0}
"""The most that tables may take to fill after the last join, by the dissemination: lazy members fetch what
they hear of, so that tables need not have come to rest."""
REPAIR_SECONDS = 45.0
"""The most that they may take to be repaired after a crash."""
STEADY_SECONDS = 1.0
"""Gossiped tables that have not changed for this many seconds have come to rest."""
SPREAD_SECONDS = 10.0
"""The most that an event may take to spread before the next one is published."""
SILENT_SECONDS = 0.4
"""An event has spread when no copy of it has arrived anywhere for this many seconds; later copies still
count."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Run an experiment on this machine; `ExperimentError` when loopback cannot do what it asks for."""
    return run_observed(experiment)[0]


def run_observed(
    experiment: Experiment, lines: Sequence[Line] = (), host: str = "127.0.0.1"
) -> tuple[list[tuple[Experiment, list[Result]]], list[list[Observation]]]:
    """The results, and for each point the events' histories with who was there at each publication.

    `lines`: processes on other machines that are to hold the nodes (`bench.populations.live.hold`)."""
    observed = _observe(experiment, lines, host)
    points = zip(experiment.points(), observed, strict=True)
    return [(point, list(results_of(events))) for point, events in points], observed


def _observe(experiment: Experiment, lines: Sequence[Line], host: str) -> list[list[Observation]]:
    if experiment.loss:
        raise ExperimentError(
            f"the live tier loses nothing, so loss must be 0, not {experiment.loss:g}: "
            "use the tier emulate for a network with loss"
        )
    chance = random.Random(experiment.seed)
    with LivePopulation(experiment, chance, lines, host) as population:
        population.start()
        members = _events(experiment, population, chance)
        rows = population.close()
    events: list[Observation] = list(zip(histories(rows).values(), members, strict=True))
    points = len(experiment.points())
    return [events[point::points] for point in range(points)]


def _events(
    experiment: Experiment, population: LivePopulation, chance: random.Random
) -> list[list[CommunityMembers]]:
    population.wait_for_tables(STEADY_SECONDS, SETTLE_SECONDS[experiment.dissemination])
    if experiment.failed:
        population.crash()
        population.wait_for_repaired_tables(REPAIR_SECONDS)
    members = []
    for _ in range(experiment.repetitions):
        for point in experiment.points():
            members.append(population.members())
            population.publish(point.publish_level, point.p_sel, chance)
            population.wait_for_silence(SILENT_SECONDS, SPREAD_SECONDS)
    return members
