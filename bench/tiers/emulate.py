"""The emulated tier: the real nodes on the virtual network, deterministic by seed.

A row builds one network, lets it settle, crashes what is to crash, waits until the tables are repaired, and
publishes its repetitions one after another. Latency is 5 to 50 ms. With loss, events travel as plain
datagrams, as in the paper's model; without, over channels, as in its implementation.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from bench.emulation.population import Population
from bench.emulation.turnover import Turnover
from bench.experiment import Experiment
from bench.results import CommunityResult
from bench.traces import CommunityMembers, EventHistory, community_results, histories, read_trace
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 25.0
"""Virtual time from the last join to the first event, and from crashes to the first event."""
SPREAD_SECONDS = 4.0
"""Virtual time that an event has to spread before the next one."""


def run(experiment: Experiment) -> list[CommunityResult]:
    """Emulate an experiment; the same seed gives the same result."""
    results = []
    found = emulate(experiment)
    for repetition, (history, members) in enumerate(found):
        results += community_results(history, repetition, members)
    return results


def emulate(experiment: Experiment) -> list[tuple[EventHistory, list[CommunityMembers]]]:
    """Each event's history, and who was there when it was published."""
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050), loss=experiment.loss)
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        members = network.run(_events(experiment, population))
        rows = [row for path in population.traces() for row in read_trace(path)]
    return list(zip(histories(rows).values(), members, strict=True))


async def _events(experiment: Experiment, population: Population) -> list[list[CommunityMembers]]:
    chance = random.Random(experiment.seed)
    async with population:
        await population.start()
        await asyncio.sleep(SETTLE_SECONDS)
        if experiment.failure == "churn":
            return await _publish_during_churn(experiment, population, chance)
        if experiment.failed:
            population.crash(experiment.failed, chance)
            await asyncio.sleep(SETTLE_SECONDS)
        return await _publish(experiment, population, chance)


async def _publish(
    experiment: Experiment, population: Population, chance: random.Random
) -> list[list[CommunityMembers]]:
    members = []
    for _ in range(experiment.repetitions):
        members.append(population.members())
        await population.publish(experiment.publish_level, experiment.p_sel, chance)
        await asyncio.sleep(SPREAD_SECONDS)
    return members


async def _publish_during_churn(
    experiment: Experiment, population: Population, chance: random.Random
) -> list[list[CommunityMembers]]:
    """Count the processes that were there all the time from an event's publication to its end."""
    async with Turnover(population, experiment.failed, chance):
        await asyncio.sleep(SETTLE_SECONDS)
        members = []
        for _ in range(experiment.repetitions):
            before = population.members()
            await population.publish(experiment.publish_level, experiment.p_sel, chance)
            await asyncio.sleep(SPREAD_SECONDS)
            members.append(population.still_there(before))
        return members
