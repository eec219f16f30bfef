"""Classical results at values that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.formulas import final_size, gossip_reliability
from tests.bench.model.epidemics import effective_fanout, everyone_reached, extinction


def test_final_sizes_known_by_heart() -> None:
    assert final_size(2) == pytest.approx(0.7968121300, abs=1e-9)
    assert final_size(1) == 0
    assert final_size(0.5) == 0
    assert final_size(20) == pytest.approx(1, abs=1e-8)


@given(st.floats(1.0001, 50))
def test_the_final_size_solves_its_equation_and_is_not_zero(fanout: float) -> None:
    reached = final_size(fanout)
    assert reached > 0
    assert reached == pytest.approx(1 - math.exp(-fanout * reached), abs=1e-12)


def test_extinction_by_hand() -> None:
    # q = (1/4 + 3/4 q)^2, that is 9 q^2 - 10 q + 1 = 0
    assert extinction(2, 0.75) == pytest.approx(1 / 9, abs=1e-9)
    assert extinction(5, 0) == 1
    assert extinction(3, 1) == 0
    assert extinction(0, 1) == 1


def test_everyone_is_reached_with_exp_minus_exp_minus_c() -> None:
    assert everyone_reached(1000, math.log(1000) + 2) == pytest.approx(gossip_reliability(2))


def test_crashed_receivers_and_losses_thin_the_fanout() -> None:
    assert effective_fanout(11, 0.85, failed=0.3) == pytest.approx(6.545)
