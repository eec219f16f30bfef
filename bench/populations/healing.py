"""How long after a partition has healed events reach everyone again, in a population of emulated nodes."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from bench.experiment import Experiment
from bench.populations.emulated import Population
from bench.suites.settings import DEFAULTS, variant
from bench.traces import histories, trace_rows
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 60.0
"""Virtual time from the last join to the partition."""
CUT_EVENT_SECONDS = 10.0
"""Virtual time from one event to the next while the network is cut in two."""
EVENT_SECONDS = 1.0
"""The same from the end of the partition on."""
EVENTS = 30
"""How many are published after that."""
SPREAD_SECONDS = 10.0
"""How long the last of them is given to reach everyone."""


def seconds_until_healed(
    mode: str, sizes: tuple[int, ...], cut_seconds: float, seed: int
) -> float | None:
    """From the end of a partition, the seconds after which every event that is published reaches everyone.

    Half of each community is cut off from the other half. Nodes have default settings. Events come from
    random members of the lowest community, and everyone in it and in those above is to have them. None: even
    the last event missed somebody."""
    experiment = Experiment(
        suite="speed",
        figure="emulator",
        tier="emulate",
        mode=mode,
        seed=seed,
        **{**DEFAULTS, **variant("shipped"), "sizes": sizes},
    )
    network = Network(seed, latency=Latency.uniform(0.005, 0.050))
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        before = round(cut_seconds / CUT_EVENT_SECONDS)
        network.run(_live(population, network, before, random.Random(seed)))
        rows = [
            row
            for path in population.traces()
            for row in trace_rows(path)
            if row["kind"] in ("publish", "receive")
        ]
    reached = [
        sum(len(copies.had) for copies in history.communities.values())
        for history in histories(rows).values()
    ]
    missed = [number for number, nodes in enumerate(reached[before:]) if nodes < sum(sizes)]
    healed = missed[-1] + 1 if missed else 0
    return healed * EVENT_SECONDS if healed < EVENTS else None


async def _live(
    population: Population, network: Network, before: int, chance: random.Random
) -> None:
    """Publish `before` events while the network is cut in two, and others when it is whole again."""

    async def publish(events: int, interval: float) -> None:
        for _ in range(events):
            await population.publish(0, None, chance)
            await asyncio.sleep(interval)

    async with population:
        await population.start()
        await asyncio.sleep(SETTLE_SECONDS)
        hosts = [host for host, _ in population.hosts()]  # those of each community are side by side
        network.partition(hosts[::2], hosts[1::2])
        await publish(before, CUT_EVENT_SECONDS)
        network.heal()
        await publish(EVENTS, EVENT_SECONDS)
        await asyncio.sleep(SPREAD_SECONDS)
