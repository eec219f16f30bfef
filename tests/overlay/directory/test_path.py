"""Paths through the tree: what is weighed, and what is taken from them."""

from __future__ import annotations

import pytest

from overlay.directory.paths import Path
from overlay.directory.sampler import _Drawn
from overlay.directory.tree import BITS_OF_POINT, Shard, topic_key
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


def marked(first_bits: str, number: int) -> int:
    """The fingerprint of a member whose point begins with these bits."""
    return int(first_bits.ljust(BITS_OF_POINT, "0") + f"{number:020b}", 2)


def test_a_member_seen_at_two_depths_counts_once_and_is_taken_from_the_deeper_one() -> None:
    one, two, three = (marked("000", number) for number in (1, 2, 3))
    path = Path((view(1, {one, two}, below=True), view(2, {two, three})))
    assert {mark: seen.shard.depth for mark, seen in path.members.items()} == {
        one: 1,
        two: 2,
        three: 2,
    }
    assert path.weight == 3 * 4


def test_who_is_held_above_counts_around_its_own_point_only() -> None:
    """Else a member that has moved down would count here for its former place, and there for its new one."""
    here, there = marked("00", 1), marked("01", 1)
    path = Path((view(1, {here, there}, below=True), view(2, {marked("00", 2)})))
    assert set(path.members) == {here, marked("00", 2)}
    assert path.weight == 2 * 4


def test_a_path_without_members_weighs_nothing() -> None:
    assert Path((view(0, set()),)).weight == 0.0
    assert Path((view(3, set(), below=True), view(4, set()))).weight == 0.0


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
