"""What every tier answers, in one schema: a row for each experiment, repetition and community.

A tier leaves a field null where it cannot know it (the model knows no duplicates, the simulator no
seconds). `SCHEMA` is the schema of the Parquet files; `docs/results.md` describes it to readers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1


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
    """1 when every live process received it, else 0; the model gives the probability; null as above."""
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


EXPERIMENT_COLUMNS = tuple(field.name for field in dataclasses.fields(Experiment))
RESULT_COLUMNS = tuple(field.name for field in dataclasses.fields(CommunityResult))


def rows(
    experiment: Experiment, results: Iterable[CommunityResult], wall: float
) -> list[dict[str, Any]]:
    """The Parquet rows of a finished experiment; `wall` seconds are spread over nothing but the first."""
    base = dataclasses.asdict(experiment) | {"experiment_id": experiment.id, "error": None}
    base["sizes"] = list(experiment.sizes)
    found = [base | dataclasses.asdict(result) | {"wall_seconds": 0.0} for result in results]
    if found:
        found[0]["wall_seconds"] = wall
    return found


def error_row(experiment: Experiment, error: str) -> dict[str, Any]:
    """The row of an experiment that failed: no results, the error's text, the seed to replay it."""
    base = dataclasses.asdict(experiment) | {"experiment_id": experiment.id, "error": error}
    base["sizes"] = list(experiment.sizes)
    return base | dict.fromkeys(RESULT_COLUMNS) | {"wall_seconds": 0.0}


def schema() -> pa.Schema:
    """The Arrow schema of the result files."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = [pa.field("experiment_id", pa.string())]
    for cls in (Experiment, CommunityResult):
        for field in dataclasses.fields(cls):
            kind = str(field.type).split(" | ")[0]
            columns.append(pa.field(field.name, kinds.get(kind, pa.list_(pa.int64()))))
    columns += [pa.field("wall_seconds", pa.float64()), pa.field("error", pa.string())]
    return pa.schema(columns, metadata={"camcast.schema": str(SCHEMA_VERSION)})
