"""Random numbers from counters: no state, no order, the same on any machine.

A number is a function of a seed, a *stream* (what it decides), and who asks. So a table need not be
stored: its entries are drawn again, the same, whenever they are needed. Streams are kept apart: equal
seeds of tables and of losses share nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
SECOND: Final = np.uint64(0x94D049BB133111EB)
ONE: Final = np.uint64(1)
HALF: Final = np.uint64(32)
_27: Final = np.uint64(27)
_30: Final = np.uint64(30)
_31: Final = np.uint64(31)

PUBLISHER: Final = 0
CRASHES: Final = 1
TABLES: Final = 2
SUPER_TABLES: Final = 3
VIEWS: Final = 4
SELECTIONS: Final = 5
SUSPICIONS: Final = 6
LINKS: Final = 7
ENTRIES: Final = 8
LOSSES: Final = 9
UPWARD_LOSSES: Final = 10
UPWARD_SUSPICIONS: Final = 11
STREAMS: Final = 12
"""What the numbers of a stream decide."""

WHOLE: Final = 1 << 64

Keys = npt.NDArray[np.uint64]
"""The keys of all streams, by stream."""


@compiled
def signed(value: np.uint64 | np.uint32) -> int:
    """A number that is small enough, as the compiler's plain integer."""
    return int(np.int64(value))


@compiled
def mixed(word: np.uint64) -> np.uint64:
    """Scramble 64 bits so that each depends on all (the finaliser of splitmix64)."""
    word = (word ^ (word >> _30)) * FIRST
    word = (word ^ (word >> _27)) * SECOND
    return word ^ (word >> _31)


@compiled
def sequence(key: np.uint64, who: np.uint64) -> np.uint64:
    """Where the numbers of process `who` start in a stream; the next is at `+ GOLDEN`."""
    return mixed(key ^ ((who + ONE) * GOLDEN))


@compiled
def draw(place: np.uint64) -> np.uint64:
    """The 32-bit number at a place of a sequence; cheap, as the start is scrambled already."""
    return ((place ^ (place >> HALF)) * FIRST) >> HALF


@compiled
def below(place: np.uint64, bound: np.uint64) -> np.uint64:
    """A number in 0 .. bound - 1, from the place of a sequence."""
    return (draw(place) * bound) >> HALF


def chance32(probability: float) -> np.uint64:
    """The threshold under which a 32-bit `draw` falls with this probability."""
    return np.uint64(round(probability * (1 << 32)))


def chance64(probability: float) -> np.uint64:
    """The threshold under which 64 `mixed` bits fall with this probability."""
    return np.uint64(min(round(probability * WHOLE), WHOLE - 1))


def derived(seed: int, *parts: int) -> int:
    """A seed for one part of what `seed` stands for; any integers will do."""
    for part in parts:
        seed = int(mixed(np.uint64((int(mixed(np.uint64(seed % WHOLE))) + part + 1) % WHOLE)))
    return seed


@compiled
def fill_keys(keys: Keys, seed: np.uint64, part: int) -> None:
    """The key of every stream, for one part of a run, such as a community."""
    for stream in range(keys.size):
        keys[stream] = mixed(mixed(seed + np.uint64(stream) * GOLDEN) + np.uint64(part) * SECOND)


def stream_keys(seed: int, part: int) -> Keys:
    """`fill_keys` into an array of its own."""
    keys = np.empty(STREAMS, np.uint64)
    fill_keys(keys, np.uint64(seed % WHOLE), part)
    return keys
