"""How long a datagram is on its way.

A model that varies also reorders: a later datagram with a shorter way overtakes an earlier one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True)
class Latency:
    """A distribution of one-way delays; make one with the class methods below."""

    name: str
    parameters: tuple[float, ...]

    @classmethod
    def constant(cls, seconds: float) -> Latency:
        """Always the same: no reordering."""
        _require(seconds >= 0, f"a constant latency is not negative: {seconds}")
        return cls("constant", (seconds,))

    @classmethod
    def uniform(cls, low: float, high: float) -> Latency:
        """Evenly spread between `low` and `high` seconds."""
        _require(0 <= low <= high, f"a uniform latency needs 0 <= low <= high: {low}, {high}")
        return cls("uniform", (low, high))

    @classmethod
    def exponential(cls, floor: float, mean: float) -> Latency:
        """`floor` seconds and an exponential tail; `mean` seconds in all on average."""
        _require(
            0 <= floor < mean, f"an exponential latency needs 0 <= floor < mean: {floor}, {mean}"
        )
        return cls("exponential", (floor, mean))

    @classmethod
    def lognormal(cls, median: float, sigma: float) -> Latency:
        """Half of the delays under `median` seconds, and a long tail as on the Internet: the logarithm
        of the delay has the standard deviation `sigma` (0.5: one delay in a hundred above 3.2 medians)."""
        _require(
            median > 0 and sigma >= 0,
            f"a lognormal latency needs median > 0 and sigma >= 0: {median}, {sigma}",
        )
        return cls("lognormal", (median, sigma))

    def sampler(self, source: random.Random) -> Callable[[], float]:
        """A function that draws one delay after another from `source`."""
        if self.name == "constant":
            (seconds,) = self.parameters
            return lambda: seconds
        first, second = self.parameters
        draw = source.random
        if self.name == "uniform":
            span = second - first
            return lambda: first + span * draw()
        if self.name == "exponential":
            tail = second - first
            return lambda: first - tail * math.log(1.0 - draw())
        log_median = math.log(first)
        return lambda: source.lognormvariate(log_median, second)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UsageError(otherwise)
