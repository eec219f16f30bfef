"""What a stage would save: SCAMP as published on the stage and emulated, processor time and sizes of tables.

python -m tests.bench.staged
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import fmean, pstdev

from bench.experiment import Experiment
from bench.suites.built_in import IMPLEMENTED, variant
from bench.tiers.population import PUBLISHED_JOINS_AT_ONCE, Population
from overlay.membership.config import ScampConfig
from overlay.virtual import Latency, Network
from overlay.virtual.stage import StageConfig
from tests.overlay.membership.community import ScampCommunity, view_sizes

MEMBERS = 84
GATEWAYS = 2
SETTLE_SECONDS = 15.0


def staged(seed: int) -> tuple[float, float]:
    """Mean and deviation of the sizes of tables: the membership service alone, without a node around it."""
    network = StageConfig(latency=(0.005, 0.05))
    community = ScampCommunity(seed, ScampConfig(margin=0.0), network, GATEWAYS, balance=False)
    community.grow(GATEWAYS, 0.5)
    for number in range(GATEWAYS, MEMBERS):
        community.join()
        if number % PUBLISHED_JOINS_AT_ONCE == 1:
            community.stage.run_for(0.5)
    community.stage.run_for(SETTLE_SECONDS)
    return view_sizes(community.graph)


def emulated(seed: int) -> tuple[float, float]:
    """The same of whole nodes on the virtual network."""
    asked = {**IMPLEMENTED, **variant("published"), "sizes": (MEMBERS,), "mode": "unstructured"}
    experiment = Experiment(suite="staged", figure="staged", tier="emulate", seed=seed, **asked)
    network = Network(seed, latency=Latency.uniform(0.005, 0.05))
    with tempfile.TemporaryDirectory() as directory:
        population = Population(experiment, network, Path(directory))

        async def look() -> list[int]:
            async with population:
                await population.start()
                await asyncio.sleep(SETTLE_SECONDS)
                return [len(member.table) for member in population.snapshot().communities[0]]

        sizes = network.run(look())
    return fmean(sizes), pstdev(sizes)


if __name__ == "__main__":
    for way in (staged, emulated):
        way(0)
        began = time.process_time()
        found = [way(seed) for seed in range(1, 9)]
        each = (time.process_time() - began) / len(found)
        mean, deviation = (fmean(values) for values in zip(*found, strict=True))
        print(
            f"{way.__name__}: {each:.3f} s a network, tables of {mean:.2f}, deviation {deviation:.2f}"
        )
