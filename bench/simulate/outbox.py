"""What happens to a block of messages between the senders and the receivers.

A message that is not sent, or lost, is aimed at *nowhere*: one more place after the last process,
which is never alive. So delivery needs no branch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, ONE, below, draw, sequence, signed
from bench.simulate.rows import LANES, Block

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
