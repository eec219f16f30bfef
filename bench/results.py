"""What every tier answers, in one schema of tidy rows: one value of one metric in each.

A row says which experiment, network, event and community a value is of. A tier leaves out what it cannot
know (the model knows no duplicates, the simulator no seconds). `docs/results.md` describes the Parquet files
to readers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.experiment import SERIES, Experiment

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
WHOLE = -1
"""Stands in `community` for all communities together: sums, the last round, everyone everywhere."""
BATCHES = 25
"""Simulated events each have tables of their own; they are kept as the means of this many equal parts."""

UNITS: dict[str, str] = {
    "reception": "share",
    "reliability": "share",
    "efficiency": "share",
    "climbing": "share",
    "complete_rounds": "rounds",
    "messages_inside": "messages",
    "messages_upward": "messages",
    "useful": "messages",
    "duplicates": "messages",
    "parasites": "messages",
    "rounds": "rounds",
    "seconds": "s",
    "table_entries": "contacts",
    "largest_table": "contacts",
    "table_deviation": "contacts",
    "upward_peak": "times the mean",
    "join_datagrams": "datagrams a node",
    "rest_datagrams": "datagrams a node-second",
    "rest_bytes": "bytes a node-second",
    "event_datagrams": "datagrams an event",
    "event_bytes": "bytes an event",
    "repair_seconds": "s",
    "uniformity": "times uniform",
}
"""Every metric with its unit.

reception: share of the live processes reached. reliability: share of events that reached them all.
efficiency: first receptions over all receptions. climbing: share of events of which a message was sent
upward. complete_rounds: rounds of the events that reached everyone. join_datagrams to uniformity are of a
whole network: what a node sent until all had joined, and then without events; what an event adds; how long
after crashes some table still names the dead; the variance of the number of tables that a process is in,
over that of tables drawn uniformly. The others are the fields of `CommunityResult`.
"""
PROPORTIONS = ("reliability", "climbing")
"""Shares of events: 0 or 1 for each."""
SHARES = (*PROPORTIONS, "reception", "efficiency")
METRICS = tuple(UNITS)


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
    """Live processes that received the event; None below the published topic, where nobody wants it."""
    everyone: float | None
    """1 when every live process received it, else 0; the model gives the probability; None as above, and
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
    """Hops from publication to the last reception here; None when nobody was reached."""
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

    def metrics(self) -> dict[str, float]:
        """The metrics that are known, by name."""
        found: dict[str, float | None] = {
            "reception": _ratio(self.reached, self.alive),
            "reliability": self.everyone,
            "climbing": None if self.messages_upward is None else float(self.messages_upward > 0),
            "complete_rounds": self.rounds if self.everyone == 1 else None,
        }
        if self.useful is not None and self.duplicates is not None:
            found["efficiency"] = _ratio(self.useful, self.useful + self.duplicates)
        for name in _COLUMNS:
            found[name] = getattr(self, name)
        return {name: float(value) for name, value in found.items() if value is not None}


_COLUMNS = tuple(f.name for f in dataclasses.fields(CommunityResult) if f.name in UNITS)


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of one community, not of a single event: means over `events`, or of a whole network."""

    metrics: Mapping[str, float]
    community: int = WHOLE
    events: int = 1


Result = CommunityResult | Measured


SUMMED = ("reached", "messages_inside", "messages_upward", "useful", "duplicates", "parasites")
LARGEST = ("rounds", "seconds", "largest_table", "table_deviation", "upward_peak")
"""How communities are taken together."""


def whole(results: Sequence[CommunityResult]) -> CommunityResult:
    """All communities of one event together; a value that one of them lacks is lacking."""
    first = results[0]
    wanting = [r for r in results if r.reached is not None]
    entries = [r for r in results if r.table_entries is not None]
    kept = sum((r.table_entries or 0.0) * r.processes for r in entries)
    everyone = [r.everyone for r in results if r.everyone is not None]
    summed = {name: _sum(getattr(r, name) for r in results) for name in SUMMED}
    largest = {name: _max(getattr(r, name) for r in results) for name in LARGEST}
    return CommunityResult(
        repetition=first.repetition,
        community=WHOLE,
        processes=sum(r.processes for r in results),
        # Reception is of those who want the event: communities below its topic do not count.
        alive=sum(r.alive for r in wanting),
        everyone=min(everyone, default=None),
        table_entries=kept / sum(r.processes for r in entries) if entries else None,
        **summed,
        **largest,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _ratio(part: float | None, total: float) -> float | None:
    return part / total if part is not None and total else None


Cells = tuple[int, int, int, int, str, float]
"""Of a tidy row, what differs from row to row of one point: the columns of `_VARYING`."""
_VARYING = ("network", "event", "events", "community", "metric", "value")


def tidy(point: Experiment, results: Sequence[Result]) -> Iterator[Cells]:
    """The rows of one point; simulated events in batches, those of real nodes one by one.

    `event` is -1 for what is of no single one."""
    together: dict[int, list[CommunityResult]] = {}
    for result in results:
        if isinstance(result, CommunityResult):
            together.setdefault(result.repetition, []).append(result)
    events = [[*own, whole(own)] for own in together.values()]
    if point.tier == "simulate":
        yield from _batches(events)
        events = []
    for result in (one for own in events for one in own):
        is_formula = point.tier == "model"
        metrics = _expected(point, result) if is_formula else result.metrics()
        at = (point.network, -1 if is_formula else result.repetition, 1, result.community)
        yield from ((*at, *metric) for metric in metrics.items())
    for other in results:
        if isinstance(other, Measured):
            at = (point.network, -1, other.events, other.community)
            yield from ((*at, *metric) for metric in other.metrics.items())


def _expected(point: Experiment, result: CommunityResult) -> dict[str, float]:
    """Expected values have no single events; all together, the probabilities are not the least of them."""
    from bench.tiers.model import everyone_everywhere

    metrics = result.metrics()
    for name in ("climbing", "complete_rounds"):
        metrics.pop(name, None)
    if result.community == WHOLE:
        metrics.pop("reliability", None)
        everywhere = everyone_everywhere(point)
        metrics |= {"reliability": everywhere} if everywhere is not None else {}
    return metrics


def _batches(events: list[list[CommunityResult]]) -> Iterator[Cells]:
    batches = min(BATCHES, len(events))
    values: dict[tuple[int, int], dict[str, list[float]]] = {}
    for index, own in enumerate(events):
        for result in own:
            part = values.setdefault((index * batches // len(events), result.community), {})
            for name, value in result.metrics().items():
                part.setdefault(name, []).append(value)
    for (batch, community), metrics in values.items():
        for name, known in metrics.items():  # not every event has every metric
            mean = float(np.mean(known)) if len(known) > 1 else known[0]
            yield batch, -1, len(known), community, name, mean


class Rows:
    """Rows of many experiments: Arrow makes columns of thousands of values as fast as of one."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in schema().names}

    def __len__(self) -> int:
        return len(self._columns["value"])

    def add(
        self,
        experiment: Experiment,
        results: Iterable[tuple[Experiment, Sequence[Result]]],
        wall: float,
    ) -> None:
        """Add a finished experiment; `wall` seconds are spread over nothing but the first row."""
        identifier, first = experiment.id, len(self)
        for point, own in results:
            rows = list(tidy(point, own))
            same = _asked(point) | {"experiment_id": identifier, "error": None, "wall_seconds": 0.0}
            for name, value in same.items():
                if name not in _VARYING:
                    self._columns[name] += [value] * len(rows)
            for name, column in zip(_VARYING, zip(*rows, strict=True), strict=False):
                self._columns[name] += column
            self._columns["unit"] += [UNITS[row[4]] for row in rows]
        if len(self) > first:
            self._columns["wall_seconds"][first] = wall

    def table(self) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_pydict(self._columns, schema=schema())


def table(
    experiment: Experiment,
    results: Iterable[tuple[Experiment, Sequence[Result]]],
    wall: float,
) -> pa.Table:
    """The Parquet rows of a finished experiment."""
    rows = Rows()
    rows.add(experiment, results, wall)
    return rows.table()


def error_table(experiment: Experiment, error: str) -> pa.Table:
    """The row of an experiment that failed: no results, the error's text, the seed to replay it."""
    import pyarrow as pa

    row = dict.fromkeys(schema().names) | _asked(experiment)
    row |= {"experiment_id": experiment.id, "error": error, "wall_seconds": 0.0}
    return pa.Table.from_pylist([row], schema=schema())


def _asked(experiment: Experiment) -> dict[str, Any]:
    fields = experiment.fields() | {"sizes": list(experiment.sizes)}
    return {name: value for name, value in fields.items() if name not in SERIES}


@cache
def schema() -> pa.Schema:
    """The Arrow schema of the result files."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    columns = [pa.field("experiment_id", pa.string())]
    for field in dataclasses.fields(Experiment):
        if field.name not in SERIES:  # each row is of one point
            kind = str(field.type).split(" | ")[0]
            columns.append(pa.field(field.name, kinds.get(kind, pa.list_(pa.int64()))))
    columns += [pa.field(name, pa.int64()) for name in ("event", "events", "community")]
    columns += [pa.field("metric", pa.string()), pa.field("value", pa.float64())]
    columns += [pa.field("unit", pa.string()), pa.field("wall_seconds", pa.float64())]
    columns.append(pa.field("error", pa.string()))
    return pa.schema(columns, metadata={"camcast.schema": str(SCHEMA_VERSION)})
