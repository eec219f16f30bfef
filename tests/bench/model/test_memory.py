"""Section 4.4 by hand, in table entries."""

from __future__ import annotations

import pytest

from bench.model.formulas import (
    ModelCommunity,
    broadcast_memory,
    camcast_memory,
    hierarchical_memory,
    multicast_memory,
)

PAPER = (ModelCommunity(1000), ModelCommunity(100), ModelCommunity(10))


def test_camcast_keeps_two_tables_and_the_root_one() -> None:
    assert camcast_memory(PAPER[0]) == pytest.approx(6.9078 + 5 + 3, abs=1e-4)
    assert camcast_memory(PAPER[2], root=True) == pytest.approx(2.3026 + 5, abs=1e-4)


def test_multicast_keeps_a_table_for_every_topic_below() -> None:
    assert multicast_memory(PAPER, 0) == pytest.approx(11.9078, abs=1e-4)
    assert multicast_memory(PAPER, 2) == pytest.approx(11.9078 + 9.6052 + 7.3026, abs=1e-3)


def test_the_other_alternatives_by_hand() -> None:
    assert broadcast_memory(1110, 5) == pytest.approx(7.0121 + 5, abs=1e-4)
    assert hierarchical_memory(10, 111, 5, 5) == pytest.approx(2.3026 + 4.7095 + 10, abs=1e-4)


def test_camcast_keeps_less_at_the_root_than_multicast_and_hierarchical() -> None:
    root = camcast_memory(PAPER[2], root=True)
    assert root < multicast_memory(PAPER, 2)
    assert root < hierarchical_memory(10, 111, 5, 5)
