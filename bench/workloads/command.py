"""`camcast bench NAME` for each workload, and `camcast bench run speed` for all of them in a quick size."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.servers import NotInstalled
from bench.workloads import workloads
from bench.workloads.records import RowFile, provenance
from bench.workloads.workload import LEFT_OUT, Row, Workload, as_text
from overlay.errors import CamcastError

OUT = Path("bench-results")
SPEED = "speed"
"""The name of all workloads together, for `camcast bench run`."""


def add_commands(commands: Any) -> None:
    """Add a sub-command for each workload to `camcast bench`."""
    for workload in workloads():
        parser: argparse.ArgumentParser = commands.add_parser(
            workload.name,
            help=workload.title,
            description=workload.about,
            epilog=f"example: {workload.command}",
        )
        for option in workload.options:
            option.add_to(parser)
        parser.add_argument("--quick", action="store_true", help="the size of `bench run speed`")
        parser.add_argument("--json", action="store_true", help="print rows as JSON lines")
        parser.add_argument("--out", type=Path, default=OUT, help=f"results (default: {OUT})")
        parser.set_defaults(action=partial(_run_command, workload))


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
            print(json.dumps(asdict(row)), flush=True)
    for name, picture in workload.pictures(rows).items():
        (file.path.parent / name).write_text(picture)
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
    any_columns = any(table.columns for table in workload.tables)  # listings show notes themselves
    for row in rows:
        if row.note and row.event is None and (row.metric == LEFT_OUT or any_columns):
            what = LEFT_OUT if row.metric == LEFT_OUT else row.metric
            print(f"{what}: {_named(row)}: {row.note}")


def _say_progress(row: Row) -> None:
    run = "" if row.network is None else f", run {row.network + 1}"
    print(f"measured: {_named(row)}{run}", file=sys.stderr, flush=True)


def _named(row: Row) -> str:
    return ", ".join(str(value) for value in row.settings.values()) or row.experiment


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
    """Run every workload in its quick size; one that fails does not keep the others from running."""
    failed = []
    for workload in workloads():
        began = time.monotonic()
        try:
            code = run_workload(workload, workload.defaults(quick=True), out)
        except (CamcastError, NotInstalled) as error:
            print(f"failed: {workload.command}: {error}", file=sys.stderr)
            code = 1
        if code:
            failed.append(workload.command)
        print(f"{workload.name} took {time.monotonic() - began:.0f} s\n", flush=True)
    if failed:
        print(f"with failures: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
