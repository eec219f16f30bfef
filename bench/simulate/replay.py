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
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.experiment import Experiment
from bench.results import WHOLE, Measured
from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, HALF, derived, mixed, sequence
from bench.tiers.hierarchy import parameters
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


# The kernel: many events over the stored tables, by the rule of real nodes.
#
# Unlike the rounds of `bench.simulate.rounds`, everything comes from tables that somebody built: who is in
# whose topic table and super-topic table, how large each process believes its community to be, and who is
# down. Real nodes leave out of the draw whom an event came from and its publisher, and send an upward message
# to another super-process where the first one is down.

REACHED: Final = 0
SENT_INSIDE: Final = 1
SENT_UPWARD: Final = 2
RECEIVED: Final = 3
LAST_ROUND: Final = 4
COLUMNS: Final = 5
"""What is counted of each event in each community; LAST_ROUND is -1 where nobody was reached."""

_SCALE: Final = 1.0 / (1 << 32)


class StoredTables(NamedTuple):
    """A hierarchy's processes are numbered through, those of the bottom community first."""

    levels: npt.NDArray[np.int64]
    """The community of each process."""
    starts: npt.NDArray[np.int64]
    """Where each topic table starts in `entries`, and one end more."""
    entries: npt.NDArray[np.int64]
    """Topic tables one after the other; -1 for a process that is down."""
    super_starts: npt.NDArray[np.int64]
    super_entries: npt.NDArray[np.int64]
    """The same for the super-topic tables."""
    fanouts: npt.NDArray[np.int64]
    """How many members each process sends an event to: floor(ln N + c) by its own estimate of N."""
    link_chances: npt.NDArray[np.float64]
    """p_sel of each process."""
    sure: npt.NDArray[np.bool_]
    """Whether a process surely sends upward, to at least one: in a very small community."""


@compiled
def _uniform(at: np.uint64) -> float:
    return float(mixed(at) >> HALF) * _SCALE


@compiled
def replay_events(
    tables: StoredTables,
    publishers: npt.NDArray[np.int64],
    entry_chance: float,
    loss: float,
    key: np.uint64,
    counts: npt.NDArray[np.int64],
) -> None:
    """Follow an event of each publisher to its end; `counts` is filled: event, community, column.

    One long function: cut into one for each way of sending, it takes twice the time, and half as long again
    where numba is told to inline them."""
    total = tables.levels.size
    rounds = np.empty(total, np.int64)
    senders = np.empty(total, np.int64)
    queue = np.empty(total + 1, np.int64)
    longest = 1
    for process in range(total):
        longest = max(longest, tables.starts[process + 1] - tables.starts[process])
        longest = max(longest, tables.super_starts[process + 1] - tables.super_starts[process])
    room = np.empty(longest + 1, np.int64)
    for event in range(publishers.size):
        at = sequence(key, np.uint64(event))
        rounds[:] = -1
        publisher = publishers[event]
        rounds[publisher] = 0
        senders[publisher] = publisher
        queue[0] = publisher
        tail = 1
        head = 0
        count = counts[event]
        count[:, LAST_ROUND] = -1
        while head < tail:
            who = queue[head]
            head += 1
            level = tables.levels[who]
            count[level, REACHED] += 1
            count[level, LAST_ROUND] = rounds[who]
            # Inside the community. Whether a message is the first is a coin toss for the processor, so no
            # branch hangs on it: the next place of the queue is written in any case, and counts if it is.
            size = 0
            for place in range(tables.starts[who], tables.starts[who + 1]):
                target = tables.entries[place]
                room[size] = target
                size += int(target != publisher and target != senders[who])
            chosen = min(tables.fanouts[who], size)
            count[level, SENT_INSIDE] += chosen
            received = 0
            following = rounds[who] + 1
            for entry in range(chosen):
                at += GOLDEN
                other = entry + int(_uniform(at) * (size - entry))
                target = room[other]
                room[other] = room[entry]
                if target < 0 or (loss > 0 and _uniform(at ^ GOLDEN) < loss):
                    continue
                received += 1
                known = rounds[target]
                is_new = known < 0
                rounds[target] = following if is_new else known
                senders[target] = who if is_new else senders[target]
                queue[tail] = target
                tail += int(is_new)
            count[level, RECEIVED] += received
            # Upward.
            first = tables.super_starts[who]
            size = tables.super_starts[who + 1] - first
            at += GOLDEN
            if size == 0 or not (tables.sure[who] or _uniform(at) < tables.link_chances[who]):
                continue
            chosen = 0
            for entry in range(size):
                at += GOLDEN
                room[entry] = tables.super_entries[first + entry]
                if _uniform(at) < entry_chance:
                    room[entry], room[chosen] = room[chosen], room[entry]
                    chosen += 1
            if chosen == 0 and tables.sure[who]:
                at += GOLDEN
                other = int(_uniform(at) * size)
                room[0], room[other] = room[other], room[0]
                chosen = 1
            used = chosen
            for entry in range(chosen):
                at += GOLDEN
                count[level, SENT_UPWARD] += 1
                while room[entry] < 0 and used < size:
                    at += GOLDEN
                    other = used + int(_uniform(at) * (size - used))
                    room[entry] = room[other]
                    room[other] = room[used]
                    used += 1
                    count[level, SENT_UPWARD] += 1
                tail = _arrive(
                    room[entry], who, rounds, senders, queue, tail, loss, at, count, level + 1
                )


@compiled
def _arrive(
    target: int,
    sender: int,
    rounds: npt.NDArray[np.int64],
    senders: npt.NDArray[np.int64],
    queue: npt.NDArray[np.int64],
    tail: int,
    loss: float,
    at: np.uint64,
    count: npt.NDArray[np.int64],
    level: int,
) -> int:
    """One message to a process, or to nobody; the new tail of the queue."""
    if target < 0 or (loss > 0 and _uniform(at ^ GOLDEN) < loss):
        return tail
    count[level, RECEIVED] += 1
    if rounds[target] >= 0:
        return tail
    rounds[target] = rounds[sender] + 1
    senders[target] = sender
    queue[tail] = target
    return tail + 1
