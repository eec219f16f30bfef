"""The tables of simulated processes: drawn uniformly, row by row, or built as SCAMP builds them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.experiment import Experiment
from bench.simulate.compiled import compiled
from bench.simulate.randomness import (
    GOLDEN,
    HALF,
    VIEWS,
    below,
    draw,
    sequence,
    signed,
    stream_keys,
)
from overlay.membership.config import ScampConfig

SCAMP_COPIES = ScampConfig().c
"""SCAMP's c, as real nodes have it: further copies of each subscription. Views come out at (c + 1) ln N."""

# Topic tables as the kernels take them: drawn on the way, or stored views; and how large they are.


class TopicTables(NamedTuple):
    """The tables of a group, or of several whose processes are numbered through."""

    starts: npt.NDArray[np.int64]
    """Where each process's view starts in `views`, and one end more; empty for uniform tables."""
    views: npt.NDArray[np.uint32]
    """The views one after the other, by numbers within the group."""
    room: npt.NDArray[np.uint32]
    """Scratch space for the longest view."""
    fanouts: npt.NDArray[np.int64]
    """How many of its view each process forwards to: it knows N only from the view, as
    exp(|view| / (SCAMP_COPIES + 1)). Empty for uniform tables, whose owners know N."""

    def entries(self, processes: int, fanout: int) -> int:
        """Entries of all tables; uniform ones have as many as an event is forwarded to."""
        return len(self.views) if len(self.starts) else processes * fanout

    def largest(self, fanout: int) -> int:
        """Entries of the largest table."""
        return len(self.room) if len(self.starts) else fanout


UNIFORM = TopicTables(
    np.empty(0, np.int64),
    np.empty(0, np.uint32),
    np.empty(0, np.uint32),
    np.empty(0, np.int64),
)


def topic_tables(
    experiment: Experiment, group_sizes: list[int], part: int, seed: int
) -> TopicTables:
    """The tables of groups that are numbered through, one after the other; `part` tells hierarchies apart.

    Uniform tables are drawn on the way. In the unstructured mode they are views built by SCAMP's joins, of
    which some are chosen for the event; super-topic tables and those of other clusters stay uniform.
    """
    if experiment.mode == "uniform":
        return UNIFORM
    starts, views = [np.zeros(1, np.int64)], []
    for group, size in enumerate(group_sizes):
        key = stream_keys(seed, part + group)[VIEWS]
        begin, view = scamp_views(size, SCAMP_COPIES, key)
        starts.append(begin[1:] + starts[-1][-1])
        views.append(view)
    together = np.concatenate(starts)
    sizes = np.diff(together)
    room = np.empty(int(sizes.max(initial=0)), np.uint32)
    fanouts = np.maximum(0, np.floor(sizes / (SCAMP_COPIES + 1) + experiment.c)).astype(np.int64)
    return TopicTables(together, np.concatenate(views), room, fanouts)


def further_entries(experiment: Experiment, sizes: tuple[int, ...], level: int) -> int:
    """Entries that one process of a community keeps beside the table of its own group.

    CAMCAST: the super-topic table, which the root has none of. Multicast: the tables of all lower
    communities.
    """
    if experiment.protocol == "camcast" and level + 1 < len(sizes):
        return min(experiment.z, sizes[level + 1])
    if experiment.protocol == "multicast":
        return sum(experiment.fanout(size) for size in sizes[:level])
    return 0


# Rows of membership tables, drawn when they are needed instead of stored.
#
# A row is `count` different processes out of a window of `span` places on a ring of `ring` processes.
# Gossip inside a group of N takes the window of the N - 1 places after the process itself, so nobody
# is in its own table.
#
# Rows of several processes lie side by side in a block, a column (*lane*) each, so that the compiler
# can work on all lanes at once.


LANES: Final = 16
"""Processes whose messages are handled together."""
WIDE: Final = 64
"""Windows with this many places for each entry are cut into slices."""

Block = npt.NDArray[np.uint32]
"""Targets: one row a message, one column a sender."""


@compiled
def slice_width(count: int, span: int) -> int:
    """Places in a slice, or 0 where the window is too small to cut.

    A large window is cut into `count` slices and each gives one entry: different entries without a
    look at the others. Everyone is then in as many tables as with entries drawn from the whole window
    (each of the others has them with probability count / span, independently); only two
    entries of *one* row can no longer be close neighbours, which the process numbers have no meaning for.
    """
    width = span // count if count > 0 else 0
    return width if width >= WIDE else 0


@compiled
def draw_row(
    block: Block, lane: int, count: int, key: np.uint64, who: int, start: int, span: int, ring: int
) -> int:
    """Draw the row of `who` into a lane; the number of entries, fewer than `count` in a small window."""
    at = sequence(key, np.uint64(who))
    width = slice_width(count, span)
    if width > 0:
        for entry in range(count):
            at += GOLDEN
            place = start + entry * width + signed(below(at, np.uint64(width)))
            block[entry, lane] = place - ring if place >= ring else place
        return count
    drawn = 0
    while drawn < min(count, span):
        at += GOLDEN
        # Of a window that is taken whole nothing is drawn; of others, again until it is new.
        place = start + (drawn if count >= span else signed(below(at, np.uint64(span))))
        target = np.uint32(place - ring if place >= ring else place)
        block[drawn, lane] = target
        new = 1
        for entry in range(drawn):
            if block[entry, lane] == target:
                new = 0
        drawn += new
    return drawn


@compiled
def select_row(
    block: Block,
    lane: int,
    count: int,
    key: np.uint64,
    who: int,
    view: npt.NDArray[np.uint32],
    room: npt.NDArray[np.uint32],
) -> int:
    """Choose `count` different entries of a stored view into a lane; all of a smaller view.

    `room` is scratch space for the longest view. The number of entries chosen is returned.
    """
    size = view.size
    chosen = min(count, size)
    for entry in range(size):
        room[entry] = view[entry]
    at = sequence(key, np.uint64(who))
    for entry in range(chosen):
        at += GOLDEN
        other = entry + signed(below(at, np.uint64(size - entry)))
        target = room[other]
        room[other] = room[entry]
        block[entry, lane] = target
    return chosen


# SCAMP's partial views, by playing the join of every process (the membership technique of the paper).
#
# A process joins through a contact drawn uniformly among those present, and starts with the contact in
# its view. The contact forwards the subscription to its whole view, and `copies` more times (SCAMP's c).
# A process that gets a forwarded subscription keeps it with probability 1 / (1 + the size of its view), and
# else forwards it to one of its view. Views come out at about (c + 1) ln N entries without anyone
# knowing N. Nobody leaves, and leases do not run out.


HOPS: Final = 2000
"""A subscription that was forwarded this often is dropped: everyone who gets it has it already."""
CAPACITY: Final = 32
"""Entries that a view has room for at first."""

Views = npt.NDArray[np.uint32]


@compiled
def scamp_views(size: int, copies: int, key: np.uint64) -> tuple[npt.NDArray[np.int64], Views]:
    """The views of processes 0 .. size - 1, who joined in this order.

    Returns where each view starts, and one end more, and the views one after the other.
    """
    views = np.empty((size, CAPACITY), np.uint32)
    sizes = np.zeros(size, np.int64)
    largest = 0
    for new in range(1, size):
        if largest == views.shape[1]:  # one join makes no view longer by more than one entry
            views = _doubled(views, sizes)
        at = sequence(key, np.uint64(new)) + GOLDEN
        contact = signed(below(at, np.uint64(new)))
        views[new, 0] = contact
        sizes[new] = 1
        known = sizes[contact]
        if known == 0:
            views[contact, 0] = new
            sizes[contact] = 1
        for copy in range(known + copies if known > 0 else 0):
            at += GOLDEN
            choice = copy if copy < known else signed(below(at, np.uint64(known)))
            at, keeper = _forward(views, sizes, new, signed(views[contact, choice]), at)
            if keeper >= 0:
                views[keeper, sizes[keeper]] = new
                sizes[keeper] += 1
                largest = max(largest, sizes[keeper])
    return _flattened(views, sizes)


@compiled
def _forward(
    views: Views, sizes: npt.NDArray[np.int64], new: int, holder: int, at: np.uint64
) -> tuple[np.uint64, int]:
    """Pass a subscription on until someone keeps it: the place in the sequence, and who, or -1."""
    for _ in range(HOPS):
        at += GOLDEN
        size = sizes[holder]
        if (draw(at) * np.uint64(size + 1)) >> HALF == 0 and holder != new:
            known = False
            for entry in range(size):
                known |= views[holder, entry] == np.uint32(new)
            if not known:
                return at, holder
        at += GOLDEN
        holder = signed(views[holder, below(at, np.uint64(size))])
    return at, -1


@compiled
def _doubled(views: Views, sizes: npt.NDArray[np.int64]) -> Views:
    wider = np.empty((views.shape[0], 2 * views.shape[1]), np.uint32)
    for process in range(sizes.size):
        for entry in range(sizes[process]):
            wider[process, entry] = views[process, entry]
    return wider


@compiled
def _flattened(views: Views, sizes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Views]:
    starts = np.zeros(sizes.size + 1, np.int64)
    for process in range(sizes.size):
        starts[process + 1] = starts[process] + sizes[process]
    flat = np.empty(starts[sizes.size], np.uint32)
    for process in range(sizes.size):
        for entry in range(sizes[process]):
            flat[starts[process] + entry] = views[process, entry]
    return starts, flat
