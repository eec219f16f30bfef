"""What is called the paper's is the paper's: its equations by hand, with the product over the communities."""

from __future__ import annotations

import dataclasses
import math

import pytest

from bench.model.printed import PrintedSetting

PAPER = PrintedSetting(
    sizes=(1000, 100, 10), c=5.0, g=5.0, p_sel=None, a=1.0, z=3, loss=0.15, failed=0.0
)
GOSSIP = math.exp(-math.exp(-5))
PIT = 1 - 0.15**5


def test_reliability_is_the_product_over_the_communities_below() -> None:
    for level in range(3):
        expected = (GOSSIP * PIT) ** (level + 1)
        assert PAPER.in_community("reliability", level) == pytest.approx(expected)


def test_crashes_count_for_p_succ_and_pi_alone() -> None:
    crashed = dataclasses.replace(PAPER, failed=0.4, pi=0.6)
    pit = 1 - (1 - 0.85 * 0.6) ** (5 * 0.6)
    assert crashed.in_community("reliability", 1) == pytest.approx((GOSSIP * pit) ** 2)
    assert crashed.pit == pytest.approx(pit)


def test_messages_are_those_of_section_4_3() -> None:
    assert PAPER.in_community("messages_inside", 1) == pytest.approx(100 * (math.log(100) + 5))
    assert PAPER.in_community("messages_upward", 0) == pytest.approx(5 * 0.85)
    assert PAPER.in_community("reception", 0) is None


def test_links_are_p_sel_where_it_is_given() -> None:
    linked = dataclasses.replace(PAPER, p_sel=0.1, loss=0.5)
    assert linked.pit == pytest.approx(1 - 0.5**10)  # of the middle community, the smaller one


def test_the_alternatives_by_hand() -> None:
    one = PAPER.all_together("broadcast", 1110, 10)
    assert one["reliability"] == pytest.approx(GOSSIP)
    assert one["messages_inside"] == pytest.approx(1110 * (math.log(1110) + 5))
    two = PAPER.all_together("multicast", 1110, 10)
    assert two["reliability"] == pytest.approx(GOSSIP**3)
    three = PAPER.all_together("hierarchical", 1110, 10)
    assert three["reliability"] == pytest.approx(math.exp(-11 * math.exp(-5)))
    ours = PAPER.all_together("camcast", 1110, 10)
    assert ours["reliability"] == pytest.approx((GOSSIP * PIT) ** 3)
    assert ours["messages_upward"] == pytest.approx(2 * 4.25)
    tables = 1000 * (math.log(1000) + 8) + 100 * (math.log(100) + 8) + 10 * (math.log(10) + 5)
    assert ours["table_entries"] == pytest.approx(tables / 1110)
