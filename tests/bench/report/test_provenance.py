"""How it was made: the runs that were, their parameters and seeds, and the command that makes it again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.aggregates import Aggregates
from bench.experiment import Experiment
from bench.report.content import (
    ASKED,
    GLOSSARY,
    Material,
    cost_table,
    experiments_table,
    provenance,
)
from bench.results import table as result_table
from bench.runs import Run, here
from bench.tiers import run
from tests.bench.claims.made_up import row


def items(place: str, *suites: str, runs: tuple[Run, ...] = ()) -> dict[str, str]:
    made = Aggregates([row(0.9, suite=suite) for suite in suites])
    return dict(provenance(Material(made, place, list(runs))))


def ran(suite: str, **other: str) -> Run:
    made = {"master": "local[*]", "started": "today", "commit": "", **here(), **other}
    return Run(suite=suite, **made)


def test_the_run_is_told_and_not_the_report() -> None:
    kept = ran("quick", master="spark://there:7077", machine="Plan 9 mips, 3 cores")
    found = items("out", "quick", runs=(kept,))
    assert "spark://there:7077" in found["run of quick"]
    assert "Plan 9 mips, 3 cores" in found["run of quick"]
    assert kept.started in found["run of quick"]
    assert "versions" not in found
    assert "GiB of memory" in here()["machine"]
    assert kept.versions["pyarrow"] == pa.__version__


def test_a_suite_of_ones_own_is_remade_from_its_file() -> None:
    unknown = items("s3a://b/out", "mine")["command"]
    assert unknown.startswith("camcast bench run PATH/TO/mine.toml --out s3a://b/out")
    known = items("out", "mine", "quick", runs=(ran("suites/my own/mine.toml"),))["command"]
    assert "camcast bench run 'suites/my own/mine.toml' --out out" in known
    assert "camcast bench run quick --out out" in known
    assert known.endswith("camcast bench report --out out")


def test_a_directory_below_this_one_is_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--out results/today " in items(str(tmp_path / "results" / "today"), "quick")["command"]


def test_parameters_and_seeds_are_those_in_the_results() -> None:
    asked = []
    for seed in (11, 22):
        one = Experiment(
            suite="s",
            figure="f",
            tier="simulate",
            sizes=(20, 5),
            p_sel_series=(0.1, 1.0),
            repetitions=3,
            seed=seed,
            network=seed,
        )
        rows = result_table(one, run(one), 0.0).select(list(ASKED)).to_pylist()
        asked += list({str(row): row for row in rows}.values())
    [line] = experiments_table(asked).rows
    assert line == (
        "s: f",
        "simulate",
        "uniform",
        "20, 5",
        "c = 5, a = 1, z = 3, no loss",
        "p_sel 0.1, 1",
        "12",
        "11, 22",
    )


def test_without_results_there_is_nothing_to_list() -> None:
    assert experiments_table([]).rows == ()
    assert cost_table([]).rows == ()


def test_time_is_told_by_figure_and_tier_the_dearest_first() -> None:
    asked = [
        {"suite": "s", "figure": figure, "tier": tier, "wall_seconds": seconds}
        for figure, tier, seconds in (
            ("f", "simulate", 1.5),
            ("f", "emulate", 20.0),
            ("f", "emulate", 30.0),
            ("f", "replay", 0.0),  # counted with the network that it is replayed over
        )
    ]
    assert cost_table(asked).rows == (
        ("s: f", "emulate", "2", "50", "30"),
        ("s: f", "simulate", "1", "1.5", "1.5"),
        ("all", "", "3", "51.5", "30"),
    )


def test_the_words_of_the_report_are_explained() -> None:
    words = {word for word, _ in GLOSSARY}
    assert words >= {"c", "g", "a", "z", "p_sel", "reception", "reliability", "parasite", "round"}
