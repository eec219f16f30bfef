"""Section 4.5.2: at parity both sides are equally reliable, and at the largest z equally large."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.formulas import (
    Admissible,
    broadcast_constant,
    broadcast_largest_z,
    broadcast_memory,
    broadcast_range,
    gossip_reliability,
    hierarchical_constant,
    hierarchical_largest_z,
    hierarchical_memory,
    hierarchical_range,
    hierarchical_reliability,
    multicast_constant,
    multicast_largest_z,
    multicast_range,
)

LEVELS = st.integers(1, 8)
PIT = st.floats(0.5, 1.0)
SHARE = st.floats(0.0, 0.98)


def within(admissible: Admissible, share: float) -> float:
    high = min(admissible.high, admissible.low + 12)
    return admissible.low + share * (high - admissible.low)


def test_the_admissible_ranges_by_hand() -> None:
    # -ln(-3 ln 0.99) = -ln(0.0301510), -ln(-ln 0.99) = -ln(0.0100503)
    assert broadcast_range(3, 0.99).high == pytest.approx(3.50154, abs=1e-4)
    assert multicast_range(0.99).high == pytest.approx(4.60015, abs=1e-4)
    assert (broadcast_range(3, 0.99).low, multicast_range(0.99).low) == (0.0, 0.0)
    # -ln(3 x 1.0100503 / 11) and -ln(0.0301510 / 11)
    both = hierarchical_range(3, 0.99, 10)
    assert (both.low, both.high) == pytest.approx((1.289283, 5.899435), abs=1e-4)


def test_a_certain_passing_on_leaves_no_upper_limit() -> None:
    assert broadcast_range(3, 1.0).high == math.inf
    assert multicast_constant(7.0, 1.0) == pytest.approx(7.0)


def test_the_constants_by_hand() -> None:
    # c = 2, x = 3, pit = 0.99: 2 - ln(1 - 3 x 7.389056 x 0.0100503) + ln 3
    assert broadcast_constant(2, 3, 0.99) == pytest.approx(3.350651, abs=1e-5)
    assert multicast_constant(2, 0.99) == pytest.approx(2.077164, abs=1e-5)
    assert hierarchical_constant(2, 3, 0.99, 10) == pytest.approx(0.721178, abs=1e-5)


@given(LEVELS, PIT, SHARE)
def test_camcast_is_then_as_reliable_as_broadcast(levels: int, pit: float, share: float) -> None:
    admissible = broadcast_range(levels, pit)
    if admissible.high <= 0:
        return
    c = within(admissible, share)
    ours = (gossip_reliability(broadcast_constant(c, levels, pit)) * pit) ** levels
    assert ours == pytest.approx(gossip_reliability(c), rel=1e-6)


@given(LEVELS, PIT, SHARE)
def test_camcast_is_then_as_reliable_as_multicast(levels: int, pit: float, share: float) -> None:
    c = within(multicast_range(pit), share)
    ours = (gossip_reliability(multicast_constant(c, pit)) * pit) ** levels
    assert ours == pytest.approx(gossip_reliability(c) ** levels, rel=1e-6)


@given(LEVELS, PIT, SHARE, st.integers(1, 100))
def test_camcast_is_then_as_reliable_as_hierarchical(
    levels: int, pit: float, share: float, clusters: int
) -> None:
    c = within(hierarchical_range(levels, pit, clusters), share)
    constant = hierarchical_constant(c, levels, pit, clusters)
    assert constant >= -1e-9
    ours = (gossip_reliability(constant) * pit) ** levels
    assert ours == pytest.approx(hierarchical_reliability(clusters, c, c), rel=1e-6)


def test_at_the_largest_z_memory_is_equal() -> None:
    c, x, pit, size = 2.0, 3, 0.99, 100
    ours = math.log(size) + broadcast_constant(c, x, pit)
    z = broadcast_largest_z(c, x, pit, processes=3000, community=size)
    assert ours + z == pytest.approx(broadcast_memory(3000, c))
    ours = math.log(size) + multicast_constant(c, pit)
    z = multicast_largest_z(c, x, pit, size)
    assert ours + z == pytest.approx(x * (math.log(size) + c))
    ours = math.log(size) + hierarchical_constant(c, x, pit, 10)
    z = hierarchical_largest_z(c, x, pit, 10)
    assert ours + z == pytest.approx(hierarchical_memory(10, size, c, c))


def test_the_largest_z_as_the_paper_writes_it() -> None:
    c, x, pit, n, size, clusters = 2.0, 3, 0.99, 3000, 100, 10
    loss = x * math.exp(c) * math.log(pit)
    assert broadcast_largest_z(c, x, pit, n, size) == pytest.approx(
        math.log(n) + math.log(1 + loss) - math.log(size) - math.log(x)
    )
    assert multicast_largest_z(c, x, pit, size) == pytest.approx(
        (x - 1) * (math.log(size) + c) + math.log(1 + math.exp(c) * math.log(pit))
    )
    assert hierarchical_largest_z(c, x, pit, clusters) == pytest.approx(
        c + math.log(clusters) + math.log(clusters + 1 + loss) - math.log(x)
    )


@pytest.mark.parametrize("c", [-0.1, 3.6])
def test_outside_the_range_there_is_no_parity(c: float) -> None:
    assert c not in broadcast_range(3, 0.99)
