"""What a report is made of, read from a store: everything beyond here works on plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.aggregates import SETTING, Aggregates, reported
from bench.report.spread import TABLE as SPREAD
from bench.runs import Run, read_runs
from bench.store import is_uri

if TYPE_CHECKING:
    from bench.store import ResultStore

ASKED = (*SETTING, "repetitions", "replays", "network", "seed", "experiment_id")
"""The columns of what was asked for."""
MOST_ASKED = 100_000
"""The most settings of experiments that the report has: their parameters and seeds are listed."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of the results at a place."""

    aggregates: Aggregates
    place: str = "bench-results"
    """As the user has named it."""
    runs: list[Run] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The distinct settings of the experiments that have ended without an error, by the names of `ASKED`."""
    spread: list[dict[str, Any]] = field(default_factory=list)
    """One traced event for each mode."""
    written: str = ""
    """From when to when results were committed."""

    @property
    def directory(self) -> Path | None:
        """The place, where it is on this machine: the other benchmarks leave their rows there."""
        return None if is_uri(self.place) else Path(self.place)


def gather(store: ResultStore, aggregates: Aggregates | None = None) -> Material:
    """Read a store; `aggregates`, where somebody has looked at all of it already."""
    return Material(
        aggregates or Aggregates.of(store),
        store.place,
        read_runs(store),
        _asked(store),
        store.kept(SPREAD),
        _written(store.commits()),
    )


def _asked(store: ResultStore) -> list[dict[str, Any]]:
    rows = reported(store).where("error IS NULL").select(*ASKED).distinct().limit(MOST_ASKED)
    with store.telling():
        return [row.asDict() for row in rows.orderBy(*ASKED).collect()]


def _written(commits: list[str]) -> str:
    if not commits:
        return ""
    first, last = (_moment(commit) for commit in (min(commits), max(commits)))
    return first if first == last else f"from {first} to {last}"


def _moment(commit: str) -> str:
    """When a commit was made, by its name."""
    moment = datetime.strptime(commit.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
