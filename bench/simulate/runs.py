"""A whole dissemination, round after round, for each protocol; and many of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

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
from bench.simulate.simulation import (
    CommunityResult,
    Protocol,
    SimulationResult,
    SimulationSettings,
    trimmed,
)
from bench.simulate.tables import LANES, draw_row, further_entries, topic_tables
from overlay.errors import UsageError

# One event through communities that gossip apart: CAMCAST, and multicast (alternative (b)).
#
# Section 3.5 of the paper, in synchronous rounds. In multicast nothing climbs; the publisher holds a
# table of every community concerned and starts the gossip in each.


class CommunityRun:
    """One community during a run."""

    def __init__(self, settings: SimulationSettings, level: int) -> None:
        size = settings.community_sizes[level]
        self.settings = settings
        self.level = level
        self.keys = stream_keys(settings.seed, settings.tables_from, level)
        self.state = np.empty(size + 1, np.uint8)
        self.queue = np.empty(size + 1, np.uint32)
        self.tables = topic_tables(settings, [size], level)
        own = self.tables.fanouts
        self.fanout = int(own.max()) if len(own) else settings.fanout(size)
        self.block = np.zeros((max(self.fanout, settings.z, 1), LANES), np.uint32)
        self.words = np.zeros(3 * LANES, np.uint64)
        self.loss = chance32(settings.loss)
        self.suspicion = chance32(settings.suspicion)
        self.link_chance = chance64(settings.link_probability(size))
        self.entry_chance = chance32(settings.a / settings.z)
        self.alive = crash(self.state, self.keys[CRASHES], chance64(settings.stillborn))
        self.head = self.end = self.tail = 0
        self.infections: list[int] = []
        self.sent = self.sent_upward = self.received = self.from_below = 0
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
            self.settings.z,
            self.keys,
            self.link_chance,
            self.entry_chance,
            self.loss,
            self.suspicion,
            self.block,
        )
        self.sent_upward += sent
        above.received += received
        above.from_below += received

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

    def result(self) -> CommunityResult:
        """What happened here."""
        settings, level = self.settings, self.level
        size = settings.community_sizes[level]
        own, further = self.tables.entries(size, self.fanout), further_entries(settings, level)
        return CommunityResult(
            level=level,
            processes=size,
            alive=self.alive,
            interested=level >= settings.publish_level,
            infections=trimmed(self.infections),
            sent_inside=self.sent,
            sent_upward=self.sent_upward,
            received=self.received,
            received_from_below=self.from_below,
            published_here=self.publisher >= 0,
            table_entries=own + size * further,
            largest_tables=self.tables.largest(self.fanout) + further,
        )


def run_communities(settings: SimulationSettings) -> list[CommunityResult]:
    """Run one event to its end; communities below the publisher's see nothing of it."""
    runs = [CommunityRun(settings, level) for level in range(len(settings.community_sizes))]
    concerned = runs[settings.publish_level :]
    concerned[0].publish()
    first = True
    while sum([run.begin_round() for run in concerned]):
        for run, above in zip(concerned, [*concerned[1:], None], strict=True):
            run.gossip()
            if above is None:
                continue
            if settings.protocol is Protocol.CAMCAST:
                run.climb(above)
            elif first:
                above.start_from_outside(concerned[0].publisher)
        first = False
    return [run.result() for run in runs]


# One event to everyone, whatever they are interested in: broadcast and hierarchical broadcast.
#
# Alternatives (a) and (c) of section 4.2 of the paper. Who is interested in what has nothing to do with
# where a process stands, so interests are dealt out at random.


class ClusterRun:
    """All processes during a run."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        self.total = sum(settings.community_sizes)
        self.clusters = settings.clusters if settings.protocol is Protocol.HIERARCHICAL else 1
        self.keys = stream_keys(settings.seed, settings.tables_from, 0)
        self.fanouts = _fanouts(settings, self.total, self.clusters)
        sizes = cluster_sizes(self.total, self.clusters)
        self.tables = topic_tables(settings, sizes, len(settings.community_sizes))
        if len(self.tables.fanouts):
            self.fanouts[:2] = int(self.tables.fanouts.max())
        self.state = np.empty(self.total + 1, np.uint8)
        self.queue = np.empty(self.total + 1, np.uint32)
        self.block = np.zeros((max(1, *self.fanouts), LANES), np.uint32)
        self.tally = np.zeros((len(settings.community_sizes), COLUMNS), np.int64)
        self.alive = self._publish()

    def _publish(self) -> npt.NDArray[np.int64]:
        """Crash processes and give the event to one that is interested and alive; the live, by level."""
        labels = _interests(self.settings)
        crash(self.state, self.keys[CRASHES], chance64(self.settings.stillborn))
        members = np.flatnonzero(labels == self.settings.publish_level)
        publisher = members[int(self.keys[PUBLISHER]) % len(members)]
        self.state[publisher] = REACHED
        self.queue[0] = publisher
        self.tally[self.settings.publish_level, INFECTED] = 1
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
                chance32(self.settings.loss),
                chance32(self.settings.suspicion),
                self.block,
                self.tables,
                self.tally,
            )
            head, end = end, tail
        return reached


def run_clusters(settings: SimulationSettings) -> list[CommunityResult]:
    """Run one event to its end."""
    run = ClusterRun(settings)
    infections = np.diff(run.spread(), axis=0, prepend=0)
    inside, larger, across = run.fanouts.tolist()
    entries = run.tables.entries(run.total, inside) + run.total * across
    return [
        CommunityResult(
            level=level,
            processes=size,
            alive=int(run.alive[level]),
            interested=level >= settings.publish_level,
            infections=trimmed(infections[:, level].tolist()),
            sent_inside=int(run.tally[level, SENT]),
            sent_upward=0,
            received=int(run.tally[level, RECEIVED]),
            received_from_below=0,
            published_here=level == settings.publish_level,
            table_entries=round(entries * size / run.total),
            largest_tables=run.tables.largest(larger if run.total % run.clusters else inside)
            + across,
        )
        for level, size in enumerate(settings.community_sizes)
    ]


def cluster_sizes(total: int, clusters: int) -> list[int]:
    """Equal parts, the first ones larger by one process where they do not come out even."""
    small, larger = divmod(total, clusters)
    return [small + 1] * larger + [small] * (clusters - larger)


def _fanouts(settings: SimulationSettings, total: int, clusters: int) -> npt.NDArray[np.int64]:
    """Inside a cluster of the smaller size, inside one of the larger, and across."""
    small = total // clusters
    across = math.floor(math.log(clusters) + settings.c) if clusters > 1 else 0
    inside = settings.fanout(small), settings.fanout(small + 1)
    return np.array([*inside, max(0, min(across, total - small - 1))], np.int64)


def _interests(settings: SimulationSettings) -> npt.NDArray[np.uint8]:
    """The level that each process is interested in, dealt out at random."""
    levels = np.arange(len(settings.community_sizes), dtype=np.uint8)
    labels = np.repeat(levels, settings.community_sizes)
    np.random.default_rng(derived(settings.tables_from, 0)).shuffle(labels)
    return labels


# The way in: simulate one event, or many repetitions of one.


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
