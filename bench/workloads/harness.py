"""What the benchmark harness costs: the same rows on Spark and in a plain loop.

Processor time of all processes together, so that other work on the machine does not count; on one core, for
two workers would share caches that the loop has to itself. The session is started, and its worker has run
rows of each kind, before the clock does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.experiment import Experiment
from bench.players import processor_seconds
from bench.suites.grid import distinct, expand
from bench.suites.settings import SIMULATED
from bench.workloads.workload import Option, Row, RowTable, Workload, column


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about four minutes of one core with the usual number of networks."""
    rows = suite(options.networks)
    with tempfile.TemporaryDirectory(prefix="camcast-harness-") as directory:
        java, python = _by_spark(rows, Path(directory))
    plain = _by_a_plain_loop(rows)
    settings = {"networks": options.networks}
    for metric, value, unit in (
        ("rows", float(len(rows)), "rows"),
        ("plain loop", plain, "s"),
        ("Python", python, "s"),
        ("Java", java, "s"),
        ("overhead", (java + python) / plain - 1, "share"),
    ):
        yield Row("harness", settings, metric, value, unit)


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


def _by_a_plain_loop(rows: tuple[Experiment, ...]) -> float:
    from bench.spark.executor import run_one

    began = time.process_time()
    for experiment in rows:
        run_one(experiment)
    return time.process_time() - began


def _by_spark(rows: tuple[Experiment, ...], directory: Path) -> tuple[float, float]:
    """Seconds of Java, and of Python."""
    from bench.spark.execute import execute
    from bench.spark.session import spark_session
    from bench.store import ResultStore

    with spark_session(directory / "spark", "local[1]") as spark:
        store = ResultStore(spark, directory / "out").open()
        first = [replace(row, suite="start", repetitions=1) for row in suite(networks=1)[-3:]]
        execute(spark, first, store, _unseen)
        before = processor_seconds()
        assert execute(spark, rows, store, _unseen) == []
        after = processor_seconds()
    java, every = (after[key] - before[key] for key in ("java", "all"))
    return java, every - java


def _unseen(progress: Any) -> None:
    pass


WORKLOAD = Workload(
    "harness",
    "Overhead of the harness",
    "The same experiments on Spark and in a plain loop, in processor time of all processes together.",
    (Option("networks", 90, "emulated networks among the experiments", quick=1),),
    run,
    (
        RowTable(
            "harness",
            "The same rows on Spark and in a plain loop, seconds of processor time",
            {"networks": "networks"},
            (
                column("rows", "{:,.0f}", "rows"),
                column("plain loop", "{:.1f}", "plain loop"),
                column("harness, Python", "{:.1f}", "Python"),
                column("harness, Java", "{:.1f}", "Java"),
                column("overhead", "{:.1%}", "overhead"),
            ),
            "The session's start is not counted. Goal: under 5 % with the usual number of networks.",
        ),
    ),
    quick_seconds=60,
)
