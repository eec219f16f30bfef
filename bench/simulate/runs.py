"""A whole dissemination, round after round, for each protocol.

A *round* carries the event one hop further: the publisher has it in round 0, and a process that receives it
in round r forwards it in round r + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.experiment import CLUSTERS, Experiment, ExperimentError
from bench.results import CommunityResult, Result
from bench.simulate.randomness import (
    CRASHES,
    PUBLISHER,
    SUPER_TABLES,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    chance32,
    chance64,
    derived,
    stream_keys,
)
from bench.simulate.rounds import (
    COLUMNS,
    CRASHED,
    INFECTED,
    REACHED,
    RECEIVED,
    SENT,
    climb,
    crash,
    deliver,
    drop,
    gossip,
    gossip_among_all,
)
from bench.simulate.tables import LANES, draw_row, further_entries, topic_tables

SIMULATED = ("camcast", "broadcast", "multicast", "hierarchical")
"""The protocols that there are rounds of: CAMCAST, and the alternatives (a), (b) and (c) of section 4.2."""
MOST_PROCESSES = 1 << 31
MOST_COMMUNITIES = 60

# One event through communities that gossip apart: CAMCAST, and multicast (alternative (b)).
#
# Section 3.5 of the paper, in synchronous rounds. In multicast nothing climbs; the publisher holds a
# table of every community concerned and starts the gossip in each.


class CommunityRun:
    """One community during a run."""

    def __init__(
        self, experiment: Experiment, sizes: tuple[int, ...], level: int, seed: int
    ) -> None:
        size = sizes[level]
        self.experiment = experiment
        self.sizes = sizes
        self.level = level
        self.keys = stream_keys(seed, level)
        self.state = np.empty(size + 1, np.uint8)
        self.queue = np.empty(size + 1, np.uint32)
        self.tables = topic_tables(experiment, [size], level, seed)
        own = self.tables.fanouts
        self.fanout = int(own.max()) if len(own) else experiment.fanout(size)
        self.block = np.zeros((max(self.fanout, experiment.z, 1), LANES), np.uint32)
        self.words = np.zeros(3 * LANES, np.uint64)
        self.loss = chance32(experiment.loss)
        self.suspicion = chance32(_failed(experiment, "weak"))
        self.link_chance = chance64(link_probability(experiment, size))
        self.entry_chance = chance32(experiment.a / experiment.z)
        crashes = chance64(_failed(experiment, "stillborn"))
        self.alive = crash(self.state, self.keys[CRASHES], crashes)
        self.head = self.end = self.tail = 0
        self.infections: list[int] = []
        self.sent = self.sent_upward = self.received = 0
        self.publisher = -1

    def publish(self) -> None:
        """Draw a publisher, who is alive whatever fails, and give it the event."""
        size = len(self.state) - 1
        draw_row(self.block, 0, 1, self.keys[PUBLISHER], 0, 0, size, size)
        self.publisher = int(self.block[0, 0])
        self.alive += int(self.state[self.publisher] == CRASHED)
        self.state[self.publisher] = REACHED
        self.queue[0] = self.publisher
        self.tail = 1

    def begin_round(self) -> int:
        """Note who was reached in the last round, to forward in this one; how many."""
        self.head, self.end = self.end, self.tail
        self.infections.append(self.end - self.head)
        return self.end - self.head

    def gossip(self) -> None:
        """Forward inside the community."""
        if self.head == self.end:
            return
        self.tail, sent, received = gossip(
            self.state,
            self.queue,
            self.head,
            self.end,
            self.tail,
            self.fanout,
            self.keys,
            self.loss,
            self.suspicion,
            self.block,
            self.words,
            self.tables,
        )
        self.sent += sent
        self.received += received

    def climb(self, above: CommunityRun) -> None:
        """Forward to the super-community."""
        if self.head == self.end:
            return
        above.tail, sent, received = climb(
            self.queue,
            self.head,
            self.end,
            above.state,
            above.queue,
            above.tail,
            self.experiment.z,
            self.keys,
            self.link_chance,
            self.entry_chance,
            self.loss,
            self.suspicion,
            self.block,
        )
        self.sent_upward += sent
        above.received += received

    def start_from_outside(self, publisher: int) -> None:
        """Get the event from a publisher of another community, who has a table of this one."""
        size = len(self.state) - 1
        sender = np.array([publisher], np.uint32)
        key = self.keys[SUPER_TABLES]
        count = draw_row(self.block, 0, self.fanout, key, publisher, 0, size, size)
        doubt, lost = self.keys[UPWARD_SUSPICIONS], self.keys[UPWARD_LOSSES]
        self.sent += drop(self.block, sender, count, size, doubt, self.suspicion)
        drop(self.block, sender, count, size, lost, self.loss)
        self.tail, arrived = deliver(self.block, 1, count, self.state, self.queue, self.tail)
        self.received += arrived

    def result(self, repetition: int) -> CommunityResult:
        """What happened here."""
        size = self.sizes[self.level]
        further = further_entries(self.experiment, self.sizes, self.level)
        return _result(
            self.experiment,
            repetition,
            self.level,
            alive=self.alive,
            infections=self.infections,
            sent=self.sent,
            sent_upward=self.sent_upward,
            received=self.received,
            table_entries=(self.tables.entries(size, self.fanout) + size * further) / size,
            largest_table=self.tables.largest(self.fanout) + further,
        )


def run_communities(
    experiment: Experiment, sizes: tuple[int, ...], seed: int
) -> list[CommunityRun]:
    """Run one event to its end; communities below the publisher's see nothing of it."""
    runs = [CommunityRun(experiment, sizes, level, seed) for level in range(len(sizes))]
    concerned = runs[experiment.publish_level :]
    concerned[0].publish()
    first = True
    while sum([run.begin_round() for run in concerned]):
        for run, above in zip(concerned, [*concerned[1:], None], strict=True):
            run.gossip()
            if above is None:
                continue
            if experiment.protocol == "camcast":
                run.climb(above)
            elif first:
                above.start_from_outside(concerned[0].publisher)
        first = False
    return runs


# One event to everyone, whatever they are interested in: broadcast and hierarchical broadcast.
#
# Alternatives (a) and (c) of section 4.2 of the paper. Who is interested in what has nothing to do with
# where a process stands, so interests are dealt out at random.


class ClusterRun:
    """All processes during a run: one group, or clusters, each process gossiping in its own and to others."""

    def __init__(self, experiment: Experiment, sizes: tuple[int, ...], seed: int) -> None:
        self.experiment = experiment
        self.sizes = sizes
        self.total = sum(sizes)
        hierarchical = experiment.protocol == "hierarchical"
        self.clusters = min(CLUSTERS, self.total) if hierarchical else 1
        self.keys = stream_keys(seed, 0)
        self.fanouts = _fanouts(experiment, self.total, self.clusters)
        groups = cluster_sizes(self.total, self.clusters)
        self.tables = topic_tables(experiment, groups, len(sizes), seed)
        if len(self.tables.fanouts):
            self.fanouts[:2] = int(self.tables.fanouts.max())
        self.state = np.empty(self.total + 1, np.uint8)
        self.queue = np.empty(self.total + 1, np.uint32)
        self.block = np.zeros((max(1, *self.fanouts), LANES), np.uint32)
        self.tally = np.zeros((len(sizes), COLUMNS), np.int64)
        self.alive = self._publish(_interests(sizes, seed))

    def _publish(self, labels: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Crash processes and give the event to one that is interested and alive; the live, by level."""
        crash(self.state, self.keys[CRASHES], chance64(_failed(self.experiment, "stillborn")))
        level = self.experiment.publish_level
        members = np.flatnonzero(labels == level)
        publisher = members[int(self.keys[PUBLISHER]) % len(members)]
        self.state[publisher] = REACHED
        self.queue[0] = publisher
        self.tally[level, INFECTED] = 1
        alive = np.bincount(labels[self.state[:-1] > 0], minlength=len(self.tally))
        self.state[:-1] |= labels << 2
        return alive

    def spread(self) -> list[npt.NDArray[np.int64]]:
        """Run the event to its end: how many were reached by the end of each round, by level."""
        reached = []
        head, end = 0, 1
        while head < end:
            reached.append(self.tally[:, INFECTED].copy())
            tail = gossip_among_all(
                self.state,
                self.queue,
                head,
                end,
                end,
                self.clusters,
                self.fanouts,
                self.keys,
                chance32(self.experiment.loss),
                chance32(_failed(self.experiment, "weak")),
                self.block,
                self.tables,
                self.tally,
            )
            head, end = end, tail
        return reached

    def results(self, repetition: int) -> list[CommunityResult]:
        """Run the event to its end; what happened to the processes of each interest."""
        infections = np.diff(self.spread(), axis=0, prepend=0)
        inside, larger, across = self.fanouts.tolist()
        entries = self.tables.entries(self.total, inside) + self.total * across
        largest = self.tables.largest(larger if self.total % self.clusters else inside) + across
        return [
            _result(
                self.experiment,
                repetition,
                level,
                alive=int(self.alive[level]),
                infections=infections[:, level].tolist(),
                sent=int(self.tally[level, SENT]),
                sent_upward=0,
                received=int(self.tally[level, RECEIVED]),
                table_entries=round(entries * size / self.total) / size,
                largest_table=largest,
            )
            for level, size in enumerate(self.sizes)
        ]


def cluster_sizes(total: int, clusters: int) -> list[int]:
    """Equal parts, the first ones larger by one process where they do not come out even."""
    small, larger = divmod(total, clusters)
    return [small + 1] * larger + [small] * (clusters - larger)


def _fanouts(experiment: Experiment, total: int, clusters: int) -> npt.NDArray[np.int64]:
    """Inside a cluster of the smaller size, inside one of the larger, and across."""
    small = total // clusters
    across = math.floor(math.log(clusters) + experiment.c) if clusters > 1 else 0
    inside = experiment.fanout(small), experiment.fanout(small + 1)
    return np.array([*inside, max(0, min(across, total - small - 1))], np.int64)


def _interests(sizes: tuple[int, ...], seed: int) -> npt.NDArray[np.uint8]:
    """The level that each process is interested in, dealt out at random."""
    labels = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
    np.random.default_rng(derived(seed, 0)).shuffle(labels)
    return labels


# The way in, and what both kinds of run read from the experiment and answer.


def simulate(experiment: Experiment, repetition: int = 0) -> list[CommunityResult]:
    """Publish one event and follow it to its end, over tables of this repetition's own; by community.

    The result follows from the experiment and the number of the repetition alone, on any machine and any
    number of threads.
    """
    _check(experiment)
    # Once tables are repaired, those that are down are in none of them.
    sizes = experiment.living if experiment.failure == "repaired" else experiment.sizes
    seed = derived(experiment.seed, repetition)
    if experiment.protocol in ("camcast", "multicast"):
        return [run.result(repetition) for run in run_communities(experiment, sizes, seed)]
    return ClusterRun(experiment, sizes, seed).results(repetition)


def link_probability(experiment: Experiment, processes: int) -> float:
    """p_sel of a community of this many processes."""
    return min(1.0, experiment.g / processes) if experiment.p_sel is None else experiment.p_sel


def _check(experiment: Experiment) -> None:
    if experiment.protocol not in SIMULATED:
        raise ExperimentError(
            f"the simulator has the protocols {', '.join(SIMULATED)}, not {experiment.protocol}"
        )
    sizes = experiment.sizes
    if len(sizes) > MOST_COMMUNITIES or sum(sizes) >= MOST_PROCESSES:
        raise ExperimentError(
            f"sizes to simulate are of at most {MOST_COMMUNITIES} communities and {MOST_PROCESSES} "
            f"processes, not {len(sizes)} and {sum(sizes)}"
        )


def _failed(experiment: Experiment, failure: str) -> float:
    """The share that fails in this way."""
    return experiment.failed if experiment.failure == failure else 0.0


def _result(
    experiment: Experiment,
    repetition: int,
    level: int,
    *,
    alive: int,
    infections: Sequence[int],
    sent: int,
    sent_upward: int,
    received: int,
    table_entries: float,
    largest_table: int,
) -> CommunityResult:
    """What happened in a community, of its first receptions by round and its counts of messages."""
    wanted = level >= experiment.publish_level
    reached = sum(infections)
    useful = reached - (level == experiment.publish_level)  # the publisher has received nothing
    rounds = [number for number, new in enumerate(infections) if new]
    return CommunityResult(
        repetition=repetition,
        community=level,
        processes=experiment.sizes[level],
        alive=alive,
        reached=reached if wanted else None,
        everyone=float(reached == alive) if wanted and alive else None,
        messages_inside=sent,
        messages_upward=sent_upward,
        useful=useful,
        duplicates=received - useful,
        parasites=0 if wanted else received,
        rounds=rounds[-1] if wanted and rounds else None,
        table_entries=table_entries,
        largest_table=largest_table,
    )


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Simulate every repetition of each point; the same seed gives the same result on any machine."""
    return [(point, _run(point)) for point in experiment.points()]


def _run(point: Experiment) -> list[Result]:
    repetitions = range(point.repetitions)
    return [result for repetition in repetitions for result in simulate(point, repetition)]


def compile_kernels() -> None:
    """Compile what simulated and replayed events run, and keep it for the processes that come later."""
    from bench.simulate.replay import ReplayedMember, Snapshot, replay

    tiny: dict[str, Any] = {"suite": "", "figure": "", "sizes": (20, 10, 5)}
    for protocol in SIMULATED:
        for mode in ("uniform", "unstructured"):
            run(Experiment(tier="simulate", protocol=protocol, mode=mode, **tiny))
    pair = tuple(ReplayedMember(name, name, 2.0, ("b", "a"), ()) for name in ("a", "b"))
    point = Experiment(tier="replay", mode="structured", replays=1, **tiny | {"sizes": (2,)})
    replay(point, Snapshot((pair,)))
