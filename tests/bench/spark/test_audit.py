"""The audit of a small deployment whose traces were written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bench.analysis.audit
from bench.analysis.audit import Audit, audit
from bench.analysis.command import as_text
from bench.analysis.generate import generate
from bench.analysis.trace_files import read_traces, trace_files
from bench.traces import TraceFileError, histories, read_trace

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


def test_who_has_an_event_in_two_communities_and_who_wants_it_by_a_link_of_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """b is in /x and in /, and has the first event in both by one copy. c is in /other, which no path but a
    table of a names as above /x."""
    rows = [
        row(0.0, "a", "join", "/x"),
        row(0.0, "b", "join", "/x"),
        row(0.0, "b", "join", "/"),
        row(0.0, "c", "join", "/other"),
        row(0.5, "a", "table", "/x", peer="c" * 40, detail="added super /other"),
        row(1.0, "a", "publish", "/x", event=FIRST),
        copy(1.5, "b", "receive", "/x", FIRST, 1),
        row(1.5, "b", "receive", "/", event=FIRST, hops=1),
        copy(1.6, "c", "receive", "/other", FIRST, 1),
    ]
    trace = tmp_path / "both.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in rows))
    found = audit(spark, read_traces(spark, [str(trace)]))
    assert found.missed == found.parasites == []
    for topic in ("/", "/x", "/other"):
        assert value(found, topic, "reliability") == 1.0
    assert [(r["topic"], r["receptions"]) for r in found.latencies] == [("/other", 1), ("/x", 1)]
    [history] = histories(list(read_trace(trace))).values()
    assert set(history.communities["/"].had) == {"b" * 40}
    assert history.communities["/"].useful.total() == 0


def test_a_bad_line_far_into_a_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    good = json.dumps(row(0.0, "a", "join", "/"))
    (tmp_path / "good.jsonl").write_text(good + "\n")
    (tmp_path / "bad.jsonl").write_text(f"{good}\n{good}\nnonsense\n")
    with pytest.raises(TraceFileError, match=r"bad\.jsonl, line 3, is not JSON$"):
        read_traces(spark, trace_files([str(tmp_path)]))


def test_many_rows_are_summarised_by_sql_to_the_same_means(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(spark, 2_000, 10, f"{tmp_path}/made")
    rows = read_traces(spark, trace_files([str(tmp_path)]))
    exact = audit(spark, rows)
    monkeypatch.setattr(bench.analysis.audit, "EXACT_ROWS", 0)
    found = audit(spark, rows)
    assert (found.nodes, found.events, found.missing) == (exact.nodes, exact.events, exact.missing)
    assert found.missed == exact.missed
    assert found.missed_by == exact.missed_by
    assert 0 < found.missing["misses"] < 30
    for one, other in zip(found.communities, exact.communities, strict=True):
        assert (one["metric"], one["count"]) == (other["metric"], other["count"])
        assert one["value"] == pytest.approx(other["value"])
        assert one["low"] <= one["value"] <= one["high"]
    [late], [other] = found.latencies, exact.latencies
    assert late["p50"] == pytest.approx(other["p50"], rel=0.05)
    assert late["longest"] == other["longest"]


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
