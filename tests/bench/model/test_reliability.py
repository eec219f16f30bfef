"""Section 4.5.1 by hand, and how far its pit is from one with every draw made."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.formulas import (
    ModelCommunity,
    camcast_reliability,
    drawn_passing_probability,
    gossip_reliability,
    hierarchical_reliability,
    multicast_reliability,
    no_upward_probability,
    passing_probability,
    susceptible_processes,
)

PAPER = (ModelCommunity(1000), ModelCommunity(100), ModelCommunity(10))


def test_gossip_reliability_by_hand() -> None:
    assert gossip_reliability(0) == pytest.approx(0.367879, abs=1e-6)
    assert gossip_reliability(5) == pytest.approx(0.993285, abs=1e-6)


def test_passing_on_by_hand() -> None:
    assert susceptible_processes(ModelCommunity(1000, reached=0.5)) == pytest.approx(2.5)
    # 0.15^5 and, with half the community reached, 0.15^2.5
    assert no_upward_probability(ModelCommunity(1000)) == pytest.approx(7.59375e-5)
    assert passing_probability(ModelCommunity(1000, reached=0.5)) == pytest.approx(
        1 - 0.0087142, abs=1e-6
    )


def test_every_draw_made_by_hand() -> None:
    # One process, a link for sure, one entry sent to for sure: p_succ itself.
    sure = ModelCommunity(1, g=1, a=1, z=1, success=0.85)
    assert drawn_passing_probability(sure) == pytest.approx(0.85)
    # The paper's: 1 - (1 - 0.005 (1 - (1 - 0.85 / 3)^3))^1000
    assert drawn_passing_probability(ModelCommunity(1000)) == pytest.approx(0.957767, abs=1e-5)


@given(st.integers(1, 10**6), st.integers(1, 8), st.floats(0, 1), st.floats(0, 1))
def test_the_paper_is_never_below_every_draw_made(
    processes: int, z: int, success: float, reached: float
) -> None:
    community = ModelCommunity(
        processes, g=min(5, processes), z=z, success=success, reached=reached
    )
    assert drawn_passing_probability(community) <= passing_probability(community) + 1e-9


def test_camcast_multiplies_gossip_and_passing_on() -> None:
    gossip, pit = gossip_reliability(5), 1 - 0.15**5
    assert camcast_reliability(PAPER, 2) == pytest.approx(gossip**3 * pit**3)
    assert camcast_reliability(PAPER, 0) == pytest.approx(gossip * pit)


def test_the_alternatives_by_hand() -> None:
    assert multicast_reliability(PAPER, 2) == pytest.approx(0.979989, abs=1e-5)
    assert hierarchical_reliability(10, 5, 5) == pytest.approx(math.exp(-11 * math.exp(-5)))


def test_camcast_is_less_reliable_than_multicast_in_general() -> None:
    assert camcast_reliability(PAPER, 2) < multicast_reliability(PAPER, 2) < gossip_reliability(5)
