"""One event to everyone, whatever they are interested in: broadcast and hierarchical broadcast.

Alternatives (a) and (c) of section 4.2 of the paper. Who is interested in what has nothing to do with
where a process stands, so interests are dealt out at random.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bench.simulate.cluster_round import COLUMNS, INFECTED, RECEIVED, SENT, gossip_among_all
from bench.simulate.outbox import REACHED, crash
from bench.simulate.randomness import (
    CRASHES,
    PUBLISHER,
    chance32,
    chance64,
    derived,
    stream_keys,
)
from bench.simulate.result import CommunityResult, trimmed
from bench.simulate.rows import LANES
from bench.simulate.settings import Protocol, SimulationSettings
from bench.simulate.tables import topic_tables


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
