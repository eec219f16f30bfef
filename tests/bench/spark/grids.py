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


def stored(results: Path) -> list[dict[str, Any]]:
    """Everything in the Parquet files but how long it took, in a fixed order."""
    rows: list[dict[str, Any]] = []
    for path in results.rglob("*.parquet"):
        partition = dict(part.split("=") for part in path.parts if "=" in part)
        rows += [row | partition for row in parquet.ParquetFile(path).read().to_pylist()]
    return in_order(rows)


def by_a_plain_loop(experiments: tuple[Experiment, ...]) -> list[dict[str, Any]]:
    return in_order([row for experiment in experiments for row in run_one(experiment).to_pylist()])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{k: v for k, v in row.items() if k != "wall_seconds"} for row in rows]
    order = ("experiment_id", "network", "event", "community", "metric")
    return sorted(kept, key=lambda row: [str(row[name]) for name in order])
