"""Rows of membership tables, drawn when they are needed instead of stored.

A row is `count` different processes out of a window of `span` places on a ring of `ring` processes.
Gossip inside a group of N takes the window of the N - 1 places after the process itself, so nobody
is in its own table.

Rows of several processes lie side by side in a block, a column (*lane*) each, so that the compiler
can work on all lanes at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, below, sequence, signed

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
