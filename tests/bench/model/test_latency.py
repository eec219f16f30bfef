"""Section 4.6 by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.formulas import (
    broadcast_latency,
    camcast_average_latency,
    camcast_best_latency,
    camcast_latency_bound,
    camcast_worst_latency,
    gossip_rounds,
    group_latency,
)

PAPER = (1000, 100, 10)


def test_rounds_of_one_community_by_hand() -> None:
    assert gossip_rounds(1000) == pytest.approx(6.907755 / 1.932645, abs=1e-5)
    assert gossip_rounds(10) == pytest.approx(2.302585 / 0.834032, abs=1e-5)


def test_camcast_by_hand() -> None:
    r1000, r100, r10 = 3.574249, 3.015473, 2.760787
    assert camcast_best_latency(PAPER) == pytest.approx(2 + r10, abs=1e-4)
    assert camcast_worst_latency(PAPER) == pytest.approx(r1000 + r100 + r10 + 2, abs=1e-4)
    assert camcast_average_latency(PAPER) == pytest.approx((r1000 + r100 + r10) / 2 + 2, abs=1e-4)
    assert camcast_latency_bound(PAPER) == pytest.approx(3 * (r1000 + 1), abs=1e-4)


def test_the_alternatives_by_hand() -> None:
    assert broadcast_latency(PAPER) == pytest.approx(7.012115 / 1.947640, abs=1e-4)
    assert group_latency(PAPER) == pytest.approx(3.574249, abs=1e-5)


@given(st.lists(st.integers(16, 10**8), min_size=1, max_size=6))
def test_best_average_worst_and_bound_are_in_order(sizes: list[int]) -> None:
    worst = camcast_worst_latency(sizes)
    assert camcast_best_latency(sizes) <= worst + 1e-9
    assert camcast_average_latency(sizes) <= worst
    assert worst <= camcast_latency_bound(sizes)
