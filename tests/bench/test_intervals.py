"""Intervals cover what they promise to cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.intervals import bootstrap_mean, wilson
from overlay.errors import UsageError


@given(st.integers(1, 10_000), st.data())
def test_wilson_stays_in_the_unit_interval_around_its_estimate(
    trials: int, data: st.DataObject
) -> None:
    successes = data.draw(st.integers(0, trials))
    found = wilson(successes, trials)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == successes / trials


def test_wilson_gives_the_textbook_value() -> None:
    found = wilson(8, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_wilson_does_not_claim_certainty_from_a_few_successes() -> None:
    assert wilson(10, 10).low < 0.8


def test_bootstrap_covers_the_true_mean_about_nineteen_times_in_twenty() -> None:
    generator = np.random.default_rng(1)
    covered = sum(
        bootstrap_mean(generator.normal(3.0, 1.0, 60), seed).contains(3.0) for seed in range(200)
    )
    assert 178 <= covered <= 199


def test_bootstrap_is_the_same_for_the_same_seed() -> None:
    values = np.arange(20.0)
    assert bootstrap_mean(values, 7) == bootstrap_mean(values, 7)


def test_what_is_no_sample_is_refused() -> None:
    with pytest.raises(UsageError, match="no proportion"):
        wilson(3, 2)
    with pytest.raises(UsageError, match="no values"):
        bootstrap_mean(np.array([]), 0)
