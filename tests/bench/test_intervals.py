"""Intervals cover what they should, over all looks together, and shrink with networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.intervals import (
    ERROR,
    FEWEST,
    Interval,
    look_at,
    looks,
    mean_interval,
    networks_for,
    share_interval,
    wilson,
)
from overlay.errors import UsageError


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe (1998), table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (29, 29, 0.8830, 1),
    ],
)
def test_wilson_as_published(successes: int, trials: int, low: float, high: float) -> None:
    found = wilson(successes, trials)
    assert found.low == pytest.approx(low, abs=1e-4)
    assert found.high == pytest.approx(high, abs=1e-4)


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_wilson_stays_in_range_and_around_the_share(share: float, trials: int) -> None:
    successes = round(share * trials)
    found = wilson(successes, trials)
    assert 0 <= found.low <= successes / trials <= found.high <= 1


def test_no_proportion_is_refused() -> None:
    with pytest.raises(UsageError):
        wilson(3, 2)
    with pytest.raises(UsageError):
        mean_interval([])


def test_looks_share_one_error() -> None:
    errors = [look_at(look)[1] for look in looks(100_000)]
    assert sum(errors) < ERROR
    assert looks(40) == (5, 10, 20, 40)
    # What comes between two looks waits for the next.
    assert look_at(9) == look_at(5)
    assert look_at(9)[0] == 5
    assert look_at(FEWEST - 1)[0] == FEWEST - 1


@pytest.mark.parametrize("count", [5, 10, 50])
def test_a_mean_is_missed_as_often_as_is_said(count: int) -> None:
    chance = np.random.default_rng(count)
    missed = sum(not mean_interval(chance.normal(size=count)).contains(0.0) for _ in range(1000))
    assert 0.03 < missed / 1000 < 0.075


def test_whoever_looks_at_every_round_is_misled_as_seldom_as_is_said() -> None:
    """Peeking: the first look at which the truth is left out. With 5 % a look it is one run in six."""
    chance = np.random.default_rng(3)
    misled = naive = 0
    for _ in range(400):
        values = chance.binomial(200, 0.9, 40) / 200
        seen = [values[:look] for look in looks(40)]
        misled += any(not mean_interval(v, look_at(len(v))[1]).contains(0.9) for v in seen)
        naive += any(not mean_interval(v).contains(0.9) for v in seen)
    assert misled / 400 < 0.06
    assert naive / 400 > 0.1


def test_alike_everywhere_is_not_certain() -> None:
    found = share_interval([1.0] * 5, 50_000, 0.05)
    assert found.high == 1.0
    assert 0.9 < found.low < 0.99
    # Few events are worth no more than they are.
    assert share_interval([1.0] * 5, 10, 0.05).low < 0.8
    assert share_interval([1.0] * 20, 50_000, 0.05).low > found.low


def test_one_network_says_nothing_of_others() -> None:
    assert not mean_interval([0.5]).is_bounded
    assert mean_interval([0.5]).within(0.0, 1.0) == Interval(0.0, 0.5, 1.0)


def test_common_random_numbers_make_a_difference_sharper() -> None:
    chance = np.random.default_rng(1)
    common = chance.normal(0.8, 0.1, 10)
    ours, theirs = common + 0.02 + chance.normal(0, 0.002, 10), common
    apart = mean_interval(np.subtract(ours, theirs), 0.05)
    assert 0.015 < apart.low < apart.high < 0.025
    assert mean_interval(ours).low < mean_interval(theirs).high


def test_the_same_values_give_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(size=12)
    assert mean_interval(values) == mean_interval(values.tolist())


def test_the_look_that_is_thought_to_decide_gives_an_interval_so_narrow() -> None:
    """Values go on to vary as they did: half the width at each look is what was foreseen."""
    values = [(-1.0) ** number for number in range(40)]
    halves = {}
    for count in looks(40):
        found = mean_interval(values[:count], look_at(count)[1])
        halves[count] = (found.high - found.low) / 2
    for count in (10, 20, 40):
        assert networks_for(5, halves[5], 1.25 * halves[count]) == count
    assert networks_for(5, halves[5], 2 * halves[5]) == 10, "no look is looked at twice"
