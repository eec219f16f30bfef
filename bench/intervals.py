"""Intervals of means over networks, of shares, and of differences; valid however often one looks.

Events on one network share its tables, so a network is what was drawn: an interval is of the mean over
networks, from one value for each. It is the percentile bootstrap, stretched so that its width is right for
few networks (Hesterberg's expanded interval: Student's quantile in place of the normal one, and n/(n - 1) for
the variance). Two modes are compared by the bootstrap of the difference, network by network.

**Looks.** Networks come in rounds until a claim is decided, so results are looked at more than once. Looks
are at 5, 10, 20, 40, ... networks, and the k-th has the error 0.05 / (k (k + 1)): over all looks together
at most 0.05, whatever depends on what, however many rounds there are, and whenever one stops (the union
bound). What comes between two looks waits for the next. Confidence sequences that may be looked at after
every network (by betting, or by mixtures) hold for any distribution of bounded values; with ten networks
they are wider than half of the range, and decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from overlay.errors import UsageError

ERROR = 0.05
"""The probability, over all looks together, that an interval misses."""
FEWEST = 5
"""Networks of the first look: fewer decide nothing of real nodes."""
GROWTH = 2.0
"""How much further the next look is."""
RESAMPLES = 4000
CORRELATION = 0.05
"""Of two events on one network, the correlation that is assumed where all events were alike, which shows
none: n networks are then worth at most n / CORRELATION events. An assumption, chosen to be cautious; it has
not been measured."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the bounds around it; infinite bounds where one network tells nothing of others."""

    low: float
    value: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def within(self, least: float, most: float) -> Interval:
        """The same interval, its bounds inside what the quantity can be."""
        return Interval(max(self.low, least), self.value, min(self.high, most))

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.value * factor, self.high * factor)

    def shifted(self, by: float) -> Interval:
        return Interval(self.low + by, self.value + by, self.high + by)

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


@lru_cache
def looks(most: int) -> tuple[int, ...]:
    """The numbers of networks at which results are looked at, up to `most`."""
    found = [FEWEST]
    while (following := round(found[-1] * GROWTH)) <= most:
        found.append(following)
    return tuple(found)


def look_at(networks: int) -> tuple[int, float]:
    """How many of the networks are looked at, and the error that this look may make.

    Fewer than `FEWEST` are shown with the first look's error, and decide nothing.
    """
    if networks < FEWEST:
        return networks, ERROR / 2
    scheduled = looks(networks)
    number = len(scheduled)
    return scheduled[-1], ERROR / (number * (number + 1))


MOST_LOOKS = 20
"""Of those that are thought ahead to: five million networks, which nobody runs."""


def networks_for(networks: int, half: float, narrow: float) -> int:
    """About how many networks an interval needs to be `narrow` to either side, if it is `half` with
    `networks`: the first later look that gives one so narrow, with its error and Student's quantile."""
    spread = half / _reach(networks)
    later = (round(FEWEST * GROWTH**number) for number in range(MOST_LOOKS))
    found = (look for look in later if look > networks)
    return next((look for look in found if spread * _reach(look) <= narrow), 2**MOST_LOOKS)


def _reach(networks: int) -> float:
    """Half the width of the interval of a mean over networks that deviate by 1."""
    used, error = look_at(networks)
    return float(stdtrit(used - 1, 1 - error / 2)) / math.sqrt(used)


def wilson(successes: float, trials: float, error: float = ERROR) -> Interval:
    """Wilson's score interval of a proportion; it stays inside [0, 1] and is right at 0 and 1 too."""
    if trials < 1 or not 0 <= successes <= trials:
        raise UsageError(f"{successes} of {trials} is not a proportion")
    z = NormalDist().inv_cdf(1 - error / 2)
    share = successes / trials
    scale = 1 + z**2 / trials
    centre = (share + z**2 / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / scale
    # Rounding must not push the bounds past the estimate where it is 0 or 1.
    return Interval(max(0.0, min(share, centre - half)), share, min(1.0, max(share, centre + half)))


def mean_interval(values: Sequence[float] | Values, error: float = ERROR) -> Interval:
    """The mean of independent values; the same for the same values in the same order."""
    found = np.asarray(values, dtype=np.float64)
    if not len(found):
        raise UsageError("no values to take the mean of")
    mean = float(found.mean())
    if len(found) == 1:
        return Interval(-math.inf, mean, math.inf)
    if float(found.min()) == float(found.max()):
        return Interval(mean, mean, mean)
    means = _weights(len(found)) @ found
    low, high = (float(bound) for bound in np.quantile(means, (error / 2, 1 - error / 2)))
    stretch = _stretch(len(found), error)
    return Interval(
        min(mean, mean + stretch * (low - mean)), mean, max(mean, mean + stretch * (high - mean))
    )


def share_interval(values: Sequence[float] | Values, events: float, error: float) -> Interval:
    """The mean share of events, from the share of each network; `events` are those of all together.

    Where all networks are at 0 or all at 1, which shows no spread, it is Wilson's for as many events as the
    networks are worth at least.
    """
    found = np.asarray(values, dtype=np.float64)
    first = float(found[0])
    if first in (0.0, 1.0) and bool((found == first).all()):
        worth = max(1.0, min(events, len(found) / CORRELATION))
        return wilson(first * worth, worth, error)
    return mean_interval(found, error).within(0.0, 1.0)


@lru_cache(maxsize=64)
def _weights(count: int) -> Values:
    """How much of each value each resample has: a resample's mean is a product, the same draws for all."""
    generator = np.random.default_rng([RESAMPLES, count])
    drawn = generator.multinomial(count, [1 / count] * count, RESAMPLES)
    weights: Values = drawn / count
    return weights


@lru_cache(maxsize=1024)
def _stretch(count: int, error: float) -> float:
    normal = NormalDist().inv_cdf(1 - error / 2)
    student = float(stdtrit(count - 1, 1 - error / 2))
    return student / normal * math.sqrt(count / (count - 1))
