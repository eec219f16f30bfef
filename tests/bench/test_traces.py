"""What is read from traces: histories of events, and files that are no traces."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from bench.traces import (
    CommunityMembers,
    ProcessResult,
    TraceFileError,
    community_results,
    histories,
    process_results,
    read_trace,
    results_of,
)

EVENT = "e" * 32


def row(time: float, node: str, kind: str, topic: str, **more: Any) -> dict[str, Any]:
    return {"time": time, "node": node, "kind": kind, "topic": topic} | more


ROWS = [
    row(0.0, "a", "join", "/x"),
    row(1.0, "a", "publish", "/x", event=EVENT),
    row(1.0, "a", "send", "/x", event=EVENT, peer="b", hops=1),
    row(1.0, "a", "send", "/x", event=EVENT, peer="c", hops=1),
    row(1.1, "b", "receive", "/x", event=EVENT, peer="a", hops=1),
    row(1.2, "b", "send", "/x", event=EVENT, peer="c", hops=2),
    row(1.2, "b", "upward", "/x", event=EVENT, peer="r", hops=2, detail="/"),
    row(1.3, "c", "receive", "/x", event=EVENT, peer="b", hops=2),
    row(1.4, "c", "duplicate", "/x", event=EVENT, peer="a", hops=1),
    row(1.5, "r", "receive", "/", event=EVENT, peer="b", hops=2),
    row(1.6, "z", "receive", "/y", event=EVENT, peer="b", hops=2),
    row(1.6, "q", "receive", "/", event="f" * 32, peer="r", hops=9),  # of a publisher not traced
]
MEMBERS = [
    CommunityMembers("/y", 2, frozenset({"y"}), frozenset({"y"})),
    CommunityMembers("/x", 4, frozenset({"a", "b", "c", "d"}), frozenset({"a", "b", "c", "d"})),
    CommunityMembers("/", 1, frozenset({"r"}), frozenset({"r"})),
]


@pytest.mark.parametrize("seed", range(5))
def test_an_events_history_does_not_depend_on_the_order_of_the_rows(seed: int) -> None:
    rows = list(ROWS)
    random.Random(seed).shuffle(rows)
    [history] = histories(rows).values()
    results = community_results(history, 3, MEMBERS)
    below, own, above = results
    assert (own.reached, own.everyone, own.rounds, own.seconds) == (3, 0.0, 2, pytest.approx(0.3))
    assert (own.messages_inside, own.messages_upward, own.useful, own.duplicates) == (3, 1, 2, 1)
    assert (above.reached, above.everyone, above.rounds, above.parasites) == (1, 1.0, 2, 0)
    assert (below.reached, below.everyone, below.parasites) == (None, None, 1)
    assert {result.repetition for result in results} == {3}


def test_a_copy_for_a_community_that_a_node_is_not_in_is_a_parasite_of_its_own_community() -> None:
    parasite = {"event": EVENT, "peer": "b", "detail": "parasite"}
    rows = [
        *ROWS,
        row(1.7, "r", "drop", "/x", **parasite),
        row(1.8, "r", "drop", "/x", **parasite),
        row(1.8, "stranger", "drop", "/x", **parasite),
        row(1.9, "b", "drop", "/x", **{**parasite, "detail": "queue_full"}),
        row(1.9, "b", "drop", "/x", peer="a", detail="parasite"),  # of an event that nobody knows
    ]
    [history] = histories(rows).values()
    below, own, above = community_results(history, 0, MEMBERS)
    assert (below.parasites, own.parasites, above.parasites) == (1, 1, 2)
    assert above.useful == 1


def test_the_peak_of_upward_messages_is_over_all_events_of_a_setting() -> None:
    [history] = histories(ROWS).values()
    again = row(3.0, "a", "publish", "/x", event="d" * 32)
    upward = [
        row(3.0, node, "upward", "/x", event="d" * 32, peer="r", hops=1) for node in ("b", "b", "c")
    ]
    [later] = histories([again, *upward]).values()
    members = [dataclasses.replace(own, tables={"b": 2, "c": 4}) for own in MEMBERS]
    _, own, above = results_of([(history, members), (later, members)])[:3]
    # b sent 3 of 4, and there are 4 processes in /x.
    assert (own.upward_peak, above.upward_peak) == (3.0, None)
    assert (own.table_entries, own.largest_table, own.table_deviation) == (3.0, 4, 1.0)


def test_each_process_is_counted_over_the_events_during_which_it_was_up() -> None:
    [history] = histories(ROWS).values()
    members = [dataclasses.replace(own, tables={"b": 2, "c": 4}) for own in MEMBERS]
    later = [dataclasses.replace(own, alive=own.alive - {"c"}) for own in members]
    [again] = histories(
        [
            row(3.0, "b", "publish", "/x", event="d" * 32),
            row(3.0, "b", "send", "/x", event="d" * 32, peer="a", hops=1),
            row(3.1, "a", "receive", "/x", event="d" * 32, peer="b", hops=1),
        ]
    ).values()
    found = {each.process: each for each in process_results([(history, members), (again, later)])}
    assert found["a"] == ProcessResult(
        community=1,
        process="a",
        events=2,
        received=1,
        duplicates=0,
        sent_inside=2,
        sent_upward=0,
        table_entries=0.0,
    )
    assert (found["b"].sent_inside, found["b"].sent_upward, found["b"].table_entries) == (2, 1, 2.0)
    assert (found["c"].events, found["c"].received, found["c"].duplicates) == (1, 1, 1)
    assert (found["d"].events, found["d"].received) == (2, 0)
    assert (found["r"].community, found["r"].received) == (2, 1)


def test_where_nobody_is_alive_nobody_is_counted() -> None:
    [history] = histories(ROWS).values()
    empty = [*MEMBERS[:2], dataclasses.replace(MEMBERS[2], alive=frozenset())]
    root = community_results(history, 0, empty)[2]
    assert (root.alive, root.reached, root.everyone) == (0, 0, None)


def test_every_first_reception_is_a_hop_of_the_history() -> None:
    [history] = histories(ROWS).values()
    assert sorted(history.hops) == [
        (1, "a", "b", "/x"),
        (2, "b", "c", "/x"),
        (2, "b", "r", "/"),
        (2, "b", "z", "/y"),
    ]


def test_json_lines_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    lines, table = tmp_path / "t.jsonl", tmp_path / "t.parquet"
    lines.write_text("".join(json.dumps(line) + "\n" for line in ROWS))
    names = ("time", "node", "kind", "topic", "event", "peer", "hops", "detail")
    columns = {name: [line.get(name) for line in ROWS] for name in names}
    parquet.write_table(pa.table(columns), table)
    read = [{k: v for k, v in line.items() if v is not None} for line in read_trace(table)]
    assert read == read_trace(lines) == ROWS


GOOD = json.dumps(row(0.0, "a", "join", "/"))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("{", "line 2, is not JSON"),
        ("[1]", "line 2, has no time, node, kind and topic"),
        (json.dumps(row("late", "a", "join", "/")), "line 2: time cannot be 'late'"),  # type: ignore[arg-type]
        (json.dumps(row(1.0, "a", "send", "/")), "line 2: a row of kind send needs event"),
        (
            json.dumps(row(1.0, "a", "receive", "/", event=EVENT, peer="b")),
            "line 2: a row of kind receive needs hops",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(line: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "node.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(TraceFileError, match=r"node\.jsonl") as caught:
        read_trace(path)
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_files_are_named(tmp_path: Path) -> None:
    for name, content, wrong in (
        ("a.parquet", b"nothing of the kind", "not Parquet"),
        ("b.jsonl", b"\xff\xfe\x00", "not text in UTF-8"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceFileError, match=wrong):
            read_trace(tmp_path / name)
    parquet.write_table(pa.table({"time": [1.0]}), tmp_path / "c.parquet")
    with pytest.raises(TraceFileError, match="has no column node"):
        read_trace(tmp_path / "c.parquet")
    with pytest.raises(TraceFileError, match=r"d\.jsonl cannot be read"):
        read_trace(tmp_path / "d.jsonl")
