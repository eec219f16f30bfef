"""The replayed tier: thousands of events over the real tables of a network that was booted anyway.

To boot a network of real nodes costs seconds, and an event on it a tenth of one; the tables are what differs
between networks and modes. So the topic and super-topic tables of every node, its estimate of its
community's size, and who is down are taken as they are, and the paper's rule runs over them, compiled. What
is left is the variance between networks. Emulated events of the same networks are the cross-check: the
report shows both.

What it leaves out: time (hops are synchronous rounds), tables that change during an event, and whatever lies
below a message but loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.experiment import Experiment
from bench.populations.hierarchy import parameters
from bench.results import WHOLE, Measured
from bench.simulate.randomness import derived
from bench.simulate.replay_round import (
    COLUMNS,
    LAST_ROUND,
    REACHED,
    RECEIVED,
    SENT_INSIDE,
    SENT_UPWARD,
    StoredTables,
    replay_events,
)
from pubsub import Parameters


@dataclass(frozen=True, slots=True)
class ReplayedMember:
    """What one live process knows; contacts by their addresses."""

    id: str
    address: str
    size: float
    """How many members it believes its community to have."""
    table: tuple[str, ...]
    supers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The live processes of each community, bottom first; a contact that is not one of them is down."""

    communities: tuple[tuple[ReplayedMember, ...], ...]

    def numbered(self, c: float, setting: Parameters, p_sel: float | None) -> StoredTables:
        """The tables as the kernel takes them; a process sends to floor(ln N + c)."""
        members = [member for community in self.communities for member in community]
        numbers = {member.address: number for number, member in enumerate(members)}
        tables = [[numbers.get(other, -1) for other in member.table] for member in members]
        supers = [[numbers.get(other, -1) for other in member.supers] for member in members]
        starts, entries = _flat(tables)
        super_starts, super_entries = _flat(supers)
        sizes = [max(member.size, 1.0) for member in members]
        sure = [p_sel is None and setting.is_very_small(size) for size in sizes]
        chances = [setting.p_sel(size) if p_sel is None else p_sel for size in sizes]
        levels = np.repeat(np.arange(len(self.communities)), [len(own) for own in self.communities])
        fanouts = [max(0, math.floor(math.log(size) + c)) for size in sizes]
        return StoredTables(
            levels.astype(np.int64),
            starts,
            entries,
            super_starts,
            super_entries,
            np.array(fanouts, np.int64),
            np.array(chances, np.float64),
            np.array(sure, np.bool_),
        )

    def uniformity(self) -> float | None:
        """How unevenly the members of the largest community are held in topic tables, against uniform draws.

        The variance of the number of tables that a member is in, over that of tables of the same sizes drawn
        uniformly: 1 is uniform, below 1 more even, above 1 less.
        """
        community = max(self.communities, key=len)
        numbers = {member.address: number for number, member in enumerate(community)}
        held = np.zeros(len(community))
        expected = 0.0
        for member in community:
            own = [numbers[other] for other in member.table if other in numbers]
            held[own] += 1
            share = len(own) / max(1, len(community) - 1)
            expected += share * (1 - share)
        expected *= (len(community) - 1) / max(1, len(community))
        return float(held.var()) / expected if expected else None


def _flat(tables: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts = np.zeros(len(tables) + 1, np.int64)
    np.cumsum([len(table) for table in tables], out=starts[1:])
    flat = [entry for table in tables for entry in table]
    return starts, np.array(flat, np.int64)


def replay(point: Experiment, snapshot: Snapshot) -> list[Measured]:
    """The means of `point.replays` events in each community, and in all together."""
    counts = run_events(point, snapshot)
    alive = np.array([len(community) for community in snapshot.communities])
    found = [
        _community(point, level, counts, int(alive[level])) for level in range(len(point.sizes))
    ]
    entries = [
        np.array([len(member.table) + len(member.supers) for member in community], np.float64)
        for community in snapshot.communities
    ]
    for level, own in enumerate(entries):
        metrics = dict(found[level].metrics)
        if len(own):
            metrics |= {"table_entries": own.mean(), "largest_table": own.max()}
            metrics["table_deviation"] = own.std()
        found[level] = Measured(_plain(metrics), level, point.replays)
    return [*found, _together(point, counts, alive, entries)]


def run_events(point: Experiment, snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """The counts of each event, community and column of the kernel."""
    setting = parameters(point)
    tables = snapshot.numbered(point.c, setting, point.p_sel)
    sizes = [len(community) for community in snapshot.communities]
    first = sum(sizes[: point.publish_level])
    generator = np.random.default_rng(derived(point.seed, point.network, 1))
    publishers = generator.integers(first, first + sizes[point.publish_level], point.replays)
    counts = np.zeros((point.replays, len(sizes), COLUMNS), np.int64)
    key = np.uint64(derived(point.seed, point.network, 2))
    replay_events(tables, publishers, point.a / point.z, point.loss, key, counts)
    return counts


def _community(
    point: Experiment, level: int, counts: npt.NDArray[np.int64], alive: int
) -> Measured:
    own = counts[:, level]
    reached, rounds = own[:, REACHED], own[:, LAST_ROUND]
    metrics = {
        "messages_inside": own[:, SENT_INSIDE].mean(),
        "messages_upward": own[:, SENT_UPWARD].mean(),
        "climbing": (own[:, SENT_UPWARD] > 0).mean(),
    }
    if level >= point.publish_level and alive:
        metrics |= {"reception": reached.mean() / alive, "reliability": (reached == alive).mean()}
        metrics |= _rounds(rounds, reached == alive)
        metrics |= _efficiency(reached - (level == point.publish_level), own[:, RECEIVED])
    return Measured(metrics, level, point.replays)


def _together(
    point: Experiment,
    counts: npt.NDArray[np.int64],
    alive: npt.NDArray[np.int64],
    entries: Sequence[npt.NDArray[np.float64]],
) -> Measured:
    wanting = slice(point.publish_level, None)
    reached = counts[:, wanting, REACHED]
    complete = (reached == alive[wanting]).all(axis=1)
    metrics = {
        "reception": (reached.sum(axis=1) / alive[wanting].sum()).mean(),
        "reliability": complete.mean(),
        "messages_inside": counts[:, :, SENT_INSIDE].sum(axis=1).mean(),
        "messages_upward": counts[:, :, SENT_UPWARD].sum(axis=1).mean(),
        "climbing": (counts[:, :, SENT_UPWARD].sum(axis=1) > 0).mean(),
        **_rounds(counts[:, :, LAST_ROUND].max(axis=1), complete),
        **_efficiency(reached.sum(axis=1) - 1, counts[:, :, RECEIVED].sum(axis=1)),
        "table_entries": np.concatenate(entries).mean(),
        "largest_table": max(own.max(initial=0.0) for own in entries),
    }
    return Measured(_plain(metrics), WHOLE, point.replays)


def _rounds(rounds: npt.NDArray[np.int64], complete: npt.NDArray[np.bool_]) -> dict[str, float]:
    found = {}
    if (rounds >= 0).any():
        found["rounds"] = rounds[rounds >= 0].mean()
    if complete.any():
        found["complete_rounds"] = rounds[complete].mean()
    return found


def _efficiency(useful: npt.NDArray[np.int64], received: npt.NDArray[np.int64]) -> dict[str, float]:
    known = received > 0
    return {"efficiency": (useful[known] / received[known]).mean()} if known.any() else {}


def _plain(metrics: dict[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}
