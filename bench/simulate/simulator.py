"""The way in: simulate one event, or many repetitions of one."""

from __future__ import annotations

import dataclasses

from bench.simulate.bits import REPETITIONS
from bench.simulate.cluster_run import run_clusters
from bench.simulate.community_run import run_communities
from bench.simulate.randomness import derived
from bench.simulate.result import SimulationResult
from bench.simulate.settings import Protocol, SimulationSettings
from bench.simulate.word_run import run_words
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
    _check(repetitions)
    return [
        simulate(dataclasses.replace(settings, seed=derived(settings.seed, repetition)))
        for repetition in range(repetitions)
    ]


def simulate_together(settings: SimulationSettings, repetitions: int) -> list[SimulationResult]:
    """Repeat over the same tables, 64 repetitions in one pass: two to five times as fast, most for large N.

    CAMCAST only. Who publishes, crashes, links and what is lost differ from one to the other, so the
    results vary less than independent ones by what differs between tables. A result's settings hold
    the seed of its batch of 64.
    """
    _check(repetitions)
    if settings.protocol is not Protocol.CAMCAST:
        raise UsageError(
            f"{settings.protocol} cannot be repeated together: repeat it independently."
        )
    results: list[SimulationResult] = []
    for batch in range(-(-repetitions // REPETITIONS)):
        seed = derived(settings.seed, batch)
        one = dataclasses.replace(settings, seed=seed, table_seed=settings.tables_from)
        for communities in run_words(one):
            results.append(SimulationResult(settings=one, communities=tuple(communities)))
    return results[:repetitions]


def _check(repetitions: int) -> None:
    if repetitions < 1:
        raise UsageError(f"repetitions must be 1 or more, not {repetitions!r}.")
