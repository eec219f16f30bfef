"""One round of gossip among everyone, whatever they are interested in: alternatives (a) and (c).

Everyone is in one of `clusters` groups of equal size (within one process); a broadcast has a single
one. A process forwards to processes of its own cluster and, if there are others, of those. Its
interest is a label, kept in its state above the two bits that the delivery uses.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.outbox import Queue, State, drop
from bench.simulate.randomness import (
    LOSSES,
    SELECTIONS,
    SUPER_TABLES,
    SUSPICIONS,
    TABLES,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    Keys,
    signed,
)
from bench.simulate.rows import Block, draw_row, select_row

SENT: Final = 0
RECEIVED: Final = 1
INFECTED: Final = 2
COLUMNS: Final = 3
"""Columns of the tally, a row a label; RECEIVED goes by the receiver's label."""

_STATE: Final = np.uint8(3)
_BIT: Final = np.uint8(1)
_SHIFT: Final = np.uint8(2)

Tally = npt.NDArray[np.int64]


@compiled
def gossip_among_all(
    state: State,
    queue: Queue,
    head: int,
    end: int,
    tail: int,
    clusters: int,
    fanouts: npt.NDArray[np.int64],
    keys: Keys,
    loss: np.uint64,
    suspicion: np.uint64,
    block: Block,
    view_starts: npt.NDArray[np.int64],
    views: npt.NDArray[np.uint32],
    room: npt.NDArray[np.uint32],
    tally: Tally,
) -> int:
    """Forward for everyone queued from `head` to `end`; the new tail.

    `fanouts` are those inside a cluster of the smaller size, inside one of the larger, and across.
    `view_starts` says where each process's view of its own cluster starts in `views`, by numbers within the
    cluster; it is empty for uniform tables.
    """
    nowhere = state.size - 1
    small = nowhere // clusters
    larger = nowhere % clusters  # so many clusters, the first ones, have one process more
    for place in range(head, end):
        sender = queue[place : place + 1]
        who = signed(sender[0])
        big = who < larger * (small + 1)
        size = small + 1 if big else small
        base = 0 if big else larger * (small + 1)
        first = base + (who - base) // size * size
        label = state[who] >> _SHIFT
        if view_starts.size > 0:
            view = views[view_starts[who] : view_starts[who + 1]]
            drawn = select_row(block, 0, fanouts[int(big)], keys[SELECTIONS], who, view, room)
        else:
            near = who - first
            drawn = draw_row(
                block, 0, fanouts[int(big)], keys[TABLES], who, near + 1, size - 1, size
            )
        for entry in range(drawn):
            block[entry, 0] += np.uint32(first)
        tally[label, SENT] += drop(block, sender, drawn, nowhere, keys[SUSPICIONS], suspicion)
        drop(block, sender, drawn, nowhere, keys[LOSSES], loss)
        tail = _deliver(block, drawn, state, queue, tail, tally)
        if fanouts[2] > 0:
            outside = nowhere - size
            start = (first + size) % nowhere
            drawn = draw_row(block, 0, fanouts[2], keys[SUPER_TABLES], who, start, outside, nowhere)
            sent = drop(block, sender, drawn, nowhere, keys[UPWARD_SUSPICIONS], suspicion)
            tally[label, SENT] += sent
            drop(block, sender, drawn, nowhere, keys[UPWARD_LOSSES], loss)
            tail = _deliver(block, drawn, state, queue, tail, tally)
    return tail


@compiled
def _deliver(block: Block, count: int, state: State, queue: Queue, tail: int, tally: Tally) -> int:
    """Hand one sender's messages over and queue who is reached first; the new tail."""
    for entry in range(count):
        target = block[entry, 0]
        before = state[target]
        new = before & _BIT
        state[target] = before + new
        label = before >> _SHIFT
        tally[label, RECEIVED] += 1 if before & _STATE else 0
        tally[label, INFECTED] += signed(new)
        queue[tail] = target
        tail += signed(new)
    return tail
