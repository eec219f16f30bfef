"""The measurement of attacks measures what it says, in networks that are as small as can be."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from bench.workloads import attacks, floods
from bench.workloads.attacks import ATTACKS, CASES, Arena, Case


def figures(case: Case, attackers: int = 3) -> dict[str, float]:
    arena = Arena(case, argparse.Namespace(nodes=6, seed=1), attackers)
    arena.run()
    return arena.figures


def test_every_attack_has_a_case_with_a_defence_and_one_without_or_weaker() -> None:
    for attack in ATTACKS:
        assert len({case.defence for case in CASES if case.attack == attack}) > 1, attack


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BEFORE": 2, "DURING": 6, "NEWCOMERS": 2, "DRAWS": 50}.items():
        monkeypatch.setattr(attacks, name, value)


def test_an_attack_of_nobody_takes_nothing(short: None) -> None:
    assert figures(Case("censor", ""), attackers=0) == {"lost": 0.0, "recovered": 0.0}


@pytest.mark.sweep
@pytest.mark.parametrize("attack", ["censor", "promise"])
def test_members_that_turn_against_the_others_are_got_round(attack: str) -> None:
    """Half of all, each in the tree by which events go."""
    options = argparse.Namespace(nodes=16, seed=1)
    lost = []
    for case in (Case(attack, ""), Case(attack, "none", attacks.NO_REPAIR)):
        arena = Arena(case, options, 16)
        arena.run()
        lost.append(arena.figures["lost"])
    assert lost[0] == 0.0
    assert lost[1] > 10.0


def test_sybils_with_no_right_take_nothing(short: None) -> None:
    assert figures(Case("sybils", "rights", has_rights=True))["lost"] == 0.0


@pytest.mark.parametrize("settings", [{}, attacks.OPEN], ids=["sealed", "open"])
def test_strangers_get_back_less_than_they_send(short: None, settings: dict[str, Any]) -> None:
    assert figures(Case("amplification", "", settings), 1)["most"] <= 1.0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_newcomers_find_a_topic_though_24_next_to_its_key_lie(seed: int) -> None:
    arena = Arena(Case("eclipse", "the region"), argparse.Namespace(nodes=16, seed=seed), 24)
    arena.run()
    assert arena.figures["lost"] == 0.0


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
