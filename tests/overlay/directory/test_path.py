"""Paths through the tree: what is weighed, and what is taken from them."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.directory.paths import Path, ShardPart
from overlay.directory.sampler import _Drawn
from overlay.directory.tree import Shard, topic_key
from overlay.directory.witnesses import ShardView
from tests.overlay.directory.model_network import ModelNetwork

TOPIC = topic_key("/soccer")


def view(
    depth: int, members: set[int], *, below: bool = False, interior: bool = False
) -> ShardView:
    return ShardView(
        shard=Shard(TOPIC, depth, 0),
        salt=5,
        members=frozenset(members),
        contacts={},
        witnesses=(),
        settled=True,
        interior=interior,
        below=below,
        hint=depth,
    )


def test_a_member_seen_at_two_depths_counts_at_the_deeper_one() -> None:
    path = Path((view(1, {1, 2, 3}, below=True), view(2, {3, 4})))
    assert [(part.view.shard.depth, set(part.members)) for part in path.parts] == [
        (2, {3, 4}),
        (1, {1, 2}),
    ]
    assert path.weight == 2 * 4 + 2 * 2


def test_a_path_without_members_weighs_nothing() -> None:
    assert Path((view(0, set()),)).weight == 0.0
    assert Path((view(3, set(), below=True), view(4, set()))).parts == ()


def test_the_leaf_is_where_nothing_is_below_and_home_where_the_advice_ends() -> None:
    splitting = Path((view(2, {1}, below=True, interior=True), view(3, {2})))
    assert (splitting.leaf.depth, splitting.home) == (3, 3)
    merging = Path((view(2, {1}, below=True), view(3, {2})))
    assert (merging.leaf.depth, merging.home) == (3, 2)
    overfull = Path((view(2, {1, 2}, interior=True),))
    assert (overfull.leaf.depth, overfull.home) == (2, 3)
    too_deep = Path((view(2, {1, 2}), view(3, set())))
    assert (too_deep.leaf.depth, too_deep.home) == (2, 2)


def test_a_draw_falls_on_those_already_taken_as_often_as_their_part_in_the_shard() -> None:
    """Else a sample would be spread over the shards more evenly than chance does."""
    sampler = ModelNetwork(seed=1, nodes=1).peer().service._sampler
    path = Path((view(0, set(range(10))),))
    repeated = 0
    for _ in range(2_000):
        drawn = _Drawn(this_process=-1)
        drawn.taken |= dict.fromkeys(range(4))
        repeated += not sampler._take(path, drawn)
    assert repeated == pytest.approx(800, abs=100)


def test_a_shard_is_chosen_by_its_part_of_the_weight() -> None:
    sampler = ModelNetwork(seed=1, nodes=1).peer().service._sampler
    path = Path((view(1, {1, 2, 3}, below=True), view(3, {4, 5})))
    chosen: Counter[int] = Counter()
    for _ in range(2_200):
        part: ShardPart = sampler._part(path)
        chosen[part.view.shard.depth] += 1
    assert chosen[3] == pytest.approx(2_200 * 16 / 22, abs=110)
