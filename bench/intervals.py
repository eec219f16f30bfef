"""Intervals: Wilson's for a proportion, the bootstrap's for a mean. Both at 95 %."""

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


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the bounds around it."""

    low: float
    value: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def wilson(successes: float, trials: int) -> Interval:
    """Wilson's score interval of a proportion; it stays inside [0, 1] and is right at 0 and 1 too."""
    if trials < 1 or not 0 <= successes <= trials:
        raise UsageError(f"{successes} of {trials} is no proportion")
    share = successes / trials
    scale = 1 + Z_95**2 / trials
    centre = (share + Z_95**2 / (2 * trials)) / scale
    half = Z_95 * math.sqrt(share * (1 - share) / trials + Z_95**2 / (4 * trials**2)) / scale
    # Rounding must not push the bounds past the estimate where it is 0 or 1.
    return Interval(max(0.0, min(share, centre - half)), share, min(1.0, max(share, centre + half)))


def bootstrap_mean(values: npt.NDArray[np.float64], seed: int) -> Interval:
    """The percentile bootstrap of a mean, the same for the same seed and the same order of values."""
    return bootstrap_means([values], seed)[0]


def bootstrap_means(samples: Sequence[npt.NDArray[np.float64]], seed: int) -> list[Interval]:
    """The percentile bootstrap of each sample's mean; samples of one length share their resamples."""
    intervals: dict[int, Interval] = {}
    by_length: dict[int, list[int]] = {}
    for index, values in enumerate(samples):
        if not len(values):
            raise UsageError("no values to take the mean of")
        mean = float(values.mean())
        intervals[index] = Interval(mean, mean, mean)
        if float(values.min()) != float(values.max()):
            by_length.setdefault(len(values), []).append(index)
    for length, indices in by_length.items():
        means = _resampled_means(np.column_stack([samples[i] for i in indices]), [seed, length])
        for index, (low, high) in zip(indices, np.quantile(means, BOUNDS, axis=0).T, strict=True):
            mean = intervals[index].value
            intervals[index] = Interval(min(mean, float(low)), mean, max(mean, float(high)))
    return [intervals[index] for index in range(len(samples))]


def _resampled_means(columns: npt.NDArray[np.float64], seed: list[int]) -> npt.NDArray[np.float64]:
    """The means of every column in each of `RESAMPLES` resamples of the rows."""
    generator = np.random.default_rng(seed)
    length = len(columns)
    at_once = max(1, min(RESAMPLES, RESAMPLED_AT_ONCE // length))
    parts = []
    for first in range(0, RESAMPLES, at_once):
        count = min(at_once, RESAMPLES - first)
        drawn = generator.integers(0, length, (count, length))
        drawn += np.arange(count)[:, None] * length
        # How often each row was drawn: a mean is then a product, for all columns at once.
        times = np.bincount(drawn.ravel(), minlength=count * length).reshape(count, length)
        parts.append(times.astype(np.float64) @ columns / length)
    return np.concatenate(parts)
