"""The census: how well members know how many they are."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.membership.scamp.census import (
    AGREED_BY_ALL,
    AGREEING,
    EPOCH_HEARTBEATS,
    REGISTERS,
    Census,
)
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


def agree(members: list[Census], times: int, now: float) -> None:
    """Two members that know the same tell one another so often."""
    for _ in range(times):
        for one, other in (members, members[::-1]):
            one.merge(other.packed(now), now)


def test_an_epoch_is_ripe_when_its_draws_have_been_agreed_upon() -> None:
    members = censuses(30, seed=2)
    one, other = everyone_tells_one(members, now=1.0), members[1]
    agree([one, other], AGREEING + 1, now=1.0)
    one.packed(EPOCH)
    other.packed(EPOCH)
    assert one.size(EPOCH) == 30
    agree([one, other], AGREEING, now=EPOCH + 1)
    assert one.size(EPOCH + 1) == 30  # the first time they told each other news
    agree([one, other], 1, now=EPOCH + 1)
    assert one.size(EPOCH + 1) == other.size(EPOCH + 1) == 2


def test_who_hears_the_same_from_nobody_but_latecomers_is_not_sure() -> None:
    members = censuses(30, seed=2)
    one = everyone_tells_one(members, now=1.0)
    one.packed(RIPE)
    one.packed(EPOCH)
    for latecomer in members[1:10]:  # each brings its own draw alone
        one.merge(latecomer.packed(EPOCH), EPOCH)
    assert one.size(EPOCH) == 30


@pytest.mark.parametrize(("lost", "begins"), [(1, False), (2, True)])
def test_the_loss_of_a_sixth_of_the_view_begins_the_next_epoch(lost: int, begins: bool) -> None:
    members = censuses(2, seed=7)
    agree(members, AGREED_BY_ALL + 1, now=1.0)
    before = members[0].packed(1.0)
    for number in range(lost):
        members[0].lost_member(remaining=11 - number)
    assert (members[0].packed(1.0) != before) == begins


def test_the_next_epoch_waits_until_everyone_may_have_agreed() -> None:
    members = censuses(2, seed=7)
    agree(members, AGREEING, now=1.0)
    before = members[0].packed(1.0)
    members[0].lost_member(remaining=1)
    assert members[0].packed(1.0) == before
    agree(members, AGREEING + 1, now=1.0)
    assert members[0].packed(1.0) != before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "part"), [(30, 0.3), (200, 0.5)])
def test_the_living_know_how_many_they_are_soon_after_many_crash(
    size: int, part: float, seed: int
) -> None:
    community = ScampCommunity(seed)
    community.grow(size, interval=0.02)
    community.stage.run_for(75 + 20 * seed)
    community.crash_some(part)
    community.stage.run_for(80)
    alive = round(size * (1 - part))
    for member in community.members.values():
        assert member.size == pytest.approx(alive, rel=0.4)


@pytest.mark.parametrize("seed", range(4))
def test_those_who_stay_know_how_many_they_are_soon_after_many_leave(seed: int) -> None:
    community = ScampCommunity(seed)
    community.grow(30, interval=0.02)
    community.stage.run_for(75)
    for contact in list(community.members)[10:]:
        community.leave(contact)
    community.stage.run_for(36)
    assert {member.size for member in community.members.values()} == {10}


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
