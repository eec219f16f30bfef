"""The audit of a small deployment whose traces were written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

import bench.analysis.audit
from bench.analysis.audit import Audit, audit
from bench.analysis.command import as_text
from bench.analysis.trace_files import read_traces, trace_files
from bench.traces import TraceFileError, histories, read_trace
from tests.bench.spark.generate import TOPIC, generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, SECOND = "1" * 32, "2" * 32


def row(time: float, node: str, kind: str, topic: str, **more: Any) -> dict[str, Any]:
    return {"time": time, "node": node * 40, "kind": kind, "topic": topic} | more


def copy(time: float, node: str, kind: str, topic: str, event: str, hops: int) -> dict[str, Any]:
    return row(time, node, kind, topic, event=event, peer="a" * 40, hops=hops)


TRACES = {
    "a": [
        row(0.0, "a", "join", "/x"),
        row(1.0, "a", "publish", "/x", event=FIRST),
        copy(1.0, "a", "send", "/x", FIRST, 1),
        copy(1.0, "a", "send", "/x", FIRST, 1),
        copy(1.0, "a", "upward", "/x", FIRST, 1),
    ],
    "b": [
        row(0.0, "b", "join", "/x"),
        copy(1.1, "b", "receive", "/x", FIRST, 1),
        copy(1.2, "b", "duplicate", "/x", FIRST, 2),
        copy(2.1, "b", "receive", "/x", SECOND, 1),  # of the root: nobody in /x wants it
    ],
    "c": [row(0.0, "c", "join", "/x")],
    "d": [
        row(0.0, "d", "join", "/"),
        copy(1.3, "d", "receive", "/", FIRST, 1),
        row(2.0, "d", "publish", "/", event=SECOND),
        # For /x, where d is not.
        row(1.4, "d", "drop", "/x", event=FIRST, peer="a" * 40, detail="parasite"),
        row(1.4, "d", "drop", "/", event=FIRST, peer="a" * 40, detail="queue_full"),
    ],
    "e": [row(0.5, "e", "join", "/"), row(0.7, "e", "leave", "/"), row(1.5, "e", "join", "/")],
}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    directory = tmp_path_factory.mktemp("traces")
    for node, rows in TRACES.items():
        lines = "".join(json.dumps(line) + "\n" for line in rows)
        (directory / f"{node}.jsonl").write_text(lines)
    return audit(spark, read_traces(spark, trace_files([str(directory)])))


def value(found: Audit, topic: str, metric: str) -> float:
    [row] = [r for r in found.communities if r["topic"] == topic and r["metric"] == metric]
    number: float = row["value"]
    return number


def test_members_are_those_who_had_joined_and_not_left_at_publication(found: Audit) -> None:
    # Of the first event: a, b and c below, d above (e had left). Of the second: d and e.
    assert value(found, "/x", "reception") == pytest.approx(2 / 3)
    assert value(found, "/", "reception") == pytest.approx((1 + 1 / 2) / 2)
    assert value(found, "/", "reliability") == 0.5


def test_who_missed_what_is_named(found: Audit) -> None:
    assert found.missed == [
        {"event": FIRST, "topic": "/x", "node": "c" * 40},
        {"event": SECOND, "topic": "/", "node": "e" * 40},
    ]
    assert {(r["node"][0], r["missed"], r["events"]) for r in found.missed_by} == {
        ("c", 1, 1),
        ("e", 1, 1),
    }


def test_copies_latencies_and_parasites_are_counted(found: Audit) -> None:
    assert (found.events, found.nodes) == (2, 5)
    assert found.parasites == [
        {"event": FIRST, "topic": "/x", "node": "d" * 40},
        {"event": SECOND, "topic": "/x", "node": "b" * 40},
    ]
    assert value(found, "/x", "parasites") == 1.0
    assert value(found, "/x", "messages_upward") == 0.5
    [above, below] = found.latencies
    assert above["longest"] == pytest.approx(0.3)
    assert below["receptions"] == 2


def test_the_text_names_those_who_missed_events_and_the_parasites(found: Audit) -> None:
    text = as_text(found)
    assert "2 events, 5 nodes" in text
    assert f"{FIRST} by {'c' * 16} in /x" in text
    assert f"{SECOND} at {'b' * 16} in /x" in text


BOTH = [
    row(0.0, "a", "join", "/x"),
    row(0.0, "b", "join", "/x"),
    row(0.0, "b", "join", "/"),
    row(0.0, "c", "join", "/other"),
    row(0.1, "a", "table", "/x", peer="c" * 40, detail="added super /other"),
    row(0.2, "a", "publish", "/x", event=FIRST),
    copy(0.3, "b", "receive", "/x", FIRST, 1),
    row(0.3, "b", "receive", "/", event=FIRST, hops=1),
    copy(0.4, "c", "receive", "/other", FIRST, 1),
    row(0.9, "b", "leave", "/"),
]
"""b is in /x and in /, and has the event in both by one copy. c is in /other, which no path but a table of a
names as above /x. All is over before the first event that is made."""


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    """Traces of a few thousand rows, audited as very many are, and where they are."""
    directory = tmp_path_factory.mktemp("many")
    generate(spark, 2_000, 10, f"{directory}/made")
    (directory / "both.jsonl").write_text("".join(json.dumps(line) + "\n" for line in BOTH))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.analysis.audit, "EXACT_ROWS", 0)
        return directory, audit(spark, read_traces(spark, trace_files([str(directory)])))


def test_who_has_an_event_in_two_communities_and_who_wants_it_by_a_link_of_a_table(
    many: tuple[Path, Audit],
) -> None:
    directory, found = many
    assert found.parasites == []
    assert {one["topic"] for one in found.missed} == {TOPIC}
    for topic in ("/", "/x", "/other"):
        assert value(found, topic, "reliability") == 1.0
    received = [(r["topic"], r["receptions"]) for r in found.latencies if r["topic"] != TOPIC]
    assert received == [("/other", 1), ("/x", 1)]
    [history] = histories(list(read_trace(directory / "both.jsonl"))).values()
    assert set(history.communities["/"].had) == {"b" * 40}
    assert history.communities["/"].useful.total() == 0


def test_a_bad_line_far_into_a_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    good = json.dumps(row(0.0, "a", "join", "/"))
    (tmp_path / "good.jsonl").write_text(good + "\n")
    (tmp_path / "bad.jsonl").write_text(f"{good}\n{good}\nnonsense\n")
    with pytest.raises(TraceFileError, match=r"bad\.jsonl, line 3, is not JSON$"):
        read_traces(spark, trace_files([str(tmp_path)]))


def test_many_rows_are_summarised_by_sql_to_what_their_histories_say(
    many: tuple[Path, Audit],
) -> None:
    directory, found = many
    files = sorted((directory / "made").glob("*.parquet"))
    events = histories([row for file in files for row in read_trace(file)])
    copies = {name: history.communities[TOPIC] for name, history in events.items()}
    nodes = {node for one in copies.values() for node in one.had}
    missed = {(name, node) for name, one in copies.items() for node in nodes - one.had.keys()}
    assert 0 < len(missed) < 30
    assert (found.nodes, found.events) == (len(nodes) + 3, len(events) + 1)
    assert found.missing["misses"] == len(missed)
    assert {(one["event"], one["node"]) for one in found.missed} == missed
    assert sum(one["missed"] for one in found.missed_by) == len(missed)
    assert {one["events"] for one in found.missed_by} == {len(events)}
    shares = [len(one.had) / len(nodes) for one in copies.values()]
    received = [(one.useful.total(), one.duplicates.total()) for one in copies.values()]
    for metric, values in (
        ("reception", shares),
        ("reliability", [float(share == 1) for share in shares]),
        ("efficiency", [useful / (useful + again) for useful, again in received]),
        ("messages_inside", [float(one.inside.total()) for one in copies.values()]),
    ):
        [own] = [r for r in found.communities if (r["topic"], r["metric"]) == (TOPIC, metric)]
        assert own["count"] == len(values)
        assert own["value"] == pytest.approx(fmean(values))
        assert own["low"] <= own["value"] <= own["high"]
    [late] = [one for one in found.latencies if one["topic"] == TOPIC]
    assert late["receptions"] == sum(useful for useful, _ in received)
    assert late["p50"] == pytest.approx(0.05, rel=0.1)  # drawn from 0 to 0.1 s
    assert 0.09 < late["longest"] <= 0.1


def test_a_uri_is_read_by_spark_and_what_it_cannot_read_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(row(0.0, "a", "join", "/")) + "\n")
    generate(spark, 100, 5, f"{tmp_path}/below/made")
    assert read_traces(spark, trace_files([tmp_path.as_uri()])).count() > 50
    for place, sentence in (
        ("nothere://bucket/traces", "Spark has no file system for nothere://"),
        (f"{tmp_path.as_uri()}/missing.jsonl", "there is no file:"),
    ):
        with pytest.raises(TraceFileError, match=sentence):
            read_traces(spark, trace_files([place]))
