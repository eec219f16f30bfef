"""Assertions about random results: four standard errors, so a right program fails once in 16,000 tests.

Seeds are fixed: what passes once passes always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SIGMAS = 4.0


def assert_share(successes: int, trials: int, probability: float) -> None:
    """`successes` of `trials` independent trials fit this probability."""
    error = math.sqrt(max(probability * (1 - probability), 1e-12) / trials)
    assert abs(successes / trials - probability) <= SIGMAS * error + 0.5 / trials, (
        f"{successes} of {trials} is {successes / trials:.5f}, not {probability:.5f} "
        f"within {SIGMAS * error:.5f}"
    )


def assert_mean(values: Sequence[float], expected: float, slack: float = 0.0) -> None:
    """The mean of independent values fits the expected one; `slack` allows for a known bias."""
    mean, error = mean_and_error(values)
    assert abs(mean - expected) <= SIGMAS * error + slack, (
        f"the mean {mean:.5f} of {len(values)} is not {expected:.5f} within {SIGMAS * error + slack:.5f}"
    )


def assert_same_mean(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Two samples fit one mean."""
    (one, error), (other, other_error) = mean_and_error(ours), mean_and_error(theirs)
    allowed = SIGMAS * math.hypot(error, other_error)
    assert abs(one - other) <= allowed + 1e-12, f"{one:.5f} is not {other:.5f} within {allowed:.5f}"


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of a sample and its standard error."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return mean, math.sqrt(variance / len(values))
