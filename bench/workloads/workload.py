"""What a benchmark declares: its name, its options, the rows it yields, and the tables that show them.

A workload is one module below `bench.workloads` with a `WORKLOAD`. Its command line (`camcast bench NAME`),
its result file, its tables on the terminal and in the report, and what the documentation may quote come
from what it declares here. All workloads yield rows of one kind."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from bench.report.svg import Figure, draw
from bench.runs import commit_here, here

Setting = str | int | float | bool | None

LISTED = ("figure", "value", "unit", "note")
"""The columns of a listing after its keys."""
LEFT_OUT = "left out"
"""The metric of a row that says what was not measured, with the reason as its note."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value of one metric: the one result type of all workloads."""

    settings: Mapping[str, Setting]
    """What was measured, by option: among the rows of a workload these name an experiment."""
    metric: str
    value: float
    unit: str = ""
    network: int | None = None
    """The number of the run: every run starts its own processes. None where there is one run only."""
    event: int | None = None
    """The number of the event, or of the moment, within the run; None for a whole run."""
    community: str | None = None
    """Which of the processes the value is of; None for all of them."""
    note: str = ""

    @property
    def what(self) -> str:
        """What was measured, as a reader is told it."""
        return ", ".join(map(str, self.settings.values()))


Values = dict[str, tuple[float, str]]
"""Values with their units, by metric."""


def rows_of(
    settings: Mapping[str, Setting], values: Values, network: int | None = None
) -> Iterator[Row]:
    """A row for each metric of one experiment."""
    for metric, (value, unit) in values.items():
        yield Row(settings, metric, value, unit, network)


def left_out(settings: Mapping[str, Setting], why: object) -> Row:
    """What was not measured, and why."""
    return Row(settings, LEFT_OUT, math.nan, note=str(why))


@dataclass(frozen=True)
class Option:
    """One option of a workload's command line; its name is that of the setting."""

    name: str
    default: Any
    """A list where the option takes several values, False for a switch."""
    help: str
    quick: Any = None
    """Its value in `camcast bench run speed`; None: the default."""
    choices: Sequence[Any] | None = None
    type: Callable[[str], Any] | None = None

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        flag = "--" + self.name.replace("_", "-")
        if self.default is False:
            parser.add_argument(flag, action="store_true", help=self.help)
            return
        many = isinstance(self.default, list)
        sample = (self.default or [""])[0] if many else self.default
        kind = self.type or (str if sample is None else type(sample))
        shown = " ".join(map(str, self.default)) if many else self.default
        suffix = "" if self.default in (None, []) else f" (default: {shown})"
        extra: dict[str, Any] = {"nargs": "*"} if many else {}
        if self.choices is None:
            extra["metavar"] = "N" if kind in (int, float) else "NAME"
        parser.add_argument(
            flag,
            type=kind,
            default=self.default,
            choices=self.choices,
            help=self.help + suffix,
            **extra,
        )


@dataclass(frozen=True)
class RowTable:
    """How rows are shown: a line for each experiment, in the order in which they were measured."""

    name: str
    title: str
    keys: Mapping[str, str]
    """Settings that tell the lines apart, with the headings of their columns."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """By heading, how medians of metrics are shown, such as `"{p50:.1f} / {p99:.1f} ms"`; none: a listing,
    with a line for each metric of the experiments that have all the keys."""
    about: str = ""

    def lines(self, rows: Iterable[Row], only: Sequence[str] = ()) -> list[list[str]]:
        """Headings, then the cells of each line; with `only`, the columns of these headings.

        Without it, columns in which no line has anything are left out."""
        if not self.columns:
            return self._listing(rows)
        experiments = list(self._experiments(rows))
        found: list[list[str]] = [[] for _ in range(1 + len(experiments))]
        for key, heading in self.keys.items():
            cells = [shown(settings.get(key)) for settings, _ in experiments]
            if heading in only or (not only and any(cells)):
                _add(found, [heading, *cells])
        for heading, form in self.columns.items():
            cells = [_cell(form, values) for _, values in experiments]
            if heading in only or (not only and any(cell != "-" for cell in cells)):
                _add(found, [heading, *cells])
        return found

    def _listing(self, rows: Iterable[Row]) -> list[list[str]]:
        found = [[*self.keys.values(), *LISTED]]
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            if row.event is None and row.metric != LEFT_OUT and set(self.keys) <= set(row.settings):
                cells = (*(shown(row.settings[key]) for key in self.keys), row.metric, row.unit)
                groups.setdefault(cells, []).append(row)
        for (*keys, metric, unit), own in groups.items():
            value = statistics.median(row.value for row in own)
            found.append([*keys, metric, _figure(value), unit, own[0].note])
        if not any(line[-1] for line in found[1:]):
            found = [line[:-1] for line in found]
        return found

    @property
    def metrics(self) -> set[str]:
        """What the columns show; empty for a listing, which shows all."""
        return self.metrics_under(self.columns)

    def metrics_under(self, headings: Iterable[str]) -> set[str]:
        """What the columns of these headings show."""
        forms = (self.columns[heading] for heading in headings if heading in self.columns)
        return {metric for form in forms for metric in _metrics(form)}

    def is_key(self, heading: str) -> bool:
        return heading in self.keys.values() or heading in ("figure", "unit", "note")

    def _experiments(
        self, rows: Iterable[Row]
    ) -> Iterator[tuple[Mapping[str, Setting], dict[str, float]]]:
        """The medians of the metrics of each experiment that has one of this table."""
        own = self.metrics
        groups: dict[tuple[tuple[str, Setting], ...], dict[str, list[float]]] = {}
        for row in rows:
            if row.metric in own and row.event is None and row.community is None:
                key = tuple(row.settings.items())
                groups.setdefault(key, {}).setdefault(row.metric, []).append(row.value)
        for key, metrics in groups.items():
            yield dict(key), {m: statistics.median(values) for m, values in metrics.items()}


def _metrics(form: str) -> list[str]:
    """The metrics that a column's format names."""
    return [name for _, name, _, _ in Formatter().parse(form) if name]


def _cell(form: str, values: Mapping[str, float]) -> str:
    """The metrics' values in a column's format; a dash where one of them is missing."""
    return form.format_map(values) if values.keys() >= set(_metrics(form)) else "-"


def _add(lines: list[list[str]], cells: Sequence[str]) -> None:
    for line, cell in zip(lines, cells, strict=True):
        line.append(cell)


def _figure(value: float) -> str:
    """A number as text, with thousands apart, or with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def shown(value: Setting) -> str:
    """A setting's value as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Workload:
    """One benchmark."""

    name: str
    title: str
    about: str
    """What is measured, in a sentence or two."""
    options: tuple[Option, ...]
    run: Callable[[Any], Iterable[Row]]
    """Measures what the options (an `argparse.Namespace`) ask for, and yields rows as they come."""
    tables: tuple[RowTable, ...]
    quick_seconds: float
    """About how long the quick size takes on two idle cores."""
    is_wrong: Callable[[Sequence[Row]], bool] = field(default=lambda rows: False)
    """Whether the rows show that something failed, such as a loss where nothing may be lost."""
    figures: Callable[[Sequence[Row]], Sequence[Figure]] = field(default=lambda rows: ())
    """Drawn from the rows: files beside them, and in the report."""

    @property
    def command(self) -> str:
        return f"camcast bench {self.name}"

    def write_figures(self, rows: Sequence[Row], directory: Path) -> None:
        """Each figure as a file of its own."""
        for figure in self.figures(rows):
            (directory / f"{figure.name}.svg").write_text(draw(figure))

    def defaults(self, quick: bool) -> argparse.Namespace:
        """The options of the quick size, or those of the command without any."""
        chosen = {
            option.name: option.quick if quick and option.quick is not None else option.default
            for option in self.options
        }
        return argparse.Namespace(**chosen)

    def table(self, name: str) -> RowTable:
        return next(table for table in self.tables if table.name == name)


def markdown_table(
    lines: Sequence[Sequence[str]], is_left: Callable[[str], bool] = lambda heading: True
) -> str:
    """Headings and lines of cells in Markdown; `is_left` says of a heading that its cells are words."""
    ruler = ["---" if is_left(heading) else "---:" for heading in lines[0]]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ruler, *lines[1:]])


def as_text(table: RowTable, lines: Sequence[Sequence[str]]) -> str:
    """A table's lines for a terminal, in columns."""
    return "\n".join(in_columns(lines, [table.is_key(heading) for heading in lines[0]]))


def in_columns(lines: Sequence[Sequence[str]], is_left: Sequence[bool]) -> list[str]:
    """Lines of cells as text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_left, strict=True)
        ).rstrip()
        for line in lines
    ]


def percentiles(seconds: Sequence[float], factor: float, unit: str) -> Values:
    """p50 and p99, as multiples of seconds; by linear interpolation, as everywhere. NaN without any."""
    found = np.quantile(seconds, (0.5, 0.99)) if seconds else (math.nan, math.nan)
    return {
        name: (factor * float(value), unit)
        for name, value in zip(("p50", "p99"), found, strict=True)
    }


# The result files, `bench-results/speed/NAME.jsonl`: JSON lines of rows, each with what it was made on. A run
# adds its rows to those of earlier ones; readers take, of each experiment (name and settings), the rows of
# the newest run that measured it.

DIRECTORY = "speed"
"""Below the output directory of the benchmark."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where rows come from."""

    started: str
    """Date and time of the run's start, UTC."""
    commit: str
    """Of the code's working tree, with a plus sign where it was changed; empty where there is none."""
    machine: str
    python: str
    load: float
    """Average number of processes that wanted a processor in the minute before the run."""
    command: str
    """What remakes the rows."""

    @property
    def version(self) -> str:
        """The commit, where there is one, and the day."""
        return f"commit {self.commit} of {self.started[:10]}" if self.commit else self.started[:10]

    @property
    def place(self) -> str:
        return f"{self.machine}, Python {self.python}, load {self.load:g} before the run"

    def __str__(self) -> str:
        return in_words([self])


def in_words(runs: Sequence[Provenance]) -> str:
    """The commands of runs of one commit on one machine, and what they ran on."""
    commands = ", ".join(f"`{run.command}`" for run in runs)
    loads = dict.fromkeys(
        f"{load:g}" for load in (min(r.load for r in runs), max(r.load for r in runs))
    )
    first = runs[0]
    return (
        f"{commands} ({first.version}); {first.machine}, Python {first.python}, "
        f"load {' to '.join(loads)} before the run."
    )


def provenance(command: str) -> Provenance:
    """The provenance of a run that starts now on this machine."""
    place = here()
    return Provenance(
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        commit_here(),
        place["machine"],
        place["python"],
        round(os.getloadavg()[0], 2),
        command,
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row with its provenance, as it is kept."""

    row: Row
    origin: Provenance


class RowFile:
    """Where the rows of one run of a workload are kept."""

    def __init__(self, out: Path, name: str, origin: Provenance) -> None:
        self.path = out / DIRECTORY / f"{name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._same = {"experiment": name}, {"origin": asdict(origin)}

    def add(self, row: Row) -> None:
        named, made = self._same
        line = named | asdict(row) | {"value": _kept(row.value)} | made
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read_rows(out: Path, name: str) -> list[Recorded]:
    """The newest rows of every experiment of a workload, in order; none where it was not run.

    A line that is torn or of another version is left out."""
    path = out / DIRECTORY / f"{name}.jsonl"
    found: list[Recorded] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(recorded(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return newest(found)


def recorded(line: dict[str, Any]) -> Recorded:
    """A kept line as a row; an exception when it is not one."""
    own = {field.name for field in fields(Row)}
    values = {name: value for name, value in line.items() if name in own}
    if values["value"] is None:
        values["value"] = math.nan
    return Recorded(Row(**values), Provenance(**line["origin"]))


def newest(rows: Iterable[Recorded]) -> list[Recorded]:
    """Without the rows of experiments that a later run measured again."""
    kept = list(rows)
    last: dict[str, str] = {}
    for one in kept:
        key = _experiment(one.row)
        last[key] = max(last.get(key, ""), one.origin.started)
    return [one for one in kept if one.origin.started == last[_experiment(one.row)]]


def _experiment(row: Row) -> str:
    return json.dumps(dict(row.settings), sort_keys=True)


def _kept(value: float) -> float | None:
    """A value as JSON can hold it, with six significant digits."""
    return None if math.isnan(value) else float(f"{value:.6g}")
