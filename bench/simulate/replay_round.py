"""Many events over the stored tables of one hierarchy of communities, by the rule of real nodes.

Unlike `gossip_round`, everything comes from tables that somebody built: who is in whose topic table and
super-topic table, how large each process believes its community to be, and who is down. Real nodes leave out
of the draw whom an event came from and its publisher, and send an upward message to another super-process
where the first one is down.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, HALF, mixed, sequence

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
