"""Suites expand to grids, built in or from a file, and say what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cost import estimated_seconds
from bench.suites import BUILT_IN, SuiteError, expand, find_suite


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_suites_hold_distinct_experiments_of_their_own_name(name: str) -> None:
    experiments = find_suite(name).experiments
    assert experiments
    assert len({experiment.id for experiment in experiments}) == len(experiments)
    assert {experiment.suite for experiment in experiments} == {name}


def test_quick_has_every_mode_and_the_tiers_that_need_no_processes() -> None:
    experiments = find_suite("quick").experiments
    assert {e.mode for e in experiments} == {
        "uniform",
        "unstructured",
        "semi-structured",
        "structured",
    }
    assert {"model", "simulate", "emulate"} <= {e.tier for e in experiments}


def test_paper_has_ten_networks_of_the_papers_sizes_for_each_mode() -> None:
    sizes = {
        "unstructured": (84, 27, 7),
        "semi-structured": (79, 28, 7),
        "structured": (79, 28, 7),
    }
    experiments = [e for e in find_suite("paper").experiments if e.figure == "figures-19-28"]
    for mode, hierarchy in sizes.items():
        networks = [e for e in experiments if (e.tier, e.mode) == ("emulate", mode)]
        assert len({e.seed for e in networks}) == 10
        assert {(e.sizes, e.repetitions) for e in networks} == {(hierarchy, 2)}
        assert [e.sizes for e in experiments if (e.tier, e.mode) == ("live", mode)] == [hierarchy]
        for tier in ("model", "simulate"):
            beside = {e.p_sel for e in experiments if (e.tier, e.sizes) == (tier, hierarchy)}
            assert beside == set(networks[0].p_sel_series)


@pytest.mark.parametrize(
    ("figure", "setting"),
    [("crashes-large", (5.0, 1.0, 3, 0.15)), ("p-sel-large", (0.0, 2.0, 4, 0.0))],
)
def test_paper_has_a_thousand_real_nodes_of_each_mode(
    figure: str, setting: tuple[float, ...]
) -> None:
    rows = [e for e in find_suite("paper").experiments if e.figure == figure]
    networks = [e for e in rows if e.tier == "emulate"]
    assert sorted(e.mode for e in networks) == ["semi-structured", "structured", "unstructured"]
    assert {e.sizes for e in rows} == {(1000, 100, 10)}
    assert {(e.c, e.a, e.z, e.loss) for e in rows} == {setting}
    values = {(point.failed, point.p_sel) for point in networks[0].points()}
    assert len(values) == 4
    for tier in ("model", "simulate"):
        assert {(e.failed, e.p_sel) for e in rows if e.tier == tier} == values


def test_the_dearest_experiments_of_paper_are_the_thousand_nodes() -> None:
    dearest_first = sorted(find_suite("paper").experiments, key=estimated_seconds, reverse=True)
    assert {e.figure for e in dearest_first[:6]} == {"crashes-large", "p-sel-large"}


def test_lists_are_axes_and_seeds_do_not_depend_on_the_other_values() -> None:
    few = expand("s", "f", tier="simulate", failed=[0.0, 0.5])
    more = expand("s", "f", tier="simulate", failed=[0.0, 0.25, 0.5])
    assert len(more) == 3
    assert {e.id for e in few} < {e.id for e in more}
    assert len({e.seed for e in more}) == 3


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
        ("[[grid]\n", "no TOML"),
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


def test_an_unknown_suite_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="quick, paper"):
        find_suite("fast")
    with pytest.raises(SuiteError, match="cannot read"):
        find_suite(str(tmp_path / "missing.toml"))
