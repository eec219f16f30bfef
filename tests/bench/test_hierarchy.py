"""In which order the nodes of a chain of communities join."""

from __future__ import annotations

import pytest

from bench.populations.hierarchy import join_order


@pytest.mark.parametrize("sizes", [(1000, 100, 10), (84, 27, 7), (3, 2, 1)])
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_everyone_joins_the_root_first_and_in_batches(sizes: tuple[int, ...], share: float) -> None:
    joined, levels = [0] * len(sizes), []
    for level, count in join_order(sizes, at_once=40, share=share):
        assert 0 < count <= max(40, share * sum(joined))
        joined[level] += count
        levels.append(level)
    assert joined == list(sizes)
    assert levels == sorted(levels, reverse=True)


def test_a_share_of_those_who_are_there_makes_fewer_batches() -> None:
    sizes = (1000, 100, 10)
    assert len(list(join_order(sizes, 40, 0.25))) < len(list(join_order(sizes, 40)))
