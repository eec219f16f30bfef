"""Whom a process forwards to inside its group, which is the same in every kernel."""

from __future__ import annotations

from bench.simulate.compiled import compiled
from bench.simulate.randomness import SELECTIONS, TABLES, Keys
from bench.simulate.rows import Block, draw_row, select_row
from bench.simulate.tables import TopicTables


@compiled
def address(
    block: Block,
    lane: int,
    fanout: int,
    keys: Keys,
    who: int,
    first: int,
    size: int,
    tables: TopicTables,
) -> int:
    """Fill a lane with `fanout` different others, uniformly drawn or out of a view; how many there are.

    Fewer where the process forwards to fewer of its view. The group has `size` processes, numbered from
    `first` on; the targets are numbered within it.
    """
    if tables.starts.size > 0:
        view = tables.views[tables.starts[who] : tables.starts[who + 1]]
        if tables.fanouts.size > 0:
            fanout = min(fanout, tables.fanouts[who])
        return select_row(block, lane, fanout, keys[SELECTIONS], who, view, tables.room)
    return draw_row(block, lane, fanout, keys[TABLES], who, who - first + 1, size - 1, size)
