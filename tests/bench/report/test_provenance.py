"""How it was made: the runs that were, their parameters and seeds, and the command that makes it again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from bench.aggregates import Aggregates
from bench.experiment import Experiment
from bench.report.content import GLOSSARY
from bench.report.provenance import experiments_table, provenance
from bench.results import table as result_table
from bench.runs import FILE, read_runs, record_run
from bench.tiers import run
from tests.bench.claims.made_up import row


def items(directory: Path, *suites: str) -> dict[str, str]:
    made = Aggregates([row(0.9, suite=suite) for suite in suites])
    return dict(provenance(made, directory).items)


def test_the_run_is_told_and_not_the_report(tmp_path: Path) -> None:
    record_run(tmp_path, "quick", "spark://there:7077")
    [kept] = read_runs(tmp_path)
    line = json.loads((tmp_path / FILE).read_text()) | {"machine": "Plan 9 mips, 3 cores"}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n{torn")
    found = items(tmp_path, "quick")
    assert "spark://there:7077" in found["run of quick"]
    assert "Plan 9 mips, 3 cores" in found["run of quick"]
    assert kept.started in found["run of quick"]
    assert "versions" not in found
    assert "GiB of memory" in kept.machine
    assert kept.versions["pyarrow"] == pa.__version__


def test_a_suite_of_ones_own_is_remade_from_its_file(tmp_path: Path) -> None:
    unknown = items(tmp_path, "mine")["command"]
    assert unknown.startswith(f"camcast bench run PATH/TO/mine.toml --out {tmp_path}")
    record_run(tmp_path, "suites/my own/mine.toml", "local[*]")
    known = items(tmp_path, "mine", "quick")["command"]
    assert f"camcast bench run 'suites/my own/mine.toml' --out {tmp_path}" in known
    assert f"camcast bench run quick --out {tmp_path}" in known
    assert known.endswith(f"camcast bench report --out {tmp_path}")


def test_a_directory_below_this_one_is_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--out results/today " in items(tmp_path / "results" / "today", "quick")["command"]


def test_parameters_and_seeds_are_those_in_the_results(tmp_path: Path) -> None:
    place = tmp_path / "results" / "suite=s" / "tier=simulate"
    place.mkdir(parents=True)
    for seed in (11, 22):
        asked = Experiment(
            suite="s",
            figure="f",
            tier="simulate",
            sizes=(20, 5),
            p_sel_series=(0.1, 1.0),
            repetitions=3,
            seed=seed,
            network=seed,
        )
        kept = result_table(asked, run(asked), 0.0).drop_columns(["suite", "tier"])
        parquet.write_table(kept, place / f"part-{seed}.parquet")
    [line] = experiments_table(tmp_path).rows
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


def test_without_results_there_is_nothing_to_list(tmp_path: Path) -> None:
    assert experiments_table(tmp_path).rows == ()


def test_the_words_of_the_report_are_explained() -> None:
    words = {word for word, _ in GLOSSARY}
    assert words >= {"c", "g", "a", "z", "p_sel", "reception", "reliability", "parasite", "round"}
