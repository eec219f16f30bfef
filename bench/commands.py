"""`camcast bench`: run a suite, aggregate its results, render the report; each alone and again. And `camcast
bench NAME` for each workload, of which `camcast bench run speed` runs all in a quick size."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli import new_command
from bench.players import Line, Players
from bench.servers import NotInstalled
from bench.spark.session import add_spark_options
from bench.suites import BUILT_IN, Suite, find_suite
from bench.workloads import workloads
from bench.workloads.workload import LEFT_OUT, Row, RowFile, Workload, as_text, provenance
from overlay.errors import CamcastError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.aggregates import Aggregates
    from bench.store import ResultStore

OUT = "bench-results"
SPEED = "speed"
"""The name of all workloads together, for `camcast bench run`."""


def add_commands(commands: Any) -> None:
    """Add the benchmark's sub-commands to `camcast bench`."""
    about = "run a suite; finished rows are not run again"
    run = new_command(commands, "run", run_suite, about, example="quick")
    run.add_argument("suite", help=f"a built-in suite, the path of a TOML file, or {SPEED}")
    add_spark_options(run)
    run.add_argument(
        "--processes",
        action="store_true",
        help="keep what each process of real nodes did, too (docs/results.md)",
    )
    run.add_argument(
        "--across",
        type=int,
        default=1,
        metavar="N",
        help="spread the nodes of each live network over N executors (default: 1)",
    )
    run.add_argument("--report", action="store_true", help="write the report at the end, too")
    run.add_argument("--only", metavar="FIGURE", help="run only the experiments of one figure")
    _out(run)
    for name, action, about in (
        ("aggregate", aggregate_results, "aggregate the results of all suites that were run"),
        ("report", render_report, "aggregate, decide the claims, and write report.html"),
    ):
        command = new_command(commands, name, action, about)
        add_spark_options(command)
        _out(command)
    about, example = "say what changed between two runs", "results-before results-after"
    comparing = new_command(commands, "compare", compare_runs, about, example=example)
    comparing.add_argument("before", help="where the results of one run are: a path or a URI")
    comparing.add_argument("after", help="where those of the other are")
    add_spark_options(comparing)
    new_command(commands, "list", list_suites, "list the built-in suites")
    about = "print a suite's experiments, one JSON line each"
    show = new_command(commands, "show", show_suite, about, example="quick")
    show.add_argument("suite", help="a built-in suite, or the path of a TOML file")
    add_workloads(commands)


def _out(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--out",
        default=OUT,
        help=f"where results are kept: a path, or a URI that Spark writes (default: {OUT})",
    )


def run_suite(arguments: argparse.Namespace) -> int:
    """Run a suite, and write the report if asked to; the exit code is 1 when a row failed."""
    from bench.report import write_report
    from bench.report.spread import trace_all
    from bench.runs import record_run
    from bench.store import ResultStore, is_uri

    began = time.monotonic()
    if arguments.suite == SPEED:
        if is_uri(arguments.out):
            raise UsageError(f"{SPEED} runs on this machine alone: --out is a path, not a URI")
        return run_speed(Path(arguments.out))
    suite = find_suite(arguments.suite)
    if arguments.only:
        suite = suite.only(arguments.only)
    with Players() as players, ExitStack() as stack:
        # Traced for the report while Java starts, which leaves a core idle.
        emulated = any(experiment.tier == "emulate" for experiment in suite.experiments)
        tracing = players.start(trace_all) if emulated else None
        spark = stack.enter_context(_session(arguments, is_long=bool(suite.grids)))
        store = ResultStore(spark, arguments.out).open()
        master = spark.conf.get("spark.master", "local")
        print(f"{suite.name}: {len(suite):,} experiments on {master}", flush=True)
        record_run(store, arguments.suite)
        is_complete, seen = _run(spark, suite, store, arguments.processes, arguments.across)
        if tracing is not None:
            is_complete &= _keep_traced(store, tracing)
        if arguments.report:
            print(f"the report is {write_report(store, seen, time.monotonic() - began)}")
    return 0 if is_complete else 1


def _session(
    arguments: argparse.Namespace, is_long: bool = False
) -> AbstractContextManager[SparkSession]:
    """The session of a command; what Spark has to say is kept where the results are, if on this machine."""
    from bench.spark.session import session_of
    from bench.store import is_uri

    local = not is_uri(arguments.out)
    return session_of(arguments, Path(arguments.out) / "spark" if local else None, is_long)


def _run(
    spark: SparkSession, suite: Suite, store: ResultStore, processes: bool, across: int = 1
) -> tuple[bool, Aggregates | None]:
    """Run what is left of a suite, in rounds; what failed is printed.

    Whether nothing failed, and the aggregates of the last look.
    """
    from bench.progress import ProgressLine
    from bench.runs import run_rounds

    line = ProgressLine(sys.stdout)
    try:
        failures, seen = run_rounds(spark, suite, store, line, processes=processes, across=across)
    finally:
        line.close()
    for failure in failures:
        last = failure.error.splitlines()[-1]
        print(f"failed: {last}\n  replay: {failure.experiment.as_json()}", file=sys.stderr)
    return not failures, seen


def _keep_traced(store: ResultStore, tracing: Line) -> bool:
    """Keep the events that were traced for the report; False, and printed, where one failed."""
    from bench.report.spread import keep_traced

    try:
        keep_traced(store, tracing.answer())
    except CamcastError as error:
        print(f"failed: tracing an event for the report: {error}", file=sys.stderr)
        return False
    return True


def aggregate_results(arguments: argparse.Namespace) -> int:
    from bench.aggregates import write_aggregates

    with _stored(arguments) as store:
        print(f"aggregates are in {write_aggregates(store)}")
    return 0


def render_report(arguments: argparse.Namespace) -> int:
    from bench.aggregates import write_aggregates
    from bench.report import write_report

    with _stored(arguments) as store:
        print(f"aggregates are in {write_aggregates(store)}")
        print(f"the report is {write_report(store)}")
    return 0


@contextmanager
def _stored(arguments: argparse.Namespace) -> Iterator[ResultStore]:
    """The results of an earlier run."""
    from bench.store import ResultStore

    _check_existing(arguments.out)
    with _session(arguments, _is_large(arguments.out)) as spark:
        yield ResultStore(spark, arguments.out).open()


def compare_runs(arguments: argparse.Namespace) -> int:
    """Print what changed between the results of two runs."""
    from bench.aggregates import Aggregates
    from bench.compare import as_text, compare
    from bench.spark.session import session_of
    from bench.store import ResultStore

    places = (arguments.before, arguments.after)
    for place in places:
        _check_existing(place)
    with session_of(arguments) as spark:
        before, after = (Aggregates.of(ResultStore(spark, place).open()) for place in places)
    print(as_text(compare(before, after), *places), end="")
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


LARGE_BYTES = 5_000_000
"""Results of more than this take Spark minutes to aggregate."""


def _is_large(place: str) -> bool:
    """Whether there is much to aggregate; what only Spark can see is taken for much."""
    from bench.store import is_uri

    files = Path(place).glob("results/**/*.parquet")
    return is_uri(place) or sum(file.stat().st_size for file in files) > LARGE_BYTES


def _check_existing(place: str) -> None:
    """A path that is not there is told before Spark has started."""
    from bench.store import is_uri

    if not is_uri(place) and not Path(place).is_dir():
        raise UsageError(f"no directory {place}: run a suite first, or name it with --out")


# Workloads.


def add_workloads(commands: Any) -> None:
    """Add a sub-command for each workload to `camcast bench`."""
    for workload in workloads():
        run = partial(_run_command, workload)
        parser = new_command(commands, workload.name, run, workload.title, workload.about)
        for option in workload.options:
            option.add_to(parser)
        parser.add_argument("--quick", action="store_true", help="the size of `bench run speed`")
        parser.add_argument("--json", action="store_true", help="print rows as JSON lines")
        parser.add_argument("--out", type=Path, default=Path(OUT), help=f"results (default: {OUT})")


def _run_command(workload: Workload, arguments: argparse.Namespace) -> int:
    """Measure, print, keep the rows; 1 when they show a failure."""
    options = workload.defaults(quick=True) if arguments.quick else arguments
    return run_workload(workload, options, arguments.out, arguments.json)


def run_workload(
    workload: Workload, options: argparse.Namespace, out: Path, as_json: bool = False
) -> int:
    """Run one workload; each row is kept as soon as it is there. 1 when the rows show a failure."""
    command = command_of(workload, options)
    origin = provenance(command)
    file = RowFile(out, workload.name, origin)
    if not as_json:
        print(f"{workload.title}: {command}")
        print(f"{os.cpu_count()} processors, load {origin.load:.1f} before the run", flush=True)
    rows: list[Row] = []
    for row in workload.run(options):
        if rows and (row.settings, row.network) != (rows[-1].settings, rows[-1].network):
            _say_progress(rows[-1])
        rows.append(row)
        file.add(row)
        if as_json:
            print(json.dumps({"experiment": workload.name} | asdict(row)), flush=True)
    workload.write_figures(rows, file.path.parent)
    if not as_json:
        print_tables(workload, rows)
        print(f"\nrows are in {file.path}", flush=True)
    return 1 if workload.is_wrong(rows) else 0


def print_tables(workload: Workload, rows: Sequence[Row]) -> None:
    """The tables of what was measured, and what was left out."""
    for table in workload.tables:
        lines = table.lines(rows)
        if len(lines) > 1:
            print(f"\n{table.title}\n{as_text(table, lines)}", flush=True)
            if table.about:
                print(table.about)
    listings = [set(table.keys) for table in workload.tables if not table.columns]
    for row in rows:
        is_left_out = row.metric == LEFT_OUT
        # A listing shows the notes of its lines itself.
        is_listed = not is_left_out and any(keys <= set(row.settings) for keys in listings)
        if row.note and row.event is None and not is_listed:
            print(f"{row.metric}: {row.what}: {row.note}")


def _say_progress(row: Row) -> None:
    run = "" if row.network is None else f", run {row.network + 1}"
    print(f"measured: {row.what}{run}", file=sys.stderr, flush=True)


def command_of(workload: Workload, options: argparse.Namespace) -> str:
    """The command line that does what the options ask for."""
    words = workload.command.split()
    for option in workload.options:
        value = getattr(options, option.name)
        if value == option.default:
            continue
        words.append("--" + option.name.replace("_", "-"))
        if value is not True:
            words += map(str, value) if isinstance(value, list) else [str(value)]
    return shlex.join(words)


def run_speed(out: Path) -> int:
    """Run every workload in its quick size, the quickest first; one that fails does not keep the others from
    running."""
    chosen = sorted(workloads(), key=lambda workload: workload.quick_seconds)
    minutes = sum(workload.quick_seconds for workload in chosen) / 60
    print(f"{len(chosen)} workloads, about {minutes:.0f} min on two idle cores\n", flush=True)
    failed = []
    for number, workload in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            code = run_workload(workload, workload.defaults(quick=True), out)
        except Exception as error:  # of whatever kind: hours of others may wait behind it
            is_told = isinstance(error, (CamcastError, NotInstalled))
            reason = str(error) if is_told else traceback.format_exc()
            print(f"failed: {workload.command}: {reason}", file=sys.stderr)
            code = 1
        if code:
            failed.append(workload.command)
        took = f"{workload.name} took {time.monotonic() - began:.0f} s"
        print(f"{number} of {len(chosen)} workloads: {took}\n", flush=True)
    if failed:
        print(f"with failures: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
