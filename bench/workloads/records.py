"""The result files of workloads: JSON lines of rows, each with what it was made on.

`bench-results/speed/NAME.jsonl`. A run adds its rows to those of earlier ones; readers take, of each
experiment (name and settings), the rows of the newest run that measured it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.runs import commit_here, here
from bench.workloads.workload import Row

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
