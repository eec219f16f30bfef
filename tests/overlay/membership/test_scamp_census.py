"""The census: how well members know how many they are."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.membership.scamp.census import EPOCH_HEARTBEATS, REGISTERS, Census
from tests.overlay.membership.community import ScampCommunity

EPOCH = float(EPOCH_HEARTBEATS)
RIPE = EPOCH * 0.7


def censuses(count: int, seed: int) -> list[Census]:
    source = random.Random(seed)
    return [Census(source, now=0.0, heartbeat_seconds=1.0) for _ in range(count)]


def everyone_tells_one(members: list[Census], now: float) -> Census:
    for member in members[1:]:
        assert members[0].merge(member.packed(now), now)
    return members[0]


@pytest.mark.parametrize("count", [1, 2, 10, REGISTERS - 1])
def test_few_members_are_counted_exactly(count: int) -> None:
    assert everyone_tells_one(censuses(count, seed=1), now=1.0).size(RIPE) == count


def test_many_members_are_estimated_without_bias_to_an_eighth() -> None:
    estimates = [everyone_tells_one(censuses(500, seed), now=1.0).size(RIPE) for seed in range(60)]
    assert statistics.fmean(estimates) == pytest.approx(500, rel=0.05)
    assert 0.08 < statistics.stdev(estimates) / 500 < 0.18


def test_newcomers_count_at_once_and_leavers_until_the_next_epoch_is_ripe() -> None:
    members = censuses(30, seed=2)
    one = everyone_tells_one(members, now=1.0)
    assert one.size(1.0) == 30
    one.packed(EPOCH)
    assert one.size(EPOCH) == 30
    for member in members[1:10]:
        one.merge(member.packed(EPOCH), EPOCH)
    assert one.size(EPOCH + 1) == 30
    assert one.size(EPOCH + RIPE) == 10


def test_members_follow_whoever_is_in_a_later_epoch() -> None:
    early, late = censuses(2, seed=3)
    late.packed(EPOCH)
    assert early.merge(late.packed(EPOCH + 1), EPOCH + 1)
    assert late.merge(early.packed(EPOCH + 2), EPOCH + 2)
    assert late.size(EPOCH + RIPE) == early.size(EPOCH + RIPE) == 2


def test_an_epoch_that_is_over_is_ignored() -> None:
    old, new = censuses(2, seed=4)
    packed = old.packed(0.0)
    new.packed(EPOCH)
    assert new.merge(packed, EPOCH)
    assert new.size(EPOCH + RIPE) == 1


@given(st.binary(max_size=400))
def test_any_bytes_are_merged_or_refused(packed: bytes) -> None:
    (census,) = censuses(1, seed=5)
    accepted = census.merge(packed, 1.0)
    assert accepted == (len(packed) >= 5 and (len(packed) - 5) % 4 == 0 and len(packed) <= 261)
    assert census.size(1.0) >= 1
    assert len(census.packed(2.0)) <= 261


def test_members_of_a_community_agree_on_its_size_within_the_error() -> None:
    community = ScampCommunity(6)
    community.grow(300, interval=0.02)
    community.stage.run_for(75)
    sizes = [member.size for member in community.members.values()]
    assert max(sizes) == min(sizes)
    assert statistics.fmean(sizes) == pytest.approx(300, rel=0.4)  # three standard errors
