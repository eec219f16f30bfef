"""The way in: simulate one event, or many repetitions of one."""

from __future__ import annotations

import dataclasses

from bench.simulate.cluster_run import run_clusters
from bench.simulate.community_run import run_communities
from bench.simulate.randomness import derived
from bench.simulate.result import SimulationResult
from bench.simulate.settings import Protocol, SimulationSettings
from overlay.errors import UsageError


def simulate(settings: SimulationSettings) -> SimulationResult:
    """Publish one event and follow it to its end.

    The result follows from the settings alone, on any machine and any number of threads.
    """
    apart = settings.protocol in (Protocol.CAMCAST, Protocol.MULTICAST)
    communities = run_communities(settings) if apart else run_clusters(settings)
    return SimulationResult(settings=settings, communities=tuple(communities))


def simulate_independently(
    settings: SimulationSettings, repetitions: int
) -> list[SimulationResult]:
    """Repeat with tables of its own each time: repetition r runs with a seed that follows from (seed, r).

    Tables stay the same only if the settings fix `table_seed`.
    """
    if repetitions < 1:
        raise UsageError(f"repetitions must be 1 or more, not {repetitions!r}.")
    return [
        simulate(dataclasses.replace(settings, seed=derived(settings.seed, repetition)))
        for repetition in range(repetitions)
    ]
