"""What every tier answers, in one schema: a row for each experiment, repetition and community.

A tier leaves a field null where it cannot know it (the model knows no duplicates, the simulator no
seconds). `SCHEMA` is the schema of the Parquet files; `docs/results.md` describes it to readers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.experiment import SERIES, Experiment

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityResult:
    """What happened to one event in one community in one repetition."""

    repetition: int
    community: int
    """Index in the experiment's `sizes`: 0 is the bottom community."""
    processes: int
    """N_t, crashed ones included."""
    alive: float
    """Processes that could receive."""
    reached: float | None
    """Live processes that received the event; null below the published topic, where nobody wants it."""
    everyone: float | None
    """1 when every live process received it, else 0; the model gives the probability; null as above, and
    where nobody is alive."""
    messages_inside: float | None = None
    """Event messages sent within the community."""
    messages_upward: float | None = None
    """Event messages sent from this community to its super-community."""
    useful: float | None = None
    """Event messages received for the first time."""
    duplicates: float | None = None
    """Event messages received again."""
    parasites: float | None = None
    """Event messages received by processes of this community that are not interested in the topic."""
    rounds: float | None = None
    """Hops from publication to the last reception here; null when nobody was reached."""
    seconds: float | None = None
    """Seconds from publication to the last reception here (virtual ones when emulated)."""
    table_entries: float | None = None
    """Mean number of contacts that a process of this community keeps, all tables together."""
    largest_table: float | None = None
    """The largest number of contacts that one process keeps."""
    table_deviation: float | None = None
    """Standard deviation of the number of contacts over the processes of this community."""
    upward_peak: float | None = None
    """What the busiest process of this community sent upward, as a multiple of the mean process, over all
    events of the experiment with the same setting."""


RESULT_COLUMNS = tuple(field.name for field in dataclasses.fields(CommunityResult))


def rows(
    experiment: Experiment,
    results: Iterable[tuple[Experiment, Iterable[CommunityResult]]],
    wall: float,
) -> list[dict[str, Any]]:
    """The Parquet rows of a finished experiment: the results of each of its points.

    `wall` seconds are spread over nothing but the first.
    """
    found = [
        _asked(point)
        | {"experiment_id": experiment.id, "wall_seconds": 0.0, "error": None}
        | result
        for point, own in results
        for result in map(dataclasses.asdict, own)
    ]
    if found:
        found[0]["wall_seconds"] = wall
    return found


def error_row(experiment: Experiment, error: str) -> dict[str, Any]:
    """The row of an experiment that failed: no results, the error's text, the seed to replay it."""
    base = _asked(experiment) | {"experiment_id": experiment.id, "error": error}
    return base | dict.fromkeys(RESULT_COLUMNS) | {"wall_seconds": 0.0}


def _asked(experiment: Experiment) -> dict[str, Any]:
    fields = dataclasses.asdict(experiment) | {"sizes": list(experiment.sizes)}
    return {name: value for name, value in fields.items() if name not in SERIES}


def schema() -> pa.Schema:
    """The Arrow schema of the result files."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = [pa.field("experiment_id", pa.string())]
    for cls in (Experiment, CommunityResult):
        for field in dataclasses.fields(cls):
            if field.name in SERIES:
                continue  # each row is of one point
            kind = str(field.type).split(" | ")[0]
            columns.append(pa.field(field.name, kinds.get(kind, pa.list_(pa.int64()))))
    columns += [pa.field("wall_seconds", pa.float64()), pa.field("error", pa.string())]
    return pa.schema(columns, metadata={"camcast.schema": str(SCHEMA_VERSION)})
