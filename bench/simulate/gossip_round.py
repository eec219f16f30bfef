"""One round of one group: everyone newly reached forwards the event, once (paper, figure 8).

The group's processes are numbered from 0. `queue` holds those reached so far, in order; those between
`head` and `end` were reached in the last round and forward in this one, and whom they reach is
queued from `tail` on. The functions return the new tail, the messages sent, and those that arrived at
a live process.
"""

from __future__ import annotations

import numpy as np

from bench.simulate.addressing import address
from bench.simulate.compiled import compiled
from bench.simulate.outbox import (
    Queue,
    State,
    Words,
    deliver,
    drop,
    fill_sliced,
)
from bench.simulate.randomness import (
    ENTRIES,
    GOLDEN,
    LINKS,
    LOSSES,
    SUPER_TABLES,
    SUSPICIONS,
    TABLES,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    Keys,
    draw,
    sequence,
    signed,
)
from bench.simulate.rows import LANES, Block, draw_row, slice_width
from bench.simulate.tables import TopicTables


@compiled
def gossip(
    state: State,
    queue: Queue,
    head: int,
    end: int,
    tail: int,
    fanout: int,
    keys: Keys,
    loss: np.uint64,
    suspicion: np.uint64,
    block: Block,
    words: Words,
    tables: TopicTables,
) -> tuple[int, int, int]:
    """Forward inside the group to `fanout` different processes: uniformly drawn, or out of views.

    A table entry appears crashed to its owner with chance `suspicion`, and is then not sent to.
    """
    size = state.size - 1
    width = slice_width(fanout, size - 1)
    plain = width > 0 and suspicion == 0 and tables.starts.size == 0
    sent = 0
    received = 0
    while head < end:
        senders = queue[head : min(head + LANES, end)]
        if plain:
            fill_sliced(
                block, senders, fanout, width, size, keys[TABLES], keys[LOSSES], loss, words
            )
            sent += senders.size * fanout
        else:
            _address(block, senders, fanout, size, keys, tables)
            sent += drop(block, senders, fanout, size, keys[SUSPICIONS], suspicion)
            drop(block, senders, fanout, size, keys[LOSSES], loss)
        tail, arrived = deliver(block, senders.size, fanout, state, queue, tail)
        received += arrived
        head += senders.size
    return tail, sent, received


@compiled
def _address(
    block: Block,
    senders: Queue,
    fanout: int,
    size: int,
    keys: Keys,
    tables: TopicTables,
) -> None:
    """Fill the block with the senders' targets, and with nowhere where a table is too small."""
    for lane in range(senders.size):
        who = signed(senders[lane])
        drawn = address(block, lane, fanout, keys, who, 0, size, tables)
        for entry in range(drawn, fanout):
            block[entry, lane] = size


@compiled
def climb(
    queue: Queue,
    head: int,
    end: int,
    state: State,
    super_queue: Queue,
    tail: int,
    entries: int,
    keys: Keys,
    link_chance: np.uint64,
    entry_chance: np.uint64,
    loss: np.uint64,
    suspicion: np.uint64,
    block: Block,
) -> tuple[int, int, int]:
    """Forward upward: each process with `link_chance`, to each of its `entries` with `entry_chance`.

    `state`, `super_queue` and `tail` are those of the super-community.
    """
    sent = 0
    received = 0
    size = state.size - 1
    for place in range(head, end):
        who = np.uint64(queue[place])
        if sequence(keys[LINKS], who) >= link_chance:
            continue
        drawn = draw_row(block, 0, entries, keys[SUPER_TABLES], signed(who), 0, size, size)
        choice = sequence(keys[ENTRIES], who)
        doubt = sequence(keys[UPWARD_SUSPICIONS], who)
        lost = sequence(keys[UPWARD_LOSSES], who)
        for entry in range(drawn):
            choice += GOLDEN
            doubt += GOLDEN
            lost += GOLDEN
            if draw(choice) >= entry_chance or draw(doubt) < suspicion:
                block[entry, 0] = size
                continue
            sent += 1
            if draw(lost) < loss:
                block[entry, 0] = size
        tail, arrived = deliver(block, 1, drawn, state, super_queue, tail)
        received += arrived
    return tail, sent, received
