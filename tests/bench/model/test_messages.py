"""Section 4.3 by hand: N (ln N + c) for 1000, 100 and 10 processes, and what climbs between them."""

from __future__ import annotations

import math

import pytest

from bench.model.formulas import (
    ModelCommunity,
    camcast_messages,
    gossip_messages,
    hierarchical_messages,
    multicast_messages,
    upward_messages,
)

PAPER = (ModelCommunity(1000), ModelCommunity(100), ModelCommunity(10, g=5))


def test_gossip_sends_n_times_ln_n_plus_c() -> None:
    assert gossip_messages(1000, 5) == pytest.approx(11907.755, abs=1e-3)
    assert gossip_messages(100, 5) == pytest.approx(960.517, abs=1e-3)
    assert gossip_messages(1, 0) == 0


def test_upward_messages_are_g_times_a_times_success() -> None:
    # N p_sel p_a z p_succ = 1000 x 0.005 x 1/3 x 3 x 0.85
    assert upward_messages(ModelCommunity(1000)) == pytest.approx(4.25)
    assert upward_messages(ModelCommunity(80, g=8, a=2, z=4, success=1)) == pytest.approx(16)


def test_camcast_adds_the_communities_and_what_climbs_below_the_root() -> None:
    # 11907.755 + 960.517 + 73.026 inside, 2 x 4.25 upward.
    assert camcast_messages(PAPER) == pytest.approx(12949.798, abs=1e-3)
    assert camcast_messages((ModelCommunity(100),)) == pytest.approx(960.517, abs=1e-3)


def test_the_alternatives_by_hand() -> None:
    assert gossip_messages(1110, 5) == pytest.approx(1110 * (7.0121 + 5), abs=0.1)
    assert multicast_messages(PAPER) == pytest.approx(12941.298, abs=1e-3)
    # C = 10 clusters of m = 111: 1110 (5 + 5 + 2.302585 + 4.709530)
    assert hierarchical_messages(10, 111, 5, 5) == pytest.approx(18883.45, abs=0.1)


def test_camcast_costs_what_multicast_costs_but_for_what_climbs() -> None:
    upward = 2 * 4.25
    assert camcast_messages(PAPER) - multicast_messages(PAPER) == pytest.approx(upward)


def test_messages_grow_as_n_ln_n() -> None:
    ratios = [gossip_messages(n, 5) / (n * math.log(n)) for n in (10**4, 10**6, 10**8)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.3
