"""Grids and results that the Spark tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from bench.experiment import Experiment
from bench.spark.executor import run_one
from bench.suites import expand
from bench.suites.grid import distinct


def grid(count: int = 12) -> tuple[Experiment, ...]:
    """Rows of the model tier, which are quick and exact."""
    failed = [index / count for index in range(count)]
    return distinct(expand("small", "test", tier="model", sizes=[(100, 20, 5)], failed=failed))


def stored(place: Path) -> list[dict[str, Any]]:
    """Every row of a store on this machine that counts, but how long it took, in a fixed order; read without
    Spark."""
    counts: dict[str, tuple[bool, str]] = {}
    for path in sorted((place / "commits").glob("commit=*/*.parquet")):
        commit = path.parent.name.removeprefix("commit=")
        for row in parquet.ParquetFile(path).read().to_pylist():
            own = (row["error"] is not None, commit)
            known = counts.setdefault(row["experiment_id"], own)
            counts[row["experiment_id"]] = min(own, known)
    rows: list[dict[str, Any]] = []
    for path in result_files(place):
        partition = dict(part.split("=") for part in path.parts if "=" in part)
        commit = partition.pop("commit")
        read = rows_of(path)
        rows += [row | partition for row in read if counts[row["experiment_id"]][1] == commit]
    return in_order(rows)


def rows_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.ParquetFile(path).read().to_pylist()
    return found


def result_files(place: Path) -> list[Path]:
    """The files of the commits that a store has."""
    commits = [
        path.name for path in (place / "commits").glob("commit=*") if any(path.glob("*.parquet"))
    ]
    return [path for own in commits for path in (place / "results" / own).rglob("*.parquet")]


def by_a_plain_loop(experiments: tuple[Experiment, ...]) -> list[dict[str, Any]]:
    return in_order([row for experiment in experiments for row in run_one(experiment).to_pylist()])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{k: v for k, v in row.items() if k != "wall_seconds"} for row in rows]
    order = ("experiment_id", "network", "event", "community", "metric")
    return sorted(kept, key=lambda row: [str(row[name]) for name in order])
