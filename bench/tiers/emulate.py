"""The emulated tier: the real nodes on the virtual network, deterministic by seed.

A row builds one network, lets it settle, crashes what is to crash, waits until the tables are repaired, and
publishes its events one after another; then more crash, if there is more to its series. Latency is 5 to
50 ms. With loss, events travel as plain datagrams, as in the paper's model; without, over channels, as in
its implementation.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from itertools import groupby
from pathlib import Path

from bench.emulation.population import Population
from bench.emulation.turnover import Turnover
from bench.experiment import Experiment
from bench.results import CommunityResult
from bench.traces import CommunityMembers, Observation, histories, read_trace, results_of
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 25.0
"""Virtual time from the last join to the first event."""
REPAIR_SECONDS = 60.0
"""Virtual time from crashes to the next event: until no table names the dead, super-topic tables the last,
and those who keep a census have counted the living."""
SPREAD_SECONDS = 2.0
"""Virtual time from one event to the next: a few times what an event takes. Later copies still count."""


def run(experiment: Experiment) -> list[list[CommunityResult]]:
    """Emulate an experiment: the results of each of its points; the same seed gives the same result."""
    return [results_of(events) for events in observe(experiment)]


def observe(experiment: Experiment) -> list[list[Observation]]:
    """For each point the events' histories, and who was there when each was published."""
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050), loss=experiment.loss)
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        published = network.run(_events(experiment, population))
        rows = [row for path in population.traces() for row in read_trace(path)]
    found: list[list[Observation]] = [[] for _ in experiment.points()]
    for history, (point, members) in zip(histories(rows).values(), published, strict=True):
        found[point].append((history, members))
    return found


Published = tuple[int, list[CommunityMembers]]
"""An event: the index of the point it belongs to, and who was there."""


async def _events(experiment: Experiment, population: Population) -> list[Published]:
    chance = random.Random(experiment.seed)
    async with population:
        await population.start()
        await asyncio.sleep(SETTLE_SECONDS)
        if experiment.failure == "churn":
            async with Turnover(population, experiment.failed, chance):
                await asyncio.sleep(SETTLE_SECONDS)
                return await _publish(list(enumerate(experiment.points())), population, chance)
        published = []
        for failed, points in groupby(enumerate(experiment.points()), lambda p: p[1].failed):
            if failed:
                population.crash(failed, chance)
                await asyncio.sleep(REPAIR_SECONDS)
            published += await _publish(list(points), population, chance)
        return published


async def _publish(
    points: list[tuple[int, Experiment]], population: Population, chance: random.Random
) -> list[Published]:
    """The events of the points in turn, counting who was there from its publication to its end."""
    published = []
    for _ in range(points[0][1].repetitions):
        for index, point in points:
            before = population.members()
            await population.publish(point.publish_level, point.p_sel, chance)
            await asyncio.sleep(SPREAD_SECONDS)
            published.append((index, population.still_there(before)))
    return published
