"""The simulated tier: an experiment run by the round simulator, each repetition with tables of its own."""

from __future__ import annotations

from typing import Any

from bench.experiment import CLUSTERS, Experiment
from bench.results import CommunityResult, Result
from bench.simulate import (
    Failure,
    Protocol,
    SimulationResult,
    SimulationSettings,
    Tables,
    simulate_independently,
)
from overlay.membership.scamp.community import ScampConfig

SCAMP_COPIES = ScampConfig().c
"""SCAMP's c, as real nodes have it: further copies of each subscription. Views come out at (c + 1) ln N."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Simulate every repetition of each point; the same seed gives the same result on any machine."""
    return [(point, list(_run(point))) for point in experiment.points()]


def _run(experiment: Experiment) -> list[CommunityResult]:
    results = []
    found = simulate_independently(settings(experiment), experiment.repetitions)
    for repetition, result in enumerate(found):
        results += _communities(repetition, experiment, result)
    return results


def settings(experiment: Experiment) -> SimulationSettings:
    """The experiment in the simulator's words."""
    repaired = experiment.failure == "repaired"
    return SimulationSettings(
        protocol=Protocol(experiment.protocol),
        community_sizes=experiment.living if repaired else experiment.sizes,
        publish_level=experiment.publish_level,
        c=experiment.c,
        g=experiment.g,
        p_sel=experiment.p_sel,
        a=experiment.a,
        z=experiment.z,
        loss=experiment.loss,
        failure=Failure.STILLBORN if repaired else Failure(experiment.failure),
        failed=0.0 if repaired else experiment.failed,
        tables=Tables.SCAMP if experiment.mode == "unstructured" else Tables.UNIFORM,
        scamp_copies=SCAMP_COPIES,
        own_sizes=experiment.mode == "unstructured",
        clusters=min(CLUSTERS, sum(experiment.sizes)),
        seed=experiment.seed,
    )


def _communities(
    repetition: int, experiment: Experiment, result: SimulationResult
) -> list[CommunityResult]:
    found = []
    for community in result.communities:
        wanted = community.interested
        entries = community.table_entries / community.processes
        found.append(
            CommunityResult(
                repetition=repetition,
                community=community.level,
                processes=experiment.sizes[community.level],
                alive=community.alive,
                reached=community.reached if wanted else None,
                everyone=float(community.everyone) if wanted and community.alive else None,
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


def compile_kernels() -> None:
    """Compile what simulated and replayed events run, and keep it for the processes that come later."""
    from bench.tiers.replay import ReplayedMember, Snapshot, replay

    tiny: dict[str, Any] = {"suite": "", "figure": "", "sizes": (20, 10, 5)}
    for protocol in Protocol:
        for mode in ("uniform", "unstructured"):
            run(Experiment(tier="simulate", protocol=protocol, mode=mode, **tiny))
    pair = tuple(ReplayedMember(name, name, 2.0, ("b", "a"), ()) for name in ("a", "b"))
    point = Experiment(tier="replay", mode="structured", replays=1, **tiny | {"sizes": (2,)})
    replay(point, Snapshot((pair,)))
