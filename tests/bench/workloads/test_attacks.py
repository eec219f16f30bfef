"""The measurement of attacks measures what it says, in networks that are as small as can be."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from bench.workloads import arena, attacks, floods
from bench.workloads.arena import Arena, Case
from bench.workloads.attacks import ATTACKS, CASES, attack_of, summed_up


def figures(case: Case, attackers: int = 3, nodes: int = 6, seed: int = 1) -> dict[str, float]:
    place = Arena(attack_of(case), case, nodes, attackers, seed)
    place.run()
    return place.figures


def in_three_networks(case: Case, figure: str) -> list[float]:
    return [figures(case, 16, nodes=16, seed=seed)[figure] for seed in (1, 2, 3)]


def test_every_attack_has_a_case_with_a_defence_and_one_without_or_weaker() -> None:
    assert {case.attack.partition(",")[0] for case in CASES} == set(ATTACKS)
    for attack in {case.attack for case in CASES}:
        assert len({case.defence for case in CASES if case.attack == attack}) > 1, attack


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "BEFORE", 2)
    monkeypatch.setattr(arena, "DURING", 6)


def test_one_network_that_did_not_recover_leaves_no_time_to_recover() -> None:
    found = summed_up([{"lost": 2.0, "recovered": 3.0}, {"lost": 8.0}])
    assert found == {"lost": 5.0, "worst": 8.0}
    found = summed_up([{"lost": 0.0, "recovered": 0.0}, {"lost": 1.0, "recovered": 4.0}])
    assert found == {"lost": 0.5, "worst": 1.0, "recovered": 4.0}


def test_an_attack_of_nobody_takes_nothing(short: None) -> None:
    found = figures(Case("censor", ""), attackers=0)
    assert found["lost"] == found["recovered"] == 0.0
    assert found["delay"] < 200


@pytest.mark.sweep
@pytest.mark.parametrize("attack", ["censor", "promise"])
def test_members_that_turn_against_the_others_are_got_round(attack: str) -> None:
    """Half of all, each in the tree by which events go. How many events a network loses without the defence
    depends on where they stand, and may be none: so three networks together."""
    cases = (Case(attack, ""), Case(attack, "none", attacks.NO_REPAIR))
    defended, bare = (in_three_networks(case, "lost") for case in cases)
    assert defended == [0.0, 0.0, 0.0]
    assert sum(bare) / len(bare) > 10.0


@pytest.mark.sweep
def test_who_is_asked_for_an_event_becomes_the_parent_and_sends_the_next_ones_at_once() -> None:
    cases = (Case("censor", ""), Case("censor", "", turn_off=attacks.parents_stay))
    changed, same = (in_three_networks(case, "delay") for case in cases)
    assert all(one <= other for one, other in zip(changed, same, strict=True))
    assert sum(changed) < 0.7 * sum(same)


def test_sybils_with_no_right_take_nothing(short: None) -> None:
    assert figures(Case("sybils", "rights", has_rights=True))["lost"] == 0.0


@pytest.mark.parametrize("settings", [{}, attacks.OPEN], ids=["sealed", "open"])
def test_strangers_get_back_less_than_they_send(short: None, settings: dict[str, Any]) -> None:
    assert figures(Case("amplification", "", settings), 1)["most"] <= 1.0


def test_without_long_questions_strangers_get_back_more_than_they_send(short: None) -> None:
    case = Case("amplification", "none", attacks.OPEN, turn_off=attacks.strangers_are_trusted)
    assert figures(case, 1)["most"] > 1.0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2, 3, 8])
@pytest.mark.parametrize("attackers", [12, 24])
def test_newcomers_find_a_topic_though_those_next_to_its_key_lie_and_name_only_each_other(
    attackers: int, seed: int
) -> None:
    """In the networks 1 and 8 honest nodes are few around the key, by chance."""
    case = Case("eclipse", "the region, disjoint paths")
    assert figures(case, attackers, 16, seed)["lost"] == 0.0


@pytest.mark.sweep
def test_without_the_region_twelve_next_to_a_key_keep_every_newcomer_out() -> None:
    case = Case("eclipse", "none", turn_off=attacks.no_region)
    assert figures(case, 12, 16)["lost"] > 90.0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_members_find_each_other_though_a_third_of_those_that_start_at_once_lie_about_the_topic(
    seed: int,
) -> None:
    case = Case("cold boot", "the region, disjoint paths")
    assert figures(case, 7, 16, seed)["lost"] == 0.0
    bare = Case("cold boot", "none", turn_off=attacks.no_region)
    assert figures(bare, 7, 16, seed)["lost"] > 90.0


@pytest.mark.sweep
def test_thirty_channels_of_one_host_keep_no_newcomer_out_where_rights_are_asked_for() -> None:
    """The seed with which members had no place for a channel in which to ask newcomers for their rights."""
    case = Case("slots", "", attacks.FEW_CHANNELS, has_rights=True)
    assert figures(case, 30, 16, seed=3)["lost"] == 0.0


def test_a_right_that_has_ended_gives_nothing_whatever_the_clock_of_its_holder_says(
    short: None,
) -> None:
    assert figures(Case("clock", "rights", has_rights=True), 1)["stolen"] == 0.0
    assert figures(Case("clock", "none"), 1)["stolen"] > 0.0


@pytest.mark.sweep
@pytest.mark.parametrize("is_sealed", [True, False])
def test_hostile_datagrams_are_bounded_in_what_they_cost_and_leave(is_sealed: bool) -> None:
    """A tenth of the million of `camcast bench floods`."""
    options = argparse.Namespace(datagrams=100_000, seed=1)
    for kind in floods.KINDS if is_sealed else floods.KINDS[:-1]:
        rows = floods.hand_over(is_sealed, kind, options)
        found = {row.metric: row.value for row in rows}
        assert found["works"] == 1.0, kind
        assert found["grown"] <= 24.0, kind  # caches of addresses that have a bound; MB
        if is_sealed:
            assert found["back"] <= 1.0, kind
