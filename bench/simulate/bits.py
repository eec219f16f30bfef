"""64 repetitions at once: bit r of a word says what happens in repetition r.

*Planes* count for all of them: bit r of plane p is digit p of the count of repetition r, so adding a
word to 64 counts is a few instructions.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, ONE, mixed

REPETITIONS: Final = 64
PLANES: Final = 48
"""Digits of a count."""
ALL: Final = np.uint64((1 << 64) - 1)
_NONE: Final = np.uint64(0)
_TOP: Final = np.uint64(63)
DIGITS: Final = 16
"""Binary digits of a chance for `draw_masks`: right to within one in a hundred thousand."""
PAD: Final = 4
_TOGETHER: Final = 28
"""Words that `tally_row` counts before it carries: fewer than 2^5, in whole pads."""
_CERTAIN: Final = np.uint64(1 << DIGITS)
_2: Final = np.uint64(2)
_3: Final = np.uint64(3)
_4: Final = np.uint64(4)
_7: Final = np.uint64(7)
_13: Final = np.uint64(13)
_17: Final = np.uint64(17)

Words = npt.NDArray[np.uint64]
Planes = npt.NDArray[np.uint64]


@compiled
def chosen(among: np.uint64, place: np.uint64, chance: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Keep each bit of `among` with the chance `chance` / 2^64; the kept, and the next place.

    Every bit draws a number digit by digit and compares it with the chance until they differ, which
    takes eight words on the average for 64 bits, whatever the precision.
    """
    kept = _NONE
    while among != _NONE and chance != _NONE:
        place += GOLDEN
        digits = mixed(place)
        if chance >> _TOP:
            kept |= among & ~digits
            among &= digits
        else:
            among &= ~digits
        chance <<= ONE
    return kept, place


@compiled
def draw_masks(
    masks: Words, count: int, place: np.uint64, digits: np.uint64, states: Words
) -> None:
    """Fill `count` words whose bits are all set with the chance `digits` / 2^DIGITS.

    For rows of messages: slower than `chosen` for one word, faster for many, as the words advance side by
    side. A bit starts at 0 and meets a random bit for each digit of the chance, the last digit first:
    ORed where the digit is 1, ANDed where it is 0. `masks` and `states` are padded to a
    multiple of PAD words.
    """
    padded = np.uint64((count + PAD - 1) // PAD * PAD)
    for index in range(padded):
        masks[index] = _NONE if digits < _CERTAIN else ALL
        states[index] = mixed(place + np.uint64(index) * GOLDEN)
    for _ in range(DIGITS // 4 if digits < _CERTAIN else 0):
        first = _NONE - (digits & ONE)  # all bits set where the digit is 1
        second = _NONE - (digits >> ONE & ONE)
        third = _NONE - (digits >> _2 & ONE)
        fourth = _NONE - (digits >> _3 & ONE)
        digits >>= _4
        for index in range(padded):
            word = _shifted(states[index])
            mask = _met(masks[index], word, first)
            word = _shifted(word)
            mask = _met(mask, word, second)
            word = _shifted(word)
            mask = _met(mask, word, third)
            word = _shifted(word)
            masks[index] = _met(mask, word, fourth)
            states[index] = word


@compiled
def _shifted(word: np.uint64) -> np.uint64:
    """The next word of xorshift64: no multiplication, so that several go side by side."""
    word ^= word << _13
    word ^= word >> _7
    return word ^ (word << _17)


@compiled
def _met(mask: np.uint64, word: np.uint64, digit: np.uint64) -> np.uint64:
    """`mask | word` where all bits of the digit are set, `mask & word` where none is."""
    return (mask & word) | (digit & (mask | word))


@compiled
def tally(planes: Planes, word: np.uint64) -> None:
    """Count one more in each repetition whose bit is set."""
    plane = 0
    while word != _NONE:
        carry = planes[plane] & word
        planes[plane] ^= word
        word = carry
        plane += 1


@compiled
def tally_times(planes: Planes, word: np.uint64, times: int) -> None:
    """Count `times` more in each repetition whose bit is set."""
    plane = 0
    while times >> plane:
        if times >> plane & 1:
            tally(planes[plane:], word)
        plane += 1


@compiled
def tally_row(planes: Planes, row: Words, count: int) -> None:
    """`tally` for `count` words, with room behind them for a multiple of PAD.

    The words are first counted among themselves, four at a time by carry-save adders: one carry through
    the long planes then serves many.
    """
    for index in range(count, (count + PAD - 1) // PAD * PAD):
        row[index] = _NONE
    start = 0
    while start < count:
        ones = twos = fours = eights = sixteens = _NONE
        stop = min(start + _TOGETHER, count)
        for index in range(np.uint64(start), np.uint64(stop), np.uint64(PAD)):
            ones, carry = _added(ones, row[index], row[index + ONE])
            ones, other = _added(ones, row[index + _2], row[index + _3])
            twos, carry = _added(twos, carry, other)
            other = fours & carry
            fours ^= carry
            carry = eights & other
            eights ^= other
            sixteens ^= carry
        carry = _NONE
        planes[0], carry = _added(planes[0], ones, carry)
        planes[1], carry = _added(planes[1], twos, carry)
        planes[2], carry = _added(planes[2], fours, carry)
        planes[3], carry = _added(planes[3], eights, carry)
        planes[4], carry = _added(planes[4], sixteens, carry)
        tally(planes[5:], carry)
        start = stop


@compiled
def _added(one: np.uint64, two: np.uint64, three: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The sum of three bits, in every repetition: the digit and the carry."""
    half = one ^ two
    return half ^ three, (one & two) | (half & three)


def mask_digits(probability: float) -> np.uint64:
    """A chance for `draw_masks`."""
    return np.uint64(round(probability * (1 << DIGITS)))


def counts(planes: Planes) -> npt.NDArray[np.int64]:
    """The count of each repetition."""
    repetitions = np.arange(REPETITIONS, dtype=np.uint64)
    digits = (planes[:, None] >> repetitions) & np.uint64(1)
    weights = np.int64(1) << np.arange(len(planes), dtype=np.int64)
    return np.asarray(weights @ digits.astype(np.int64), np.int64)
