"""`camcast bench`: run a suite, aggregate its results, render the report; each alone and again."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark.session import add_spark_options
from bench.suites import BUILT_IN, Suite, find_suite
from bench.workloads import workloads
from bench.workloads.command import SPEED, run_speed
from overlay.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.store import ResultStore

OUT = Path("bench-results")


def add_commands(commands: Any) -> None:
    """Add the benchmark's sub-commands to `camcast bench`."""
    run = _command(commands, "run", run_suite, "run a suite; finished rows are not run again")
    run.add_argument("suite", help=f"a built-in suite, the path of a TOML file, or {SPEED}")
    add_spark_options(run)
    run.add_argument(
        "--processes",
        action="store_true",
        help="keep what each process of real nodes did, too (docs/results.md)",
    )
    run.add_argument("--report", action="store_true", help="write the report at the end, too")
    run.add_argument("--only", metavar="FIGURE", help="run only the experiments of one figure")
    _out(run)
    for name, action, about in (
        ("aggregate", aggregate_results, "aggregate the results of all suites that were run"),
        ("report", render_report, "aggregate, decide the claims, and write report.html"),
    ):
        command = _command(commands, name, action, about)
        add_spark_options(command)
        _out(command)
    comparing = _command(commands, "compare", compare_runs, "say what changed between two runs")
    comparing.add_argument("before", type=Path, help="the output directory of one run")
    comparing.add_argument("after", type=Path, help="the output directory of the other")
    _command(commands, "list", list_suites, "list the built-in suites")
    show = _command(commands, "show", show_suite, "print a suite's experiments, one JSON line each")
    show.add_argument("suite", help="a built-in suite, or the path of a TOML file")


def _command(commands: Any, name: str, action: Any, about: str) -> argparse.ArgumentParser:
    example = {
        "run": "camcast bench run quick",
        "show": "camcast bench show quick",
        "compare": "camcast bench compare results-before results-after",
    }
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=about,
        epilog=f"example: {example.get(name, f'camcast bench {name}')}",
    )
    command.set_defaults(action=action)
    return command


def _out(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--out", type=Path, default=OUT, help=f"where results are kept (default: {OUT})"
    )


def run_suite(arguments: argparse.Namespace) -> int:
    """Run a suite, and write the report if asked to; the exit code is 1 when a row failed."""
    from bench.aggregates import write_aggregates
    from bench.runs import record_run
    from bench.store import ResultStore

    if arguments.suite == SPEED:
        return run_speed(arguments.out)
    suite = find_suite(arguments.suite)
    if arguments.only:
        suite = suite.only(arguments.only)
    store = ResultStore(arguments.out).open()
    with (
        store.writing(),
        _session(arguments) as spark,
    ):
        master = spark.sparkContext.master or "local"
        print(f"{suite.name}: {len(suite.experiments)} experiments on {master}", flush=True)
        record_run(arguments.out, arguments.suite, master)
        is_complete = _run(spark, suite, store, arguments.processes)
        if arguments.report and not suite.families:  # rounds end with the aggregates written
            write_aggregates(spark, store)
    if arguments.report:
        _write_report(arguments.out)
    return 0 if is_complete else 1


def _session(arguments: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    from bench.spark.session import parse_conf, spark_session

    return spark_session(arguments.out / "spark", arguments.master, parse_conf(arguments.conf))


def _run(spark: SparkSession, suite: Suite, store: ResultStore, processes: bool) -> bool:
    """Run what is left of a suite, in rounds, and trace the events of the report; what failed is printed."""
    from bench.progress import ProgressLine
    from bench.rounds import run_rounds
    from bench.spread import write_spread

    line = ProgressLine(sys.stdout)
    emulated = any(experiment.tier == "emulate" for experiment in suite.experiments)
    with ThreadPoolExecutor(1) as beside:
        traced = beside.submit(write_spread, spark, store.directory) if emulated else None
        try:
            failures = run_rounds(spark, suite, store, line, processes=processes)
        finally:
            line.close()
    for failure in failures:
        last = failure.error.splitlines()[-1]
        print(f"failed: {last}\n  replay: {failure.experiment.as_json()}", file=sys.stderr)
    untraced = traced.exception() if traced is not None else None
    if untraced is not None:
        print(f"failed: tracing an event for the report: {untraced}", file=sys.stderr)
        return False
    return not failures


def aggregate_results(arguments: argparse.Namespace) -> int:
    from bench.aggregates import write_aggregates
    from bench.store import ResultStore

    store = ResultStore(_existing(arguments.out)).open()
    with _session(arguments) as spark:
        path = write_aggregates(spark, store)
    print(f"aggregates are in {path}")
    return 0


def render_report(arguments: argparse.Namespace) -> int:
    aggregate_results(arguments)
    _write_report(arguments.out)
    return 0


def _write_report(directory: Path) -> None:
    from bench.report import write_report

    print(f"the report is {write_report(directory)}")


def compare_runs(arguments: argparse.Namespace) -> int:
    """Print what changed, from the aggregates of both runs (camcast bench aggregate makes them)."""
    from bench.aggregates import Aggregates
    from bench.compare import as_text, compare

    before, after = (_existing(path) for path in (arguments.before, arguments.after))
    found = compare(Aggregates.read(before), Aggregates.read(after))
    print(as_text(found, str(before), str(after)), end="")
    return 0


def list_suites(arguments: argparse.Namespace) -> int:
    for name, make in BUILT_IN.items():
        suite = make()
        tiers = sorted({experiment.tier for experiment in suite.experiments})
        print(
            f"{name:<14} {len(suite.experiments):>4} experiments  {suite.about} ({', '.join(tiers)})"
        )
    names = ", ".join(workload.name for workload in workloads())
    print(
        f"{SPEED:<14} {len(workloads()):>4} workloads    each also by `camcast bench NAME`: {names}"
    )
    return 0


def show_suite(arguments: argparse.Namespace) -> int:
    for experiment in find_suite(arguments.suite).experiments:
        print(json.dumps({"id": experiment.id} | json.loads(experiment.as_json())))
    return 0


def _existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise UsageError(f"no directory {directory}: run a suite first, or name it with --out")
    return directory
