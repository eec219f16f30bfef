"""Suites expand to grids, built in or from a file, and say what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiment import MODES
from bench.suites import BUILT_IN, SuiteError, expand, find_suite


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_suites_hold_distinct_experiments_of_their_own_name(name: str) -> None:
    experiments = find_suite(name).experiments
    assert experiments
    assert len({experiment.id for experiment in experiments}) == len(experiments)
    assert {experiment.suite for experiment in experiments} == {name}


def test_quick_has_every_mode_and_tier_and_five_networks_of_each() -> None:
    suite = find_suite("quick")
    assert {e.mode for e in suite.experiments} == set(MODES)
    assert {"model", "simulate", "emulate", "live"} == {e.tier for e in suite.experiments}
    for family in suite.families:
        own = [e for e in suite.experiments if e.figure == family.figure and e.tier == "emulate"]
        assert {e.network for e in own} == set(range(5))
    assert len([e for e in suite.experiments if e.tier == "live"]) == 3


def test_paper_has_the_papers_sizes_and_shares_for_each_mode() -> None:
    sizes = {
        "unstructured": (84, 27, 7),
        "semi-structured": (79, 28, 7),
        "structured": (79, 28, 7),
    }
    experiments = [e for e in find_suite("paper").experiments if e.figure == "figures-19-28"]
    for mode, hierarchy in sizes.items():
        networks = [e for e in experiments if (e.tier, e.mode) == ("emulate", mode)]
        assert {e.sizes for e in networks} == {hierarchy}
        assert {(e.balance, e.dissemination, e.sure_links) for e in networks} == {
            (False, "eager", False)
        }
        assert all(e.replays >= 10_000 for e in networks)
        for tier in ("model", "simulate"):
            beside = {e.p_sel for e in experiments if (e.tier, e.sizes) == (tier, hierarchy)}
            assert beside == set(networks[0].p_sel_series)


def test_networks_of_one_number_share_their_seed_in_all_modes_and_settings() -> None:
    seeds: dict[int, set[int]] = {}
    for experiment in find_suite("quick").experiments:
        seeds.setdefault(experiment.network, set()).add(experiment.seed)
    assert all(len(own) == 1 for own in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds) == 5


def test_more_networks_come_with_each_look_up_to_the_budget() -> None:
    family = next(f for f in find_suite("quick").families if f.figure == "figures-19-28")
    assert [family.next_look(there) for there in (5, 10, 20)] == [10, 20, 20]
    more = family.between(5, 7)
    assert {e.network for e in more} == {5, 6}
    of_one = family.between(5, 7, "unstructured")
    assert {(e.network, e.mode) for e in of_one} == {(5, "unstructured"), (6, "unstructured")}


def test_networks_come_of_those_modes_that_may_decide_a_claim_within_the_budget() -> None:
    family = next(f for f in find_suite("quick").families if f.figure == "figures-19-28")
    place = ("figures-19-28", "published", "structured")
    assert family.wanted([(place, 9), (place, 7), (place, 1000)]) == ["structured"]
    assert not family.wanted([(place, 1000)])
    assert not family.wanted([(("figures-19-28", "shipped", "structured"), 9)])
    assert not family.wanted([(("churn", "published", "structured"), 9)])


def test_a_suite_may_be_cut_down_to_one_figure() -> None:
    only = find_suite("quick").only("table-1")
    assert {e.figure for e in only.experiments} == {"table-1"}
    with pytest.raises(SuiteError, match="figures-13-16"):
        find_suite("quick").only("figure-99")


def test_lists_are_axes_and_seeds_do_not_depend_on_the_other_values() -> None:
    few = expand("s", "f", tier="simulate", failed=[0.0, 0.5])
    more = expand("s", "f", tier="simulate", failed=[0.0, 0.25, 0.5])
    assert len(more) == 3
    assert {e.id for e in few} < {e.id for e in more}
    assert len({e.seed for e in more}) == 1


def test_a_suite_of_ones_own_is_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'about = "a third is down"\n[[grid]]\ntier = "simulate"\nsizes = [[100, 10]]\n'
        "failed = [0.0, 0.33]\nrepetitions = 5\n"
    )
    suite = find_suite(str(path))
    assert (suite.name, suite.about, len(suite.experiments)) == ("mine", "a third is down", 2)
    assert suite.experiments[0].sizes == (100, 10)
    path.write_text('[[grid]]\ntier = "live"\nmode = "structured"\np_sel_series = [0.1, 1]\n')
    [series] = find_suite(str(path)).experiments
    assert series.p_sel_series == (0.1, 1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[grid]\n", "not TOML"),
        ("about = 'x'\n", "no \\[\\[grid\\]\\]"),
        ("[[grid]]\nfigure = 'x'\n", "needs a tier"),
        ("[[grid]]\ntier = 'simulate'\nspeed = 3\n", "speed"),
        ("[[grid]]\ntier = 'simulate'\nsizes = [1, 2]\n", "sizes is a list of hierarchies"),
        (
            "[[grid]]\ntier = 'simulate'\nfailed_series = 0.1\n",
            "failed_series is a list of numbers",
        ),
        (
            "[[grid]]\ntier = 'simulate'\nloss = 'much'\n",
            "mine.toml: mine: loss is a finite number",
        ),
        ("[[grid]]\ntier = 'simulate'\nc = '5'\n", "mine.toml: mine: c is a finite number"),
        ("[[grid]]\ntier = 'simulate'\nz = 3.5\n", "mine.toml: mine: z is a whole number"),
        ("[[grid]]\ntier = 'simulate'\nseed = 0.5\n", "mine.toml: mine: seed is a whole number"),
        ("[[grid]]\ntier = 'simulate'\nloss = 1.5\n", "loss"),
        ("colour = 1\n[[grid]]\ntier = 'simulate'\n", "colour"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SuiteError, match=complaint):
        find_suite(str(path))


def test_a_suite_of_a_million_is_not_listed_on_the_driver() -> None:
    suite = find_suite(str(Path(__file__).parent.parent.parent / "docs" / "million.toml"))
    assert len(suite) == 1_000_000
    assert suite.experiments == ()
    assert {grid.at(0).tier for grid in suite.grids} == {"model", "simulate"}


def test_an_unknown_suite_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="quick, paper"):
        find_suite("fast")
    with pytest.raises(SuiteError, match="cannot read"):
        find_suite(str(tmp_path / "missing.toml"))
