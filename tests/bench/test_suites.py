"""Suites expand to grids, built in or from a file, and say what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("[[grid]]\ntier = 'simulate'\nloss = 'much'\n", "mine.toml"),
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
