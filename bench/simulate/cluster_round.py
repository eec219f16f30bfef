"""One round of gossip among everyone, whatever they are interested in: alternatives (a) and (c).

Everyone is in one of `clusters` groups of equal size (within one process); a broadcast has a single
one. A process forwards to processes of its own cluster and, if there are others, of those. Its
interest is a label, kept in its state above the two bits that the delivery uses.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.addressing import address
from bench.simulate.compiled import compiled
from bench.simulate.outbox import Queue, State, drop
from bench.simulate.randomness import (
    LOSSES,
    SUPER_TABLES,
    SUSPICIONS,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    Keys,
    signed,
)
from bench.simulate.rows import Block, draw_row
from bench.simulate.tables import TopicTables

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
    tables: TopicTables,
    tally: Tally,
) -> int:
    """Forward for everyone queued from `head` to `end`; the new tail.

    `fanouts` are those inside a cluster of the smaller size, inside one of the larger, and across.
    """
    nowhere = state.size - 1
    for place in range(head, end):
        sender = queue[place : place + 1]
        who = signed(sender[0])
        first, size, larger = _cluster(who, nowhere, clusters)
        drawn = address(block, 0, fanouts[larger], keys, who, first, size, tables)
        for entry in range(drawn):
            block[entry, 0] += np.uint32(first)
        doubt, lost = keys[SUSPICIONS], keys[LOSSES]
        _thin(block, sender, drawn, nowhere, doubt, suspicion, lost, loss, state, tally)
        tail = _deliver(block, drawn, state, queue, tail, tally)
        if fanouts[2] > 0:
            start, others = (first + size) % nowhere, nowhere - size
            drawn = draw_row(block, 0, fanouts[2], keys[SUPER_TABLES], who, start, others, nowhere)
            doubt, lost = keys[UPWARD_SUSPICIONS], keys[UPWARD_LOSSES]
            _thin(block, sender, drawn, nowhere, doubt, suspicion, lost, loss, state, tally)
            tail = _deliver(block, drawn, state, queue, tail, tally)
    return tail


@compiled
def _cluster(who: int, total: int, clusters: int) -> tuple[int, int, int]:
    """The first process of a process's cluster, the cluster's size, and 1 if it is a larger one.

    Where the parts do not come out even, the first clusters have one process more.
    """
    small = total // clusters
    border = total % clusters * (small + 1)
    if who < border:
        return who // (small + 1) * (small + 1), small + 1, 1
    return border + (who - border) // small * small, small, 0


@compiled
def _thin(
    block: Block,
    sender: Queue,
    count: int,
    nowhere: int,
    doubt: np.uint64,
    suspicion: np.uint64,
    lost: np.uint64,
    loss: np.uint64,
    state: State,
    tally: Tally,
) -> None:
    """Leave out what appears crashed, count what is sent, and lose some of it."""
    label = state[sender[0]] >> _SHIFT
    tally[label, SENT] += drop(block, sender, count, nowhere, doubt, suspicion)
    drop(block, sender, count, nowhere, lost, loss)


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
