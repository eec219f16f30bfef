"""The model tier: an experiment answered by the paper's formulas.

The paper's exp(-exp(-c)) is for gossip that loses nothing. With loss and failures the same reasoning
gives exp(-n exp(-f)) for n live processes and f = (ln N + c)(1 - loss)(1 - failed) messages of each that
reach a live one; that is what stands here, and for none lost it is the paper's.
"""

from __future__ import annotations

from dataclasses import replace

from bench.experiment import CLUSTERS, Experiment
from bench.model.community import Community
from bench.model.epidemic import effective_fanout, everyone_reached, final_size
from bench.model.latency import broadcast_latency, camcast_average_latency, group_latency
from bench.model.memory import (
    broadcast_memory,
    camcast_memory,
    hierarchical_memory,
    multicast_memory,
)
from bench.model.messages import gossip_messages
from bench.model.parasites import broadcast_parasites, hierarchical_parasites
from bench.model.reliability import drawn_passing_probability
from bench.results import CommunityResult


def run(experiment: Experiment) -> list[list[CommunityResult]]:
    """The expected result in each community; one row each, whatever the repetitions."""
    return [_run(point) for point in experiment.points()]


def _run(experiment: Experiment) -> list[CommunityResult]:
    if experiment.failure == "repaired":
        return _among_the_living(experiment)
    of = {
        "camcast": _camcast,
        "broadcast": _broadcast,
        "multicast": _multicast,
        "hierarchical": _hierarchical,
    }
    if experiment.protocol not in of:
        raise ValueError(f"there is no formula for {experiment.protocol}")
    return of[experiment.protocol](experiment)


def _among_the_living(experiment: Experiment) -> list[CommunityResult]:
    """Where tables hold the living alone, these are the whole system."""
    living = replace(experiment, sizes=experiment.living, failed=0.0, failure="stillborn")
    pairs = zip(_run(living), experiment.sizes, strict=True)
    return [replace(result, processes=size) for result, size in pairs]


def _camcast(experiment: Experiment) -> list[CommunityResult]:
    arrives = 1.0
    found = []
    last = len(experiment.sizes) - 1
    for level, size in enumerate(experiment.sizes):
        if level < experiment.publish_level:
            found.append(_untouched(level, size, experiment))
            continue
        alive = _alive(size, experiment)
        share, everyone = _gossip(size, size, experiment)
        community = _community(size, experiment)
        # Formulas are for the processes reached: the crashed send nothing upward.
        sending = Community(
            max(1, round(alive * share)),
            community.c,
            min(community.p_sel * alive * share, max(1, round(alive * share))),
            community.a,
            community.z,
            _success(experiment),
        )
        climbed = experiment.sizes[experiment.publish_level : level + 1]
        found.append(
            CommunityResult(
                repetition=0,
                community=level,
                processes=size,
                alive=alive,
                reached=alive * arrives * share,
                everyone=arrives * everyone,
                messages_inside=gossip_messages(size, experiment.c)
                * arrives
                * share
                * alive
                / size,
                messages_upward=0.0
                if level == last
                else alive * share * arrives * community.p_sel * community.p_a * community.z,
                parasites=0.0,
                rounds=camcast_average_latency(climbed),
                table_entries=camcast_memory(community, root=level == last),
            )
        )
        arrives *= drawn_passing_probability(sending)
    return found


def _broadcast(experiment: Experiment) -> list[CommunityResult]:
    processes, interested = _interest(experiment)
    return _flood(
        experiment,
        group=processes,
        parasites=broadcast_parasites(processes, interested, experiment.c, _success(experiment)),
        messages=gossip_messages(processes, experiment.c) / processes,
        rounds=broadcast_latency(experiment.sizes),
        entries=broadcast_memory(processes, experiment.c),
    )


def _multicast(experiment: Experiment) -> list[CommunityResult]:
    hierarchy = tuple(_community(size, experiment) for size in experiment.sizes)
    found = []
    for level, size in enumerate(experiment.sizes):
        if level < experiment.publish_level:
            found.append(_untouched(level, size, experiment))
            continue
        alive = _alive(size, experiment)
        share, everyone = _gossip(size, size, experiment)
        found.append(
            CommunityResult(
                repetition=0,
                community=level,
                processes=size,
                alive=alive,
                reached=alive * share,
                everyone=everyone,
                messages_inside=gossip_messages(size, experiment.c) * share * alive / size,
                messages_upward=0.0,
                parasites=0.0,
                rounds=group_latency([size]),
                table_entries=multicast_memory(hierarchy, level),
            )
        )
    return found


def _hierarchical(experiment: Experiment) -> list[CommunityResult]:
    processes, interested = _interest(experiment)
    clusters = min(CLUSTERS, processes)
    within = max(1, processes // clusters)
    c = experiment.c
    memory = hierarchical_memory(clusters, within, c, c)
    return _flood(
        experiment,
        group=within,
        parasites=hierarchical_parasites(
            clusters, within, min(interested, clusters * within), c, c, _success(experiment)
        ),
        messages=memory,
        rounds=group_latency([within]),
        entries=memory,
    )


def _flood(
    experiment: Experiment,
    *,
    group: int,
    parasites: float,
    messages: float,
    rounds: float,
    entries: float,
) -> list[CommunityResult]:
    """An event that goes to everyone, interested or not, by gossip in groups of `group` processes.

    `messages`: sent by each process that is reached. `parasites`: of all communities together.
    """
    processes, interested = _interest(experiment)
    share, everyone = _gossip(group, processes, experiment)
    found = []
    for level, size in enumerate(experiment.sizes):
        outside = level < experiment.publish_level
        alive = _alive(size, experiment)
        found.append(
            CommunityResult(
                repetition=0,
                community=level,
                processes=size,
                alive=alive,
                reached=None if outside else alive * share,
                everyone=None if outside else everyone,
                messages_inside=messages * size * share,
                messages_upward=0.0,
                parasites=parasites * size / max(1, processes - interested) if outside else 0.0,
                rounds=rounds,
                table_entries=entries,
            )
        )
    return found


def _interest(experiment: Experiment) -> tuple[int, int]:
    """All processes, and those that the event's topic or a super-topic of it concerns."""
    return sum(experiment.sizes), sum(experiment.sizes[experiment.publish_level :])


def _gossip(group: int, everyone: int, experiment: Experiment) -> tuple[float, float]:
    """Gossip in a group of a system: the share of the live reached, and P(all of the system are)."""
    fanout = effective_fanout(_community(group, experiment).fanout, _success(experiment))
    alive = max(1, round(_alive(everyone, experiment)))
    return final_size(fanout), everyone_reached(alive, fanout)


def _community(size: int, experiment: Experiment) -> Community:
    g = experiment.p_sel * size if experiment.p_sel is not None else min(experiment.g, size)
    return Community(size, experiment.c, g, experiment.a, experiment.z, _success(experiment))


def _success(experiment: Experiment) -> float:
    """A message arrives at a live process: not lost, and its target not down (or not seen as down)."""
    return (1 - experiment.loss) * (1 - experiment.failed)


def _alive(size: int, experiment: Experiment) -> float:
    return size * (1 - experiment.failed) if experiment.failure == "stillborn" else float(size)


def _untouched(level: int, size: int, experiment: Experiment) -> CommunityResult:
    """A community below the published topic: nobody there is interested, and nothing comes."""
    return CommunityResult(
        repetition=0,
        community=level,
        processes=size,
        alive=_alive(size, experiment),
        reached=None,
        everyone=None,
        messages_inside=0.0,
        messages_upward=0.0,
        parasites=0.0,
    )
