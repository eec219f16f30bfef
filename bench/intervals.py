"""Intervals: Wilson's for a proportion, the bootstrap's for a mean. Both at 95 %."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from overlay.errors import UsageError

Z_95 = 1.959963984540054
RESAMPLES = 1000


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
    if not len(values):
        raise UsageError("no values to take the mean of")
    mean = float(values.mean())
    if len(values) == 1 or float(values.min()) == float(values.max()):
        return Interval(mean, mean, mean)
    generator = np.random.default_rng(seed)
    means = np.empty(RESAMPLES)
    for index in range(RESAMPLES):
        means[index] = values[generator.integers(0, len(values), len(values))].mean()
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(min(mean, float(low)), mean, max(mean, float(high)))
