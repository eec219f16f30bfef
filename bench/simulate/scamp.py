"""SCAMP's partial views, by playing the join of every process (the membership technique of the paper).

A process joins through a contact drawn uniformly among those present, and starts with the contact in
its view. The contact forwards the subscription to its whole view, and `copies` more times (SCAMP's c).
Whoever gets a forwarded subscription keeps it with probability 1 / (1 + the size of its view), and
else forwards it to one of its view. Views come out at about (c + 1) ln N entries without anyone
knowing N. Nobody leaves, and leases do not run out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, HALF, below, draw, sequence, signed

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
