"""The model tier: an experiment answered by formulas, with every draw made.

The paper's exp(-exp(-c)) is for large communities and gossip to ln N + c others that loses nothing, and its
pit takes the number of upward messages at its mean. A run sends to floor(ln N + c) others, loses messages,
and draws who sends upward; what stands here is what the same reasoning gives then. The paper's own values are
in `bench.model.printed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.experiment import CLUSTERS, Experiment
from bench.model.formulas import (
    ModelCommunity,
    assumed_tree,
    broadcast_latency,
    broadcast_memory,
    broadcast_parasites,
    camcast_average_latency,
    camcast_memory,
    drawn_passing_probability,
    final_size,
    group_latency,
    hierarchical_memory,
    hierarchical_parasites,
    missed_probability,
    multicast_memory,
    pmcast_memory,
    pmcast_rounds,
    pmcast_uninterested,
)
from bench.results import CommunityResult, Result

SMALLEST = 3
"""The formula of rounds, ln N / ln ln N, needs at least this many processes."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """The expected result in each community; one row each, whatever the repetitions."""
    return [(point, list(_run(point))) for point in experiment.points()]


def everyone_everywhere(experiment: Experiment) -> float | None:
    """The probability that every live process of every community that wants the event has it.

    `experiment` is one point. None where there is no formula.
    """
    experiment = _living(experiment)
    sizes = experiment.sizes[experiment.publish_level :]
    if experiment.protocol == "pmcast":
        return None
    if experiment.protocol == "multicast":
        return math.prod(_everyone(size, _gossip(size, experiment), experiment) for size in sizes)
    if experiment.protocol == "camcast":
        steps = _climb(experiment)
        inside = math.prod(_everyone(step.size, step.gossip, experiment) for step in steps)
        return inside * steps[-1].arrives
    flood = _across if experiment.protocol == "hierarchical" else _gossip
    return _everyone(sum(sizes), flood(sum(experiment.sizes), experiment), experiment)


Fields = dict[str, Any]
"""Of the result of one community, what differs from that of one which nothing comes to."""


def _run(experiment: Experiment) -> list[CommunityResult]:
    living = _living(experiment)
    found = []
    for level, own in enumerate(PROTOCOLS[experiment.protocol](living)):
        alive = _alive(living.sizes[level], living)
        # Below the published topic nobody is interested, and nothing comes.
        fields: Fields = {"alive": alive, "reached": None, "everyone": None, "messages_inside": 0.0}
        fields |= {"messages_upward": 0.0, "parasites": 0.0, **own}
        size = experiment.sizes[level]
        found.append(CommunityResult(repetition=0, community=level, processes=size, **fields))
    return found


def _living(experiment: Experiment) -> Experiment:
    """Where tables hold the living alone, these are the whole system."""
    if experiment.failure != "repaired":
        return experiment
    return replace(experiment, sizes=experiment.living, failed=0.0, failure="stillborn")


@dataclass(frozen=True, slots=True)
class _Gossip:
    """What gossip does in a group that has the event."""

    share: float
    """The share of the live processes that are reached."""
    missed: float
    """The probability that one of them is not, where nearly all are."""
    sent: float
    """Messages that one who is reached sends."""


def _gossip(group: int, experiment: Experiment, seeds: float = 1.0) -> _Gossip:
    """Gossip in a group in which `seeds` processes have the event to begin with."""
    fanout = experiment.fanout(group)
    sent = fanout * _visible(experiment)
    others = max(0.0, _alive(group, experiment) - 1)
    begun = seeds / group
    missed = missed_probability(group, others, sent, 1 - experiment.loss) * math.exp(-begun)
    return _Gossip(
        final_size(fanout * _success(experiment), begun) if group > 1 else 1.0,
        missed if group > 1 else 0.0,
        sent,
    )


def _everyone(size: int, gossip: _Gossip, experiment: Experiment) -> float:
    """The probability that nobody of `size` processes, the live among them, is missed."""
    return math.exp(-_alive(size, experiment) * gossip.missed)


@dataclass(frozen=True, slots=True)
class _Step:
    """One community on an event's way up."""

    size: int
    arrives: float
    """The probability that the event gets here."""
    gossip: _Gossip
    """What it does here then."""


def _climb(experiment: Experiment) -> list[_Step]:
    """The communities from the publisher's up to the root."""
    arrives, seeds = 1.0, 1.0
    steps = []
    for size in experiment.sizes[experiment.publish_level :]:
        gossip = _gossip(size, experiment, seeds)
        steps.append(_Step(size, arrives, gossip))
        community = _community(size, experiment)
        # The formula is for the processes reached: the crashed send nothing upward.
        live = _alive(size, experiment) * gossip.share
        reached = max(1, round(live))
        sending = replace(community, processes=reached, g=community.p_sel * reached)
        passing = drawn_passing_probability(sending)
        arrives *= passing
        # The super-community has that many copies, if it has any.
        received = live * community.p_sel * experiment.a * _success(experiment)
        seeds = max(1.0, received / passing) if passing else 1.0
    return steps


def _camcast(experiment: Experiment) -> list[Fields]:
    last = len(experiment.sizes) - 1
    found: list[Fields] = [
        {"table_entries": camcast_memory(_community(size, experiment), root=level == last)}
        for level, size in enumerate(experiment.sizes)
    ]
    for level, step in enumerate(_climb(experiment), experiment.publish_level):
        reached = _alive(step.size, experiment) * step.arrives * step.gossip.share
        climbed = experiment.sizes[experiment.publish_level : level + 1]
        p_sel = _community(step.size, experiment).p_sel
        upward = reached * p_sel * experiment.a * _visible(experiment)
        found[level] |= {
            "reached": reached,
            "everyone": step.arrives * _everyone(step.size, step.gossip, experiment),
            "messages_inside": reached * step.gossip.sent,
            "messages_upward": 0.0 if level == last else upward,
            "rounds": camcast_average_latency(climbed) if min(climbed) >= SMALLEST else None,
        }
    return found


def _multicast(experiment: Experiment) -> list[Fields]:
    hierarchy = tuple(_community(size, experiment) for size in experiment.sizes)
    found: list[Fields] = []
    for level, size in enumerate(experiment.sizes):
        found.append({"table_entries": multicast_memory(hierarchy, level)})
        if level >= experiment.publish_level:
            gossip = _gossip(size, experiment)
            reached = _alive(size, experiment) * gossip.share
            found[level] |= {
                "reached": reached,
                "everyone": _everyone(size, gossip, experiment),
                "messages_inside": reached * gossip.sent,
                "rounds": group_latency([size]) if size >= SMALLEST else None,
            }
    return found


def _broadcast(experiment: Experiment) -> list[Fields]:
    processes, interested = _interest(experiment)
    heard = broadcast_parasites(processes, interested, experiment.c, _success(experiment))
    return _flood(
        experiment,
        _gossip(processes, experiment),
        parasites=heard * _alive_share(experiment),
        rounds=broadcast_latency(experiment.sizes) if processes >= SMALLEST else None,
        entries=broadcast_memory(processes, experiment.c),
    )


def _hierarchical(experiment: Experiment) -> list[Fields]:
    processes, interested = _interest(experiment)
    clusters, within = _clusters(processes)
    c = experiment.c
    heard = hierarchical_parasites(
        clusters, within, min(interested, clusters * within), c, c, _success(experiment)
    )
    return _flood(
        experiment,
        _across(processes, experiment),
        parasites=heard * _alive_share(experiment),
        rounds=group_latency([within]) if within >= SMALLEST else None,
        entries=hierarchical_memory(clusters, within, c, c),
    )


def _across(processes: int, experiment: Experiment) -> _Gossip:
    """Gossip in the clusters and between them: everyone sends to members of other clusters, too."""
    clusters, within = _clusters(processes)
    inside = _gossip(within, experiment)
    fanout = math.floor(math.log(clusters) + experiment.c)
    return _Gossip(
        1 - (1 - inside.share) * math.exp(-fanout * _success(experiment)),
        inside.missed * math.exp(-fanout * _success(experiment)),
        inside.sent + fanout * _visible(experiment),
    )


def _flood(
    experiment: Experiment,
    gossip: _Gossip,
    *,
    parasites: float,
    rounds: float | None,
    entries: float,
) -> list[Fields]:
    """An event that goes to everyone, interested or not. `parasites`: of all communities together."""
    processes, interested = _interest(experiment)
    found: list[Fields] = []
    for level, size in enumerate(experiment.sizes):
        reached = _alive(size, experiment) * gossip.share
        found.append({"messages_inside": reached * gossip.sent, "rounds": rounds})
        found[level]["table_entries"] = entries
        if level < experiment.publish_level:
            found[level]["parasites"] = parasites * size / max(1, processes - interested)
        else:
            everyone = _everyone(size, gossip, experiment)
            found[level] |= {"reached": reached, "everyone": everyone}
    return found


def _pmcast(experiment: Experiment) -> list[Fields]:
    """Rounds, contacts, and those who handle the event as delegates alone; no formula of the rest."""
    processes, interested = _interest(experiment)
    tree = assumed_tree(processes)
    share = interested / processes
    outside = pmcast_uninterested(tree, share) / max(1, processes - interested)
    return [
        {
            "messages_inside": None,
            "messages_upward": None,
            "parasites": outside * size if level < experiment.publish_level else 0.0,
            "rounds": pmcast_rounds(tree, share, _success(experiment)),
            "table_entries": float(pmcast_memory(tree)),
        }
        for level, size in enumerate(experiment.sizes)
    ]


PROTOCOLS: dict[str, Callable[[Experiment], list[Fields]]] = {
    "camcast": _camcast,
    "broadcast": _broadcast,
    "multicast": _multicast,
    "hierarchical": _hierarchical,
    "pmcast": _pmcast,
}


def _clusters(processes: int) -> tuple[int, int]:
    """How many clusters there are, and how many processes are in each."""
    clusters = min(CLUSTERS, processes)
    return clusters, max(1, processes // clusters)


def _interest(experiment: Experiment) -> tuple[int, int]:
    """All processes, and those that the event's topic or a super-topic of it concerns."""
    return sum(experiment.sizes), sum(experiment.sizes[experiment.publish_level :])


def _community(size: int, experiment: Experiment) -> ModelCommunity:
    g = experiment.p_sel * size if experiment.p_sel is not None else min(experiment.g, size)
    return ModelCommunity(size, experiment.c, g, experiment.a, experiment.z, _success(experiment))


def _success(experiment: Experiment) -> float:
    """A message to an entry of a table arrives: not lost, and its target not down or taken to be."""
    return (1 - experiment.loss) * (1 - experiment.failed)


def _visible(experiment: Experiment) -> float:
    """The share of a table that is sent to: who is taken to be down is not, who has crashed unseen is."""
    return 1 - experiment.failed if experiment.failure == "weak" else 1.0


def _alive_share(experiment: Experiment) -> float:
    return 1 - experiment.failed if experiment.failure == "stillborn" else 1.0


def _alive(size: int, experiment: Experiment) -> float:
    return size * _alive_share(experiment)
