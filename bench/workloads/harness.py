"""What the benchmark harness costs: the same rows on Spark and by plain processes, one for each core.

The plain processes are `multiprocessing`'s: they take the dearest rows first, and keep nothing; Spark keeps
the results as Parquet. With the usual number of networks the plain processes take about two minutes of wall
clock on two cores. Both sides have run rows of each kind before the clock starts; what they need until
then is told, too. The wall clock is what a user sees, on an idle machine; processor time, of all processes
together, tells something on a busy one, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.experiment import Experiment
from bench.players import processor_seconds
from bench.progress import estimated_seconds
from bench.suites.built_in import SIMULATED
from bench.suites.grid import distinct, expand
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about four and a half minutes of two cores with the usual number of networks."""
    rows = suite(options.networks)
    cores = len(os.sched_getaffinity(0))
    plain_start, plain = _by_plain_processes(rows, cores)
    with tempfile.TemporaryDirectory(prefix="camcast-harness-") as directory:
        start, spark = _by_spark(rows, cores, Path(directory))
    settings = {"networks": options.networks, "cores": cores}
    found: Values = {
        "rows": (len(rows), "rows"),
        "plain, wall clock": (plain.wall, "s"),
        "Spark, wall clock": (spark.wall, "s"),
        "overhead, wall clock": (spark.wall / plain.wall - 1, "share"),
        "plain, processor": (plain.processor, "s"),
        "Python, processor": (spark.processor - spark.java, "s"),
        "Java, processor": (spark.java, "s"),
        "overhead, processor": (spark.processor / plain.processor - 1, "share"),
        "plain, start": (plain_start.wall, "s"),
        "Spark, start": (start.wall, "s"),
    }
    yield from rows_of(settings, found)


def suite(networks: int) -> tuple[Experiment, ...]:
    """Rows of every length: formulas, simulations, emulated networks of about a second each."""
    small = {**SIMULATED, "sizes": (60, 20, 8)}
    rows = expand("harness", "overhead", tier="model", failed=[n / 500 for n in range(400)])
    for seed in range(networks):
        rows += expand(
            "harness", "overhead", seed, tier="emulate", mode="unstructured", repetitions=5, **small
        )
        rows += expand("harness", "overhead", seed, tier="simulate", repetitions=100, **SIMULATED)
    return distinct(rows)


def _first_rows(cores: int) -> list[Experiment]:
    """Some of each kind for each core, none of those that are measured."""
    return [replace(row, suite="start", repetitions=1) for row in suite(2 * cores)[-5 * cores :]]


@dataclass
class _Spent:
    """Seconds of a block, of all processes together where it is processor time."""

    wall: float = 0.0
    processor: float = 0.0
    java: float = 0.0


@contextmanager
def _spent() -> Iterator[_Spent]:
    found = _Spent()
    before, began = processor_seconds(), time.perf_counter()
    yield found
    after, found.wall = processor_seconds(), time.perf_counter() - began
    found.processor, found.java = (after[key] - before[key] for key in ("all", "java"))


def _by_plain_processes(rows: Sequence[Experiment], cores: int) -> tuple[_Spent, _Spent]:
    """What the start took, and the work."""
    dearest_first = sorted(rows, key=estimated_seconds, reverse=True)
    with _spent() as start:
        pool = multiprocessing.get_context("spawn").Pool(cores)
        pool.map(_run, _first_rows(cores), 1)
    with pool, _spent() as work:
        for _ in pool.imap_unordered(_run, dearest_first):
            pass
    return start, work


def _run(experiment: Experiment) -> None:
    from bench.spark.executor import run_all

    for _ in run_all([experiment]):  # what an executor does for it
        pass


def _by_spark(rows: Sequence[Experiment], cores: int, place: Path) -> tuple[_Spent, _Spent]:
    """What the start took, and the work."""
    from bench.spark.execute import execute
    from bench.spark.session import spark_session
    from bench.store import ResultStore

    began = time.perf_counter()
    with spark_session(place / "spark", f"local[{cores}]") as spark:
        store = ResultStore(spark, place / "out").open()
        execute(spark, _first_rows(cores), store, _unseen)
        start = _Spent(wall=time.perf_counter() - began)
        with _spent() as work:
            assert execute(spark, rows, store, _unseen) == []
    return start, work


def _unseen(progress: Any) -> None:
    pass


WORKLOAD = Workload(
    "harness",
    "Overhead of the harness",
    "The same experiments on Spark and by plain processes, one for each core.",
    (Option("networks", 205, "emulated networks among the experiments", quick=1),),
    run,
    (
        RowTable(
            "harness",
            "The same rows on Spark and by plain processes, seconds",
            {"networks": "networks", "cores": "cores"},
            {
                "rows": "{rows:,.0f}",
                "plain": "{plain, wall clock:.1f}",
                "Spark": "{Spark, wall clock:.1f}",
                "overhead": "{overhead, wall clock:.1%}",
                "plain, processor time": "{plain, processor:.1f}",
                "Python's": "{Python, processor:.1f}",
                "Java's": "{Java, processor:.1f}",
                "overhead, processor time": "{overhead, processor:.1%}",
                "start, plain": "{plain, start:.1f}",
                "start, Spark": "{Spark, start:.1f}",
            },
            "The start, once a run, is told apart: until rows of each kind have been run.",
        ),
    ),
    quick_seconds=60,
)
