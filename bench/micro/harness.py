"""What the benchmark harness costs: the same rows on Spark and in a plain loop.

Processor time of all processes together, Java and the Python workers included, so that neither the number of
cores nor other work on the machine counts. The session is started, and its workers have run a row
each, before the clock does.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.experiment import Experiment
from bench.micro.measurement import Measurement
from bench.spark.execute import Progress, execute, run_one
from bench.spark.session import spark_session
from bench.store import ResultStore
from bench.suites.grid import distinct, expand
from bench.suites.settings import SIMULATED

TICKS = os.sysconf("SC_CLK_TCK")


def measure() -> list[Measurement]:
    """Takes about four minutes of one core."""
    rows = suite(networks=24)
    with tempfile.TemporaryDirectory(prefix="camcast-harness-") as directory:
        harness = _by_spark(rows, Path(directory))
    plain = _by_a_plain_loop(rows)
    return [
        Measurement("plain loop", plain, "s", f"{len(rows)} rows, processor time"),
        Measurement("harness", harness, "s", "the same rows, results in Parquet"),
        Measurement("overhead", 100 * (harness / plain - 1), "%", "goal: under 10"),
    ]


def suite(networks: int) -> tuple[Experiment, ...]:
    """Rows of every length: formulas, simulations, emulated networks of five seconds each."""
    small = {**SIMULATED, "sizes": (60, 20, 8)}
    rows = expand("harness", "overhead", tier="model", failed=[n / 500 for n in range(400)])
    for seed in range(networks):
        rows += expand(
            "harness", "overhead", seed, tier="emulate", mode="unstructured", repetitions=5, **small
        )
        rows += expand("harness", "overhead", seed, tier="simulate", repetitions=100, **SIMULATED)
    return distinct(rows)


def _by_a_plain_loop(rows: tuple[Experiment, ...]) -> float:
    began = time.process_time()
    for experiment in rows:
        run_one(experiment)
    return time.process_time() - began


def _by_spark(rows: tuple[Experiment, ...], directory: Path) -> float:
    store = ResultStore(directory / "out").open()
    with store.writing(), spark_session(directory / "spark") as spark:
        first = expand("harness", "start", tier="simulate", failed=[0.0, 0.1, 0.2, 0.3])
        execute(spark, first, store, _unseen)
        began = _processor_seconds_of_the_tree()
        assert execute(spark, rows, store, _unseen) == []
        return _processor_seconds_of_the_tree() - began


def _unseen(progress: Progress) -> None:
    pass


def _processor_seconds_of_the_tree() -> float:
    """Of this process and all that it has started, with those that have ended since."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = os.getpid()
    return sum(ticks[pid] for pid in ticks if _descends(pid, own, parents)) / TICKS


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process != ancestor and process in parents:
        process = parents[process]
    return process == ancestor
