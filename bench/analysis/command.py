"""`camcast bench analyze`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli import new_command
from bench.spark.session import add_spark_options
from bench.workloads.workload import in_columns
from overlay.errors import UsageError

if TYPE_CHECKING:
    from bench.analysis.audit import Audit

LISTED = 10
"""The most nodes and misses that the text lists."""
LONG_BYTES = 50_000_000
"""Traces of more than this take Spark minutes."""
MEMORY = "2g"
"""Of Java: when each of millions of events was published is sent to every task."""


def add_command(commands: Any) -> None:
    about = "audit your own nodes from their traces: who had what, how late, how often too many"
    more, example = f"{about} (docs/traces.md says what traces are)", "node-1.jsonl node-2.jsonl"
    parser = new_command(commands, "analyze", analyze, about, more, example)
    parser.add_argument(
        "traces",
        nargs="+",
        help="trace files, or directories that hold them: paths, or URIs that Spark reads",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)


def analyze(arguments: argparse.Namespace) -> int:
    """Print the audit; the exit code is 1 when nothing was published."""
    from bench.analysis.audit import audit
    from bench.analysis.trace_files import read_traces, trace_files
    from bench.spark.session import session_of

    files = trace_files(arguments.traces)
    with session_of(arguments, is_long=_are_long(files), memory=MEMORY) as spark:
        found = audit(spark, read_traces(spark, files))
    if not found.events:
        raise UsageError(
            f"no event was published by the {found.nodes} nodes in these {len(files)} files: "
            "name the publishers' traces too"
        )
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        print(as_text(found))
    return 0


def _are_long(files: Sequence[str]) -> bool:
    """Whether there is much to read; what only Spark can see is taken for much."""
    from bench.store import is_uri

    if any(map(is_uri, files)):
        return True
    return sum(Path(file).stat().st_size for file in files) > LONG_BYTES


def as_text(found: Audit) -> str:
    """The audit for people."""
    lines = [f"{found.events} events, {found.nodes} nodes", ""]
    lines += _communities(found)
    if found.missed_by:
        lines += ["", f"who missed what ({found.missing['misses']} in all)"]
        lines += [
            f"  {row['node'][:16]} in {row['topic']}: {row['missed']} of {row['events']} events"
            for row in found.missed_by[:LISTED]
        ]
        lines += _more(found.missing["missing_nodes"], "nodes")
        lines += ["", "events that were missed"]
        lines += [
            f"  {row['event']} by {row['node'][:16]} in {row['topic']}"
            for row in found.missed[:LISTED]
        ]
        lines += _more(found.missing["misses"], "misses")
    else:
        lines += ["", "nobody missed anything"]
    if found.parasites:
        lines += ["", "parasites"]
        lines += [
            f"  {row['event']} at {row['node'][:16]} in {row['topic']}"
            for row in found.parasites[:LISTED]
        ]
        lines += _more(found.missing["parasites"], "parasites")
    return "\n".join(lines)


HEADS = ("topic", "events", "reception", "reliability", "duplicates", "parasites", "hops")
LATE_HEADS = ("p50 ms", "p99 ms", "max ms")


def _communities(found: Audit) -> list[str]:
    by_topic: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found.communities:
        by_topic.setdefault(row["topic"], {})[row["metric"]] = row
    late = {row["topic"]: row for row in found.latencies}
    table: list[tuple[str, ...]] = [(*HEADS, *LATE_HEADS)]
    for topic, metrics in by_topic.items():
        times = late.get(topic)
        table.append(
            (
                topic,
                str(metrics["reception"]["count"] if "reception" in metrics else 0),
                _percent(metrics.get("reception")),
                _percent(metrics.get("reliability")),
                _percent(metrics.get("efficiency"), of_the_rest=True),
                f"{metrics['parasites']['value'] * metrics['parasites']['count']:.0f}",
                f"{metrics['rounds']['value']:.1f}" if "rounds" in metrics else "-",
                *(
                    f"{1000 * times[name]:.1f}" if times else "-"
                    for name in ("p50", "p99", "longest")
                ),
            )
        )
    return in_columns(table, [heading == "topic" for heading in table[0]])


def _percent(row: dict[str, Any] | None, of_the_rest: bool = False) -> str:
    if row is None:
        return "-"
    if of_the_rest:
        return f"{100 * (1 - row['value']):.1f} %"
    return f"{100 * row['value']:.1f} % [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def _more(count: int, what: str) -> list[str]:
    return [f"  and {count - LISTED} more {what} (--json lists them)"] if count > LISTED else []
