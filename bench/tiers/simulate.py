"""The simulated tier: an experiment run by the round simulator, each repetition with tables of its own."""

from __future__ import annotations

from bench.experiment import CLUSTERS, Experiment
from bench.results import CommunityResult
from bench.simulate import (
    Failure,
    Protocol,
    SimulationResult,
    SimulationSettings,
    Tables,
    simulate_independently,
)
from overlay.errors import UsageError


def run(experiment: Experiment) -> list[CommunityResult]:
    """Simulate every repetition; the same seed gives the same result on any machine."""
    if experiment.failure == "churn":
        raise UsageError("the simulator has no churn: emulate it")
    results = []
    found = simulate_independently(settings(experiment), experiment.repetitions)
    for repetition, result in enumerate(found):
        results += _communities(repetition, result)
    return results


def settings(experiment: Experiment) -> SimulationSettings:
    """The experiment in the simulator's words."""
    return SimulationSettings(
        protocol=Protocol(experiment.protocol),
        community_sizes=experiment.sizes,
        publish_level=experiment.publish_level,
        c=experiment.c,
        g=experiment.g,
        p_sel=experiment.p_sel,
        a=experiment.a,
        z=experiment.z,
        loss=experiment.loss,
        failure=Failure(experiment.failure),
        failed=experiment.failed,
        tables=Tables.SCAMP if experiment.mode == "unstructured" else Tables.UNIFORM,
        clusters=min(CLUSTERS, sum(experiment.sizes)),
        seed=experiment.seed,
    )


def _communities(repetition: int, result: SimulationResult) -> list[CommunityResult]:
    found = []
    for community in result.communities:
        wanted = community.interested
        entries = community.table_entries / community.processes
        found.append(
            CommunityResult(
                repetition=repetition,
                community=community.level,
                processes=community.processes,
                alive=community.alive,
                reached=community.reached if wanted else None,
                everyone=float(community.everyone) if wanted else None,
                messages_inside=community.sent_inside,
                messages_upward=community.sent_upward,
                useful=community.received - community.duplicates,
                duplicates=community.duplicates,
                parasites=community.parasites,
                rounds=community.last_round if wanted else None,
                table_entries=entries,
                largest_table=community.largest_tables,
            )
        )
    return found
