"""What each process of real nodes did, over the events of one point: rows beside the results, if asked for.

The schema of the table `processes`; docs/results.md describes it to readers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.traces import Copies, Observation

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """One process, over those events of a point during which it was up."""

    community: int
    """Index in the experiment's `sizes`."""
    process: str
    """The node's id."""
    events: int
    """Events of the point that were published while it was up, its own included."""
    received: int
    """Event messages received for the first time."""
    duplicates: int
    """Event messages received again."""
    sent_inside: int
    """Event messages sent within the community."""
    sent_upward: int
    """Event messages sent to the super-community."""
    table_entries: float
    """Mean number of contacts that it kept, all tables together."""


def process_results(events: Sequence[Observation]) -> list[ProcessResult]:
    """A row for each process that was up at any of the events of one point, bottom community first."""
    return [result for level in range(len(events[0][1])) for result in _of_community(events, level)]


def _of_community(events: Sequence[Observation], level: int) -> list[ProcessResult]:
    there: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    total = Copies()
    for history, members in events:
        own = members[level]
        there.update(own.alive)
        entries.update({node: own.tables.get(node, 0) for node in own.alive})
        copies = history.communities.get(own.topic, Copies())
        total.useful += copies.useful
        total.duplicates += copies.duplicates
        total.inside += copies.inside
        total.upward += copies.upward
    return [
        ProcessResult(
            community=level,
            process=node,
            events=there[node],
            received=total.useful[node],
            duplicates=total.duplicates[node],
            sent_inside=total.inside[node],
            sent_upward=total.upward[node],
            table_entries=entries[node] / there[node],
        )
        for node in sorted(there)
    ]


def process_rows(
    points: Iterable[tuple[Experiment, Iterable[ProcessResult]]],
) -> list[dict[str, Any]]:
    """The rows of an experiment, without its id."""
    return [
        {"failed": point.failed, "p_sel": point.p_sel} | dataclasses.asdict(result)
        for point, results in points
        for result in results
    ]


def schema() -> pa.Schema:
    """The Arrow schema of the files; `failed` and `p_sel` tell the points of a series apart."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = [("experiment_id", pa.string()), ("failed", pa.float64()), ("p_sel", pa.float64())]
    columns += [(field.name, kinds[str(field.type)]) for field in dataclasses.fields(ProcessResult)]
    return pa.schema(columns)
