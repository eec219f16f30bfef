"""What traces say of events: who had them, in how many hops, how often too many.

The emulated and the live tier, and the audit of a deployment, read traces (docs/traces.md) and nothing else.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.results import CommunityResult
from overlay.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]

NEEDED = ("time", "node", "kind", "topic")
COLUMN_TYPES: dict[str, tuple[type, ...]] = {
    "time": (int, float),
    "node": (str,),
    "kind": (str,),
    "topic": (str,),
    "event": (str,),
    "peer": (str,),
    "hops": (int,),
    "detail": (str,),
}
KIND_NEEDS = {
    "publish": ("event",),
    "send": ("event",),
    "upward": ("event",),
    "duplicate": ("event",),
    "receive": ("event", "hops"),
}
"""The columns that are read of each kind of row."""


PARASITE = "parasite"
"""The reason in a row of kind `drop` for a copy that came to a node outside the community it was for."""


class TraceFileError(UsageError):
    """A file is not a trace; the text names the file and the line."""


@dataclass(slots=True)
class Copies:
    """The copies of one event in one community."""

    had: dict[str, int] = field(default_factory=dict)
    """By node: the hops after which it first had the event, 0 for its publisher."""
    upward: Counter[str] = field(default_factory=Counter)
    """By node: the copies that it sent to the super-community."""
    inside: Counter[str] = field(default_factory=Counter)
    """By node: the copies that it sent within the community."""
    useful: Counter[str] = field(default_factory=Counter)
    """By node: the copies that it received and did not have."""
    duplicates: Counter[str] = field(default_factory=Counter)
    """By node: the copies that it received and had."""
    last: float = float("-inf")
    """When the last node had it."""


@dataclass(slots=True)
class EventHistory:
    """Everything that happened to one event."""

    published: float
    topic: str
    publisher: str
    communities: dict[str, Copies] = field(default_factory=dict)
    hops: list[tuple[int, str, str, str]] = field(default_factory=list)
    """(hops, from node, to node, community) of every first reception."""
    parasites: Counter[str] = field(default_factory=Counter)
    """By node: the copies that it dropped because it is not in the community they were for."""


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The rows of a trace file; `TraceFileError` names the file and the line that is wrong."""
    return list(trace_rows(path))


def trace_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a trace file one by one, JSON lines or Parquet by its ending."""
    try:
        if path.suffix == ".parquet":
            yield from _parquet_rows(path)
            return
        how: Any = gzip.open if path.suffix == ".gz" else open
        with how(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield _json_row(path, number, line)
    except OSError as error:
        raise TraceFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TraceFileError(f"{path} is not a trace: it is not text in UTF-8") from None


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        source = parquet.ParquetFile(path)
        missing = [name for name in NEEDED if name not in source.schema_arrow.names]
    except pa.ArrowInvalid:
        raise TraceFileError(f"{path} is not a trace: it is not Parquet") from None
    if missing:
        raise TraceFileError(f"{path} is not a trace: it has no column {missing[0]}")
    number = 0
    for batch in source.iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield _checked(path, f"row {number}", row)


def _json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        raise TraceFileError(f"{path}, line {number}, is not JSON") from None
    return _checked(path, f"line {number}", row)


def _checked(path: Path, where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or None in map(row.get, NEEDED):
        raise TraceFileError(f"{path}, {where}, has no {', '.join(NEEDED[:-1])} and {NEEDED[-1]}")
    for name, kinds in COLUMN_TYPES.items():
        value = row.get(name)
        if value is not None and type(value) not in kinds:  # to isinstance, True is an int
            raise TraceFileError(f"{path}, {where}: {name} cannot be {value!r}")
    missing = [name for name in KIND_NEEDS.get(row["kind"], ()) if row.get(name) is None]
    if missing:
        raise TraceFileError(f"{path}, {where}: a row of kind {row['kind']} needs {missing[0]}")
    return row


def histories(rows: Iterable[Row]) -> dict[str, EventHistory]:
    """What happened to each event, in the order of publication; rows may come in any order."""
    found: dict[str, EventHistory] = {}
    later: list[Row] = []
    for row in rows:
        if row["kind"] == "publish":
            history = EventHistory(row["time"], row["topic"], row["node"])
            copies = history.communities.setdefault(row["topic"], Copies())
            copies.had[row["node"]] = 0
            copies.last = row["time"]
            found[row["event"]] = history
        elif row.get("event") is not None:
            later.append(row)
    for row in later:
        if row["event"] in found:
            _note(found[row["event"]], row)
    return dict(sorted(found.items(), key=lambda item: item[1].published))


def _note(history: EventHistory, row: Row) -> None:
    if row["kind"] == "drop":
        if row.get("detail") == PARASITE:
            history.parasites[row["node"]] += 1
        return
    copies = history.communities.setdefault(row["topic"], Copies())
    kind = row["kind"]
    if kind == "send":
        copies.inside[row["node"]] += 1
    elif kind == "upward":
        copies.upward[row["node"]] += 1
    elif kind == "duplicate":
        copies.duplicates[row["node"]] += 1
    elif kind == "receive":
        copies.had[row["node"]] = row["hops"]
        copies.last = max(copies.last, row["time"])
        if row.get("peer") is not None:  # else no copy came: the node had it in another community
            copies.useful[row["node"]] += 1
            history.hops.append((row["hops"], row["peer"], row["node"], row["topic"]))


@dataclass(frozen=True, slots=True)
class CommunityMembers:
    """Who is in a community when an event is published."""

    topic: str
    processes: int
    alive: frozenset[str]
    """The nodes that could receive."""
    ever: frozenset[str]
    """Every node that was in the community at any time: a reception elsewhere is a parasite."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """By node: how many contacts it keeps."""


Observation = tuple[EventHistory, Sequence[CommunityMembers]]
"""An event, and who was in each community when it was published."""


def results_of(events: Sequence[Observation]) -> list[CommunityResult]:
    """The results of the repetitions of one setting, in order: of each event in each community."""
    found = []
    for repetition, (history, members) in enumerate(events):
        found += community_results(history, repetition, members)
    peaks = [_upward_peak(events, level) for level in range(len(events[0][1]))]
    return [replace(result, upward_peak=peaks[result.community]) for result in found]


def community_results(
    history: EventHistory, repetition: int, members: Sequence[CommunityMembers]
) -> list[CommunityResult]:
    """One event's result in each community, bottom first."""
    published_at = next(i for i, m in enumerate(members) if m.topic == history.topic)
    found = [
        _community_result(history, repetition, level, own, wanted=level >= published_at)
        for level, own in enumerate(members)
    ]
    homes = {node: level for level, own in enumerate(members) for node in own.ever}
    for node, copies in history.parasites.items():
        level = homes.get(node, published_at)
        dropped = (found[level].parasites or 0) + copies
        found[level] = replace(found[level], parasites=dropped)
    return found


def _upward_peak(events: Sequence[Observation], level: int) -> float | None:
    """The busiest process's share of the upward messages, times the processes; None without messages."""
    sent: Counter[str] = Counter()
    senders: set[str] = set()
    for history, members in events:
        copies = history.communities.get(members[level].topic, Copies())
        sent.update(copies.upward)
        senders |= members[level].alive
    total = sent.total()
    return max(sent.values()) * len(senders) / total if total else None


def _community_result(
    history: EventHistory, repetition: int, level: int, members: CommunityMembers, *, wanted: bool
) -> CommunityResult:
    copies = history.communities.get(members.topic, Copies())
    reached = [node for node in copies.had if node in members.alive]
    entries = members.tables.values()
    return CommunityResult(
        repetition=repetition,
        community=level,
        processes=members.processes,
        alive=len(members.alive),
        reached=len(reached) if wanted else None,
        everyone=float(len(reached) == len(members.alive)) if wanted and members.alive else None,
        messages_inside=copies.inside.total(),
        messages_upward=copies.upward.total(),
        useful=copies.useful.total(),
        duplicates=copies.duplicates.total(),
        parasites=sum(node not in members.ever for node in copies.had),
        rounds=max((copies.had[node] for node in reached), default=None),
        seconds=copies.last - history.published if reached else None,
        table_entries=fmean(entries) if entries else None,
        largest_table=max(entries, default=None),
        table_deviation=pstdev(entries) if entries else None,
    )


# What each process of real nodes did, over the events of one point: the rows of the table `processes`, which
# docs/results.md describes to readers.


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
