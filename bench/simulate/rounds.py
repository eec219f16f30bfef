"""One round of gossip, compiled: inside a community, up to the next, and between clusters."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import (
    ENTRIES,
    GOLDEN,
    LINKS,
    LOSSES,
    ONE,
    SELECTIONS,
    SUPER_TABLES,
    SUSPICIONS,
    TABLES,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    Keys,
    below,
    draw,
    sequence,
    signed,
)
from bench.simulate.tables import LANES, Block, TopicTables, draw_row, select_row, slice_width

# Whom a process forwards to inside its group, which is the same in every kernel.


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


# What happens to a block of messages between the senders and the receivers.
#
# A message that is not sent, or lost, is aimed at *nowhere*: one more place after the last process,
# which is never alive. So delivery needs no branch.


CRASHED: Final = np.uint8(0)
WAITING: Final = np.uint8(1)
REACHED: Final = np.uint8(2)
"""The states of a process; the delivery relies on these numbers."""

_BIT: Final = np.uint8(1)

State = npt.NDArray[np.uint8]
"""The state of each process of a group, and nowhere's."""
Queue = npt.NDArray[np.uint32]
"""The processes of a group in the order in which they are reached, and one place more."""
Words = npt.NDArray[np.uint64]


@compiled
def crash(state: State, key: np.uint64, chance: np.uint64) -> int:
    """Put every process at its start, crashed with this chance; the number alive."""
    alive = 0
    for process in range(state.size - 1):
        up = sequence(key, np.uint64(process)) >= chance
        state[process] = WAITING if up else CRASHED
        alive += 1 if up else 0
    state[state.size - 1] = CRASHED
    return alive


@compiled
def fill_sliced(
    block: Block,
    senders: Queue,
    count: int,
    width: int,
    ring: int,
    table_key: np.uint64,
    loss_key: np.uint64,
    loss: np.uint64,
    words: Words,
) -> None:
    """`draw_row` in slices and then `drop`, for all lanes at once; `words` is room for 3 LANES of them.

    Lanes without a sender get values that nobody reads.
    """
    for lane in range(senders.size):
        who = np.uint64(senders[lane])
        words[lane] = sequence(table_key, who)
        words[LANES + lane] = sequence(loss_key, who)
        words[2 * LANES + lane] = who + ONE
    wide = np.uint64(width)
    nowhere = np.uint64(ring)
    for entry in range(count):
        step = np.uint64(entry + 1) * GOLDEN
        before = np.uint64(entry) * wide
        for lane in range(LANES):
            at = words[lane] + step
            lost = words[LANES + lane] + step
            place = words[2 * LANES + lane] + before + below(at, wide)
            place = place - nowhere if place >= nowhere else place
            block[entry, lane] = place if draw(lost) >= loss else nowhere


@compiled
def drop(
    block: Block, senders: Queue, count: int, nowhere: int, key: np.uint64, chance: np.uint64
) -> int:
    """Aim each message at nowhere with this chance; the number of messages that are left."""
    left = 0
    for lane in range(senders.size):
        at = sequence(key, np.uint64(senders[lane]))
        for entry in range(count):
            at += GOLDEN
            if draw(at) < chance:
                block[entry, lane] = nowhere
            left += 1 if block[entry, lane] != np.uint32(nowhere) else 0
    return left


@compiled
def deliver(
    block: Block, lanes: int, count: int, state: State, queue: Queue, tail: int
) -> tuple[int, int]:
    """Hand the messages over and queue who is reached first; the new tail, and how many arrived.

    Every target is written behind the tail, and the tail moves on only if it is new: a store is cheaper
    than a branch that cannot be foreseen.
    """
    end = np.uint64(tail)
    arrived = np.uint64(0)
    for entry in range(count):
        for lane in range(lanes):
            target = np.uint64(block[entry, lane])
            before = state[target]
            new = before & _BIT
            after = before + new
            state[target] = after
            queue[end] = target
            end += np.uint64(new)
            arrived += np.uint64(after)
    return signed(end), signed(arrived // np.uint64(2))


# One round of one group: everyone newly reached forwards the event, once (paper, figure 8).
#
# The group's processes are numbered from 0. `queue` holds those reached so far, in order; those between
# `head` and `end` were reached in the last round and forward in this one, and whom they reach is
# queued from `tail` on. The functions return the new tail, the messages sent, and those that arrived at
# a live process.


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


# One round of gossip among everyone, whatever they are interested in: alternatives (a) and (c).
#
# Everyone is in one of `clusters` groups of equal size (within one process); a broadcast has a single
# one. A process forwards to processes of its own cluster and, if there are others, of those. Its
# interest is a label, kept in its state above the two bits that the delivery uses.


SENT: Final = 0
RECEIVED: Final = 1
INFECTED: Final = 2
COLUMNS: Final = 3
"""Columns of the tally, a row a label; RECEIVED goes by the receiver's label."""

_STATE: Final = np.uint8(3)
_ONE: Final = np.uint8(1)
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
        new = before & _ONE
        state[target] = before + new
        label = before >> _SHIFT
        tally[label, RECEIVED] += 1 if before & _STATE else 0
        tally[label, INFECTED] += signed(new)
        queue[tail] = target
        tail += signed(new)
    return tail
