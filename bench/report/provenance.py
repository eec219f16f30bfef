"""How a report was made: the runs behind it, their machines and versions, and the command that remakes it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.aggregates import Aggregates
from bench.runs import Run, here, read_runs
from bench.suites import BUILT_IN


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a reader needs to make the report again."""

    items: tuple[tuple[str, str], ...]
    """Names and values, in order."""


def provenance(aggregates: Aggregates, directory: Path) -> Provenance:
    """The provenance of the results in `directory`, which is written as it was given."""
    suites = aggregates.suites()
    runs = [run for run in read_runs(directory) if run.name in suites]
    items = [("suites", ", ".join(suites)), ("command", _command(suites, runs, directory))]
    items += [(f"run of {run.name}", _run(run)) for run in _last(runs)]
    untold = [suite for suite in suites if suite not in {run.name for run in runs}]
    if untold and (when := _written(directory)):
        items.append((f"results of {', '.join(untold)}", f"written {when}"))
    if not runs:
        made = here()
        items += [("this report", f"{made['machine']}; Python {made['python']}")]
        items += [("versions", _versions(made["versions"]))]
    return Provenance(tuple(items))


def _command(suites: list[str], runs: list[Run], directory: Path) -> str:
    """Every suite again, by the path that it was given with where that is known."""
    given = {run.name: run.suite for run in runs}
    out = shlex.quote(_place(directory))
    calls = [
        f"camcast bench run {shlex.quote(given.get(name) or _path(name))} --out {out}"
        for name in suites
    ]
    return " && ".join([*calls, f"camcast bench report --out {out}"])


def _path(suite: str) -> str:
    """A suite of one's own is a file, of which only the name is known."""
    return suite if suite in BUILT_IN else f"PATH/TO/{suite}.toml"


def _place(directory: Path) -> str:
    here = Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory)


def _last(runs: list[Run]) -> list[Run]:
    """The last run of each suite: the earlier ones that it went on with are told by their number."""
    return list({run.name: run for run in runs}.values())


def _run(run: Run) -> str:
    commit = f", commit {run.commit}" if run.commit else ""
    return (
        f"{run.started} on {run.master}{commit}; {run.machine}; Python {run.python}; "
        f"{_versions(run.versions)}"
    )


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _written(directory: Path) -> str:
    """From when to when the result files were written; nothing where there are none."""
    times = sorted(path.stat().st_mtime for path in (directory / "results").rglob("*.parquet"))
    if not times:
        return ""
    first, last = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        for at in (times[0], times[-1])
    )
    return first if first == last else f"from {first} to {last}"
