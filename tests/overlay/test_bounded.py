"""Memories that do not grow for ever: what is kept, and what is forgotten first."""

from __future__ import annotations

import pytest

from overlay.bounded import Memo, remember


def test_a_memo_asks_once_for_each_key_and_forgets_all_when_it_is_full() -> None:
    asked: list[int] = []

    def double(key: int) -> int:
        asked.append(key)
        return 2 * key

    memo = Memo(double, 3)
    assert [memo[key] for key in (1, 2, 1, 2, 3)] == [2, 4, 2, 4, 6]
    assert asked == [1, 2, 3]
    assert (memo[4], dict(memo)) == (8, {4: 8})
    assert (memo[1], asked) == (2, [1, 2, 3, 4, 1])


def test_a_memo_keeps_nothing_where_there_is_no_answer() -> None:
    memo = Memo(int, 3)
    with pytest.raises(ValueError, match="invalid literal"):
        memo["one"]
    assert (memo["1"], dict(memo)) == (1, {"1": 1})


def test_the_pair_that_was_put_longest_ago_is_forgotten_first() -> None:
    memory: dict[str, int] = {}
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        remember(memory, key, value, 2)
    assert memory == {"a": 3, "c": 4}
