"""The other benchmarks in the report: what each workload measured, and what was not run."""

from __future__ import annotations

from pathlib import Path

from bench.report.table import Table
from bench.workloads import workloads
from bench.workloads.records import Provenance, Recorded, read_rows
from bench.workloads.workload import LEFT_OUT, Workload


def speed_tables(directory: Path | None) -> list[Table]:
    """The tables of every workload that was run, then the commands of those that were not."""
    found: list[Table] = []
    absent: list[tuple[str, str]] = []
    for workload in workloads():
        recorded = read_rows(directory, workload.name) if directory else []
        own = _tables(workload, recorded)
        found += own
        if not own:
            absent.append((workload.title, workload.command))
        absent += [
            (f"{workload.title}: {_what(one)}", one.row.note)
            for one in recorded
            if one.row.metric == LEFT_OUT
        ]
    if absent:
        found.append(Table("Not run", ("what", "how"), tuple(absent)))
    return found


def _tables(workload: Workload, recorded: list[Recorded]) -> list[Table]:
    rows = [one.row for one in recorded]
    found = []
    for table in workload.tables:
        heads, *lines = table.lines(rows)
        if lines:
            shown = [
                one for one in recorded if not table.columns or one.row.metric in table.metrics
            ]
            origins = dict.fromkeys(one.origin for one in shown)
            note = " ".join([table.about, *map(_origin, origins)]).strip()
            title = f"{workload.title}: {table.title}"
            found.append(Table(title, tuple(heads), tuple(map(tuple, lines)), note))
    return found


def _origin(origin: Provenance) -> str:
    commit = f", commit {origin.commit}" if origin.commit else ""
    return f"{origin.command} ({origin.started}{commit}; {origin.machine}; load {origin.load:g})."


def _what(one: Recorded) -> str:
    return ", ".join(str(value) for value in one.row.settings.values())
