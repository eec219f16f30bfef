"""Intervals: Wilson's for a proportion, the bootstrap's for a mean. Both at 95 %.

Events on one network share its tables, so they are no independent draws: where values come in *groups*, one
for each network, the groups are what was drawn, and an interval is as wide as their number asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from overlay.errors import UsageError

Z_95 = 1.959963984540054
RESAMPLES = 1000
BOUNDS = (0.025, 0.975)
RESAMPLED_AT_ONCE = 4_000_000
"""Numbers drawn at a time, which bounds the memory."""

Values = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]
"""For each value the number of its group; values of a group stand together."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the bounds around it."""

    low: float
    value: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def within(self, least: float, most: float) -> Interval:
        """The same, its bounds inside what the quantity can be."""
        return Interval(max(self.low, least), self.value, min(self.high, most))


def wilson(successes: float, trials: float) -> Interval:
    """Wilson's score interval of a proportion; it stays inside [0, 1] and is right at 0 and 1 too."""
    if trials < 1 or not 0 <= successes <= trials:
        raise UsageError(f"{successes} of {trials} is no proportion")
    share = successes / trials
    scale = 1 + Z_95**2 / trials
    centre = (share + Z_95**2 / (2 * trials)) / scale
    half = Z_95 * math.sqrt(share * (1 - share) / trials + Z_95**2 / (4 * trials**2)) / scale
    # Rounding must not push the bounds past the estimate where it is 0 or 1.
    return Interval(max(0.0, min(share, centre - half)), share, min(1.0, max(share, centre + half)))


def grouped_proportion(values: Values, groups: Groups) -> Interval:
    """Wilson's interval of zeros and ones for as many trials as the groups are worth.

    The more the groups' shares differ than independent draws would, the fewer trials, down to one a group;
    and that many where all values are alike, which shows no spread at all.
    """
    _, sizes = np.unique(groups, return_counts=True)
    share, trials, count = float(values.mean()), len(values), len(sizes)
    worth = float(count)
    if 0 < share < 1 and count > 1:
        sums = np.add.reduceat(values, np.cumsum(sizes) - sizes)
        spread = float(((sums - share * sizes) ** 2).sum()) * count / (count - 1)
        independent = trials * share * (1 - share)
        worth = min(float(trials), max(worth, trials * independent / max(spread, 1e-12)))
    return wilson(share * worth, worth)


def errors_above(interval: Interval, share: float) -> float:
    """How many standard errors a share lies above a proportion, of which Wilson's interval is given.

    Wilson's bounds are those shares that lie just `Z_95` errors away, so they tell the trials behind them.
    """
    bound = interval.high if interval.high < 1 else interval.low
    if share <= interval.value:
        return 0.0
    if not 0 < share < 1 or bound == interval.value:
        return math.inf
    trials = Z_95**2 * bound * (1 - bound) / (bound - interval.value) ** 2
    return (share - interval.value) / math.sqrt(share * (1 - share) / trials)


def bootstrap_mean(values: Values, seed: int, groups: Groups | None = None) -> Interval:
    """The percentile bootstrap of a mean, the same for the same seed and the same order of values."""
    return bootstrap_means([values], seed, None if groups is None else [groups])[0]


def bootstrap_means(
    samples: Sequence[Values], seed: int, groups: Sequence[Groups] | None = None
) -> list[Interval]:
    """The percentile bootstrap of each sample's mean; samples of the same groups share their resamples.

    Groups are drawn first, then values within each; without groups every value is drawn by itself.
    """
    if groups is None:
        groups = [np.arange(len(values)) for values in samples]
    intervals: dict[int, Interval] = {}
    alike: dict[tuple[int, ...], list[int]] = {}
    for index, (values, own) in enumerate(zip(samples, groups, strict=True)):
        if not len(values):
            raise UsageError("no values to take the mean of")
        mean = float(values.mean())
        intervals[index] = Interval(mean, mean, mean)
        if float(values.min()) != float(values.max()):
            counts = np.unique(own, return_counts=True)[1]
            alike.setdefault(tuple(counts.tolist()), []).append(index)
    for sizes, indices in alike.items():
        columns = np.column_stack([samples[i] for i in indices])
        means = _resampled_means(columns, np.array(sizes), [seed, len(columns)])
        widening = _widening(sizes)
        for index, bounds in zip(indices, np.quantile(means, BOUNDS, axis=0).T, strict=True):
            mean = intervals[index].value
            low, high = (mean + widening * (float(bound) - mean) for bound in bounds)
            intervals[index] = Interval(min(mean, low), mean, max(mean, high))
    return [intervals[index] for index in range(len(samples))]


def _widening(sizes: Sequence[int]) -> float:
    """Groups drawn from k groups vary by (k - 1)/k too little, which matters where k is small."""
    count = len(sizes)
    return math.sqrt(count / (count - 1)) if count > 1 and max(sizes) > 1 else 1.0


def _resampled_means(columns: Values, sizes: npt.NDArray[np.int64], seed: list[int]) -> Values:
    """The means of every column in each of `RESAMPLES` resamples of the rows, which stand by groups."""
    generator = np.random.default_rng(seed)
    length, count, largest = len(columns), len(sizes), int(sizes.max())
    starts = np.cumsum(sizes) - sizes
    at_once = max(1, min(RESAMPLES, RESAMPLED_AT_ONCE // (count * largest)))
    parts = []
    for first in range(0, RESAMPLES, at_once):
        many = min(at_once, RESAMPLES - first)
        chosen = generator.integers(0, count, (many, count))
        drawn = starts[chosen][:, :, None]
        taken = np.ones((many, count, largest), dtype=bool)
        if largest > 1:
            room = sizes[chosen][:, :, None]
            drawn = drawn + (generator.random((many, count, largest)) * room).astype(np.int64)
            taken = np.arange(largest) < room
        drawn = drawn + np.arange(many)[:, None, None] * length
        # How often each row was drawn: a mean is then a product, for all columns at once.
        times = np.bincount(drawn[taken], minlength=many * length).reshape(many, length)
        parts.append(times.astype(np.float64) @ columns / times.sum(axis=1, keepdims=True))
    return np.concatenate(parts)
