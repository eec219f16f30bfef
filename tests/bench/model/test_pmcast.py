"""PMcast's tree by hand: ten subgroups of ten, two delegates each."""

from __future__ import annotations

import pytest

from bench.model.formulas import (
    DelegateTree,
    pmcast_memory,
    pmcast_rounds,
    pmcast_uninterested,
    pushed_rounds,
)

TREE = DelegateTree(arity=10, depth=2, delegates=2, fanout=3)


def test_a_process_knows_delegates_and_neighbours() -> None:
    assert TREE.arity**TREE.depth == 100
    assert pmcast_memory(TREE) == 2 * 10 + 10
    assert pmcast_memory(DelegateTree(10, 1, 2, 3)) == 10


def test_interest_adds_up_towards_the_root() -> None:
    assert TREE.interested_share(2, 0.1) == pytest.approx(0.1)
    assert TREE.interested_share(1, 0.1) == pytest.approx(1 - 0.9**10)


def test_rounds_by_hand() -> None:
    # ln 100 (1/3 + 1/ln 4)
    assert pushed_rounds(100, 3) == pytest.approx(4.605170 * (0.333333 + 0.721348), abs=1e-5)
    everyone = pushed_rounds(20, 3) + pushed_rounds(10, 3)
    assert pmcast_rounds(TREE, interested=1, success=1) == pytest.approx(everyone)
    assert pmcast_rounds(TREE, interested=1, success=0.85) > everyone
    assert pmcast_rounds(TREE, interested=0, success=1) == 0


def test_delegates_handle_what_they_are_not_interested_in() -> None:
    expected = 10 * (1 - 0.9**10) * 2 * 0.9
    assert pmcast_uninterested(TREE, 0.1) == pytest.approx(expected)
    assert pmcast_uninterested(TREE, 1) == 0
    assert pmcast_uninterested(DelegateTree(10, 1, 2, 3), 0.1) == 0
