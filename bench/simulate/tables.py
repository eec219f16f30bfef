"""Topic tables as the kernels take them: drawn on the way, or stored views; and how large they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.simulate.randomness import VIEWS, stream_keys
from bench.simulate.scamp import scamp_views
from bench.simulate.settings import Protocol, SimulationSettings, Tables


class TopicTables(NamedTuple):
    """The tables of a group, or of several whose processes are numbered through."""

    starts: npt.NDArray[np.int64]
    """Where each process's view starts in `views`, and one end more; empty for uniform tables."""
    views: npt.NDArray[np.uint32]
    """The views one after the other, by numbers within the group."""
    room: npt.NDArray[np.uint32]
    """Scratch space for the longest view."""
    fanouts: npt.NDArray[np.int64]
    """How many of its view each process forwards to, where that differs; else empty."""

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


def topic_tables(settings: SimulationSettings, group_sizes: list[int], part: int) -> TopicTables:
    """The tables of groups that are numbered through, one after the other; `part` tells hierarchies apart."""
    if settings.tables is Tables.UNIFORM:
        return UNIFORM
    starts, views = [np.zeros(1, np.int64)], []
    for group, size in enumerate(group_sizes):
        key = stream_keys(settings.seed, settings.tables_from, part + group)[VIEWS]
        begin, view = scamp_views(size, settings.scamp_copies, key)
        starts.append(begin[1:] + starts[-1][-1])
        views.append(view)
    together = np.concatenate(starts)
    sizes = np.diff(together)
    longest = int(sizes.max(initial=0))
    fanouts = np.empty(0, np.int64)
    if settings.own_sizes:
        own = np.floor(sizes / (settings.scamp_copies + 1) + settings.c)
        fanouts = np.maximum(0, own).astype(np.int64)
    return TopicTables(together, np.concatenate(views), np.empty(longest, np.uint32), fanouts)


def further_entries(settings: SimulationSettings, level: int) -> int:
    """Entries that one process of a community keeps beside the table of its own group.

    CAMCAST: the super-topic table, which the root has none of. Multicast: the tables of all lower
    communities.
    """
    sizes = settings.community_sizes
    if settings.protocol is Protocol.CAMCAST and level + 1 < len(sizes):
        return min(settings.z, sizes[level + 1])
    if settings.protocol is Protocol.MULTICAST:
        return sum(settings.fanout(size) for size in sizes[:level])
    return 0
