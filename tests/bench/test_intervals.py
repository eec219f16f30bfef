"""Intervals cover what they promise to cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.intervals import (
    Z_95,
    bootstrap_mean,
    bootstrap_means,
    errors_above,
    grouped_proportion,
    wilson,
)
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


def networks(generator: np.random.Generator, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Ten networks with two events each, whose mean is 3 over all networks."""
    own = generator.normal(3.0, spread, (10, 1)) + generator.normal(0.0, 1.0, (10, 2))
    return own.ravel(), np.repeat(np.arange(10), 2)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_intervals_cover_though_events_of_a_network_are_alike(spread: float) -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for seed in range(200):
        values, groups = networks(generator, spread)
        covered += bootstrap_mean(values, seed, groups).contains(3.0)
    assert covered >= 178


def test_one_network_asked_ten_times_is_no_ten_networks() -> None:
    values, groups = np.repeat([0.0, 1.0, 0.5, 0.2, 0.9], 10), np.repeat(np.arange(5), 10)
    once = bootstrap_mean(values[::10], 1)
    often = bootstrap_mean(values, 1, groups)
    assert often.high - often.low >= 0.9 * (once.high - once.low)


def test_groups_may_differ_in_size() -> None:
    values = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    found = bootstrap_means([values, values], 3, [np.array([0, 1, 1, 1, 2]), np.arange(5)])
    assert all(own.low <= own.value <= own.high for own in found)
    assert found[0].value == pytest.approx(0.4)


def test_a_proportion_of_groups_is_worth_its_groups() -> None:
    groups = np.repeat(np.arange(10), 2)
    assert grouped_proportion(np.ones(20), groups) == wilson(10, 10)
    alike = np.repeat([1.0, 0.0] * 5, 2)
    assert grouped_proportion(alike, groups).high == pytest.approx(wilson(5, 10).high, abs=0.02)
    apart = np.array([1.0, 0.0] * 10)
    assert grouped_proportion(apart, groups) == wilson(10, 20)
    assert grouped_proportion(apart, np.arange(20)) == wilson(10, 20)


def test_a_bound_of_wilson_is_as_far_as_it_says() -> None:
    found = wilson(8, 10)
    assert errors_above(found, found.high) == pytest.approx(Z_95)
    assert errors_above(found, 0.5) == 0
    certain = wilson(0, 30)
    assert errors_above(certain, certain.high) == pytest.approx(Z_95)
    assert errors_above(wilson(9, 10), 1.0) == np.inf
