"""`camcast bench`: run a suite, aggregate its results, render the report; each alone and again."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.suites import BUILT_IN, find_suite
from overlay.errors import UsageError

OUT = Path("bench-results")


def add_commands(commands: Any) -> None:
    """Add the benchmark's sub-commands to `camcast bench`."""
    run = _command(commands, "run", run_suite, "run a suite; finished rows are not run again")
    run.add_argument("suite", help="a built-in suite, or the path of a TOML file")
    run.add_argument("--master", default="local[*]", help="a Spark master (default: local[*])")
    _out(run)
    for name, action, about in (
        ("aggregate", aggregate_results, "aggregate the results of all suites that were run"),
        ("report", render_report, "aggregate, decide the claims, and write report.html"),
    ):
        command = _command(commands, name, action, about)
        command.add_argument("--master", default="local[*]", help="a Spark master")
        _out(command)
    _command(commands, "list", list_suites, "list the built-in suites")
    show = _command(commands, "show", show_suite, "print a suite's experiments, one JSON line each")
    show.add_argument("suite", help="a built-in suite, or the path of a TOML file")


def _command(commands: Any, name: str, action: Any, about: str) -> argparse.ArgumentParser:
    example = {"run": "camcast bench run quick", "show": "camcast bench show quick"}
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
    """Run a suite; the exit code is 1 when a row failed."""
    from bench.progress import ProgressLine
    from bench.spark.execute import execute
    from bench.spark.session import spark_session
    from bench.spread import write_spread
    from bench.store import ResultStore

    suite = find_suite(arguments.suite)
    store = ResultStore(arguments.out).open()
    print(f"{suite.name}: {len(suite.experiments)} experiments on {arguments.master}", flush=True)
    line = ProgressLine(sys.stdout)
    emulated = any(experiment.tier == "emulate" for experiment in suite.experiments)
    with (
        store.writing(),
        spark_session(arguments.out / "spark", arguments.master) as spark,
        ThreadPoolExecutor(1) as beside,
    ):
        traced = beside.submit(write_spread, spark, arguments.out) if emulated else None
        try:
            failures = execute(spark, suite.experiments, store, line)
        finally:
            line.close()
        for failure in failures:
            last = failure.error.splitlines()[-1]
            print(f"failed: {last}\n  replay: {failure.experiment.as_json()}", file=sys.stderr)
        if traced is not None and traced.exception() is not None:
            print("failed: the events traced for the report", file=sys.stderr)
            return 1
    return 1 if failures else 0


def aggregate_results(arguments: argparse.Namespace) -> int:
    from bench.aggregate import write_aggregates
    from bench.spark.session import spark_session
    from bench.store import ResultStore

    store = ResultStore(_existing(arguments.out)).open()
    with spark_session(arguments.out / "spark", arguments.master) as spark:
        path = write_aggregates(spark, store)
    print(f"aggregates are in {path}")
    return 0


def render_report(arguments: argparse.Namespace) -> int:
    from bench.report import write_report

    aggregate_results(arguments)
    path = write_report(arguments.out)
    print(f"the report is {path}")
    return 0


def list_suites(arguments: argparse.Namespace) -> int:
    for name, make in BUILT_IN.items():
        suite = make()
        tiers = sorted({experiment.tier for experiment in suite.experiments})
        print(
            f"{name:<14} {len(suite.experiments):>4} experiments  {suite.about} ({', '.join(tiers)})"
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
