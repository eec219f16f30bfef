"""`camcast bench quote`: the figures of the README and of docs/ come from kept rows, never from a hand.

A page has markers, which a browser does not show:

    <!-- figures: fanout.speed subscribers=4 columns="system, deliveries/s" -->
    (the table, and where it comes from)
    <!-- end of figures -->

    <!-- figure: fanout.deliveries "{:,.0f}" subscribers=4 system=Zenoh -->793,120<!-- end -->

    <!-- report: modes rows="events that reach everyone" --> (the table) <!-- end of report -->
    <!-- cell: "Table 2: ..." "CAMCAST, simulated" "1000, 100, 10" -->0<!-- end -->

A marker names a table of a workload, or a metric, and the settings that it is about; `|` stands between
settings of which any will do, and an empty one is for rows that have none. What stands between the markers
is written anew from the rows in `docs/figures/NAME.json`. These are medians of result files: `camcast bench
quote --take bench-results` takes those that the markers ask for, in place of kept ones of the same settings.
Where there are none, the page says so, with the command. The last two are of the comparative report, whose
tables are kept as it shows them; `rows` names those that are quoted (`;` between them), and verdicts are left
out."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.cli import new_command
from bench.workloads import workloads
from bench.workloads.workload import (
    LEFT_OUT,
    Provenance,
    Recorded,
    Row,
    Setting,
    Workload,
    in_words,
    markdown_table,
    read_rows,
    shown,
)
from overlay.errors import CamcastError, UsageError

FIGURES = Path("docs/figures")
_MARKER = re.compile(
    r"(<!-- (figures?|report|cell): (.*?) -->)(.*?)(<!-- end(?: of figures| of report)? -->)",
    re.DOTALL,
)
"""Groups: the marker, its kind and text, what stands there now, and the end."""


class QuoteError(CamcastError):
    """A marker that cannot be understood; the text names the page and the marker."""


@dataclass(frozen=True)
class Marker:
    """What a page asks for."""

    workload: Workload
    wanted: str
    """The name of a table, or a metric."""
    settings: Mapping[str, tuple[str, ...]]
    """The values of which any will do, by setting."""
    columns: tuple[str, ...] = ()
    """Headings of the columns that are shown; none: all."""
    form: str = ""
    """How a number is shown."""
    has_origin: bool = True
    """Whether a table is followed by where it comes from."""

    def takes(self, row: Row) -> bool:
        """Whether a row is about the settings that the marker names."""
        return all(
            any(_is(row.settings.get(name), value) for value in values)
            for name, values in self.settings.items()
        )

    def shows(self, row: Row) -> bool:
        """Whether a row's value is among what the marker asks for; a listing has every metric."""
        metrics = {self.wanted} if self.form else self.workload.table(self.wanted).metrics
        return self.takes(row) and (not metrics or row.metric in metrics)


def _is(value: Setting, wanted: str) -> bool:
    if value is None:
        return not wanted
    return wanted in (str(value), shown(value))


def parse(text: str, is_number: bool) -> Marker:
    """A marker's text; `QuoteError` when there is no such workload, table or option."""
    words = shlex.split(text)
    name, _, wanted = words[0].partition(".") if words else ("", "", "")
    found = next((each for each in workloads() if each.name == name), None)
    if found is None or not wanted:
        raise QuoteError(f'"{text}" names no workload and what is wanted of it')
    if not is_number and wanted not in [table.name for table in found.tables]:
        raise QuoteError(f'"{text}": {name} has no table {wanted}')
    settings: dict[str, tuple[str, ...]] = {}
    marker = Marker(found, wanted, settings)
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals:
            marker = replace(marker, form=word)
        elif key == "columns":
            marker = replace(marker, columns=tuple(part.strip() for part in value.split(",")))
        elif key == "origin":
            marker = replace(marker, has_origin=value != "no")
        else:
            settings[key] = tuple(value.split("|"))
    if is_number != bool(marker.form):
        raise QuoteError(
            f'"{text}": a number has a format such as "{{:,.0f}}", and a table has none'
        )
    return marker


# Kept rows.


@dataclass(frozen=True)
class Figures:
    """The kept rows of one workload."""

    recorded: tuple[Recorded, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Figures:
        if not path.exists():
            return cls()
        kept = json.loads(path.read_text())
        origins = [Provenance(**origin) for origin in kept["origins"]]
        return cls(
            tuple(
                Recorded(
                    Row(row["settings"], row["metric"], row["value"], row["unit"]),
                    origins[row["origin"]],
                )
                for row in kept["rows"]
            )
        )

    def write(self, path: Path) -> None:
        """A line a row, so that a difference can be read."""
        origins = list(dict.fromkeys(one.origin for one in self.recorded))
        rows = [
            {
                "settings": dict(one.row.settings),
                "metric": one.row.metric,
                "value": one.row.value,
                "unit": one.row.unit,
                "origin": origins.index(one.origin),
            }
            for one in self.recorded
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        places = ",\n".join("  " + json.dumps(asdict(origin)) for origin in origins)
        path.write_text(f'{{"origins": [\n{places}\n],\n"rows": [\n{lines}\n]}}\n')

    def of(self, marker: Marker) -> list[Recorded]:
        return [one for one in self.recorded if marker.takes(one.row)]


def medians(rows: Iterable[Recorded]) -> Iterator[Recorded]:
    """One row for each metric of each experiment: the median of its runs."""
    groups: dict[tuple[Any, ...], list[Recorded]] = {}
    for one in rows:
        row = one.row
        if row.event is None and row.community is None and row.metric != LEFT_OUT:
            key = (json.dumps(dict(row.settings)), row.metric)
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        value = statistics.median(one.row.value for one in group)
        yield Recorded(
            replace(group[0].row, value=float(f"{value:.6g}"), network=None, note=""),
            group[0].origin,
        )


# The comparative report.

Report = Mapping[str, Any]
"""What is kept of a report: its tables by title, as in `report.json`, and how it was made."""
REPORT = "report.json"


def _report_table(text: str, report: Report) -> str:
    title, *options = shlex.split(text)
    table = _kept_table(title, report)
    if table is None:
        return "\n\nNot measured yet; `make report` does.\n\n"
    named = [option.removeprefix("rows=") for option in options if option.startswith("rows=")]
    wanted = [name.strip() for name in named[0].split(";")] if named else None
    shown = [index for index, head in enumerate(table["heads"]) if head != "verdict"]
    kept = {row[0]: row for row in table["rows"]}
    if wanted and not kept.keys() >= set(wanted):
        raise QuoteError(f'"{text}": {title} has no row {sorted(set(wanted) - kept.keys())[0]!r}')
    rows = [kept[name] for name in wanted] if wanted else table["rows"]
    lines = [[row[index] for index in shown] for row in [table["heads"], *rows]]
    written = markdown_table(lines)
    made = report["made"]
    # When, on which commit and machine; the versions of packages are in the report.
    runs = ["; ".join(made[key].split("; ")[:3]) for key in made if key.startswith("run of ")]
    took = f"; {made['took']}" if "took" in made else ""
    return f"\n\n{written}\n\n`{made['command']}`: {', '.join(runs)}{took}.\n\n"


def _report_cell(text: str, report: Report) -> str:
    title, row, column = shlex.split(text)
    table = _kept_table(title, report)
    if table is None:
        return "(not measured yet: `make report`)"
    found = [own for own in table["rows"] if own[0] == row]
    if not found or column not in table["heads"]:
        raise QuoteError(f'"{text}": {title} has no such row or column')
    cell: str = found[0][table["heads"].index(column)]
    return cell.partition(" [")[0]


def _kept_table(title: str, report: Report) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = report.get("tables", {}).get(title)
    return found


def read_report(path: Path) -> Report:
    found: Report = json.loads(path.read_text()) if path.exists() else {}
    return found


def _take_report(root: Path, out: Path, texts: Sequence[str]) -> str:
    """Keep those tables of a report that pages ask for."""
    report = read_report(out / REPORT)
    if not report:
        return f"{REPORT}: no report, its figures stay (make report)"
    found = (marker for text in texts for marker in _MARKER.finditer(text))
    asked = {shlex.split(marker[3])[0] for marker in found if marker[2] in ("report", "cell")}
    tables = {title: table for title, table in report["tables"].items() if title in asked}
    kept = json.dumps(dict(report) | {"tables": tables}, indent=1, ensure_ascii=False)
    (root / FIGURES / REPORT).write_text(f"{kept}\n")
    return f"{REPORT}: {len(tables)} tables"


# Pages.


@dataclass(frozen=True)
class Kept:
    """What pages may quote: the rows of workloads by name, and the report."""

    figures: Mapping[str, Figures]
    report: Report

    @classmethod
    def read(cls, root: Path) -> Kept:
        places = {
            workload.name: root / FIGURES / f"{workload.name}.json" for workload in workloads()
        }
        figures = {name: Figures.read(path) for name, path in places.items()}
        return cls(figures, read_report(root / FIGURES / REPORT))

    def text(self, kind: str, asked: str) -> str:
        """What stands behind a marker of this kind and text."""
        if kind == "report":
            return _report_table(asked, self.report)
        if kind == "cell":
            return _report_cell(asked, self.report)
        marker = parse(asked, is_number=kind == "figure")
        own = self.figures[marker.workload.name]
        return _number(marker, own) if kind == "figure" else _table(marker, own)


def quoted(text: str, kept: Kept) -> str:
    """A page with everything between its markers written anew."""
    return _MARKER.sub(lambda found: found[1] + kept.text(found[2], found[3]) + found[5], text)


def markers(text: str) -> Iterator[Marker]:
    """What a page asks for of workloads."""
    for found in _MARKER.finditer(text):
        if found[2] in ("figures", "figure"):
            yield parse(found[3], is_number=found[2] == "figure")


def _table(marker: Marker, figures: Figures) -> str:
    found, table = figures.of(marker), marker.workload.table(marker.wanted)
    lines = table.lines([one.row for one in found], only=marker.columns)
    if len(lines) < 2:
        return f"\n\nNot measured yet; `{marker.workload.command}` does.\n\n"
    metrics = table.metrics_under(lines[0])
    used = [one.origin for one in found if not table.columns or one.row.metric in metrics]
    text = f"\n\n{markdown_table(lines, table.is_key)}\n\n"
    if marker.has_origin:
        text += _told(used)
    return text


def _told(origins: Iterable[Provenance]) -> str:
    """What rows were made by and on, runs of one commit on one machine together."""
    together: dict[tuple[str, str, str], list[Provenance]] = {}
    for origin in dict.fromkeys(origins):
        key = origin.version, origin.machine, origin.python
        together.setdefault(key, []).append(origin)
    return "".join(f"{in_words(runs)}\n\n" for runs in together.values())


def _number(marker: Marker, figures: Figures) -> str:
    values = {one.row.value for one in figures.of(marker) if one.row.metric == marker.wanted}
    if not values:
        return f"(not measured yet: `{marker.workload.command}`)"
    if len(values) > 1:
        raise QuoteError(
            f"{marker.workload.name}.{marker.wanted}: the marker's settings fit {len(values)} rows"
        )
    return marker.form.format(values.pop())


def pages(root: Path) -> list[Path]:
    """The README and the pages of docs/ that have markers."""
    found = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return [path for path in found if path.exists() and _MARKER.search(path.read_text())]


def stale(root: Path) -> list[Path]:
    """The pages that differ from the kept rows."""
    return [path for path, text in _written(root) if text != path.read_text()]


def _written(root: Path) -> Iterator[tuple[Path, str]]:
    """Every page with markers, as the kept rows have it."""
    kept = Kept.read(root)
    for path in pages(root):
        try:
            yield path, quoted(path.read_text(), kept)
        except QuoteError as error:
            raise QuoteError(f"{path.name}: {error}") from None


def take(root: Path, out: Path) -> Iterator[str]:
    """Keep the newest rows of every workload that was run, as far as a page asks for them; what was done."""
    texts = [path.read_text() for path in pages(root)]
    yield _take_report(root, out, texts)
    asked = [marker for text in texts for marker in markers(text)]
    for workload in workloads():
        own = [marker for marker in asked if marker.workload.name == workload.name]
        rows = list(medians(read_rows(out, workload.name)))
        if not own:
            continue
        if not rows:
            yield f"{workload.name}: not run, its figures stay ({workload.command})"
            continue
        path = root / FIGURES / f"{workload.name}.json"
        both = _replaced(Figures.read(path).recorded, rows)
        kept = tuple(one for one in both if any(marker.shows(one.row) for marker in own))
        Figures(kept).write(path)
        workload.write_figures([one.row for one in kept], root / "docs")
        yield f"{workload.name}: {len(kept)} figures"


def _replaced(before: Iterable[Recorded], rows: Iterable[Recorded]) -> list[Recorded]:
    """The rows of before with those of the same settings replaced: a run need not measure everything.

    What was not there before stands behind what was measured before it."""
    kept, new = _by_settings(before), _by_settings(rows)
    order, place = list(kept), len(kept)
    for settings in new:
        if settings not in kept:
            order.insert(place, settings)
        place = order.index(settings) + 1
    return [one for settings in order for one in (kept | new)[settings]]


def _by_settings(rows: Iterable[Recorded]) -> dict[str, list[Recorded]]:
    found: dict[str, list[Recorded]] = {}
    for one in rows:
        found.setdefault(json.dumps(dict(one.row.settings)), []).append(one)
    return found


def rewrite(root: Path) -> list[Path]:
    """Write the pages anew from the kept rows; those that changed."""
    changed = [(path, text) for path, text in _written(root) if text != path.read_text()]
    for path, text in changed:
        path.write_text(text)
    return [path for path, _ in changed]


def add_command(commands: Any) -> None:
    about = "write the figures of README and docs from kept results"
    more = "Write the figures of the README and of docs/ anew from the rows in docs/figures."
    parser = new_command(commands, "quote", run, about, more, "--take bench-results")
    parser.add_argument(
        "--take",
        type=Path,
        metavar="OUT",
        help="first keep the rows of OUT/speed, and the report of OUT",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; 1 when pages differ")
    parser.add_argument("--root", type=Path, default=Path(), help="of the project's tree")


def run(arguments: argparse.Namespace) -> int:
    root: Path = arguments.root
    if not (root / "docs").is_dir():
        raise UsageError(f"{root.resolve()} has no docs/: name the project's tree with --root")
    if arguments.check:
        return _show("differs from the kept rows:", stale(root))
    if arguments.take is not None:
        for line in take(root, arguments.take):
            print(line)
    _show("written:", rewrite(root))
    return 0


def _show(what: str, found: Sequence[Path]) -> int:
    for path in found:
        print(what, path, file=sys.stderr)
    return 1 if found else 0
