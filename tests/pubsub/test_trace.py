"""A trace holds one row an event, in the documented columns, in both formats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from bench.traces import read_trace
from overlay.contact import PeerId
from pubsub.trace import COLUMNS, KINDS, PART_SECONDS, Trace, TraceError


class Timer:
    def cancel(self) -> None:
        pass


MANY = 5000
ME, YOU = PeerId(b"m" * 20), PeerId(b"y" * 20)


def write(path: Path, rows: int = 1) -> None:
    trace = Trace(path, lambda: 1.5)
    trace.of_node(ME)
    trace.record("join", "/a")
    for _ in range(rows):
        trace.record("send", "/a", event=bytes(16), peer=YOU, hops=2)
    trace.close()


def test_json_lines_leave_out_what_has_no_value(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines[0] == {"time": 1.5, "node": ME.hex(), "kind": "join", "topic": "/a"}
    assert lines[1]["peer"] == YOU.hex()
    assert lines[1]["hops"] == 2


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", rows=12_000)
    table = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table.num_rows == 12_001
    assert table.slice(1, 1).to_pylist()[0] == {
        "time": 1.5,
        "node": ME.hex(),
        "kind": "send",
        "topic": "/a",
        "event": bytes(16).hex(),
        "peer": YOU.hex(),
        "hops": 2,
        "detail": None,
    }


def test_the_documentation_names_every_column_and_kind() -> None:
    text = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert tuple(rows) == COLUMNS + KINDS


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no trace can be written to"):
        Trace(tmp_path / "missing" / "t.jsonl", lambda: 0.0)


@pytest.mark.parametrize("name", ["t.csv", "t-*.csv", "t.json.gz", "trace"])
def test_a_trace_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=r"is a file \.jsonl, \.jsonl\.gz or \.parquet, not"):
        Trace(tmp_path / name, lambda: 0.0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_parts_appear_when_they_are_whole_and_have_every_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("pubsub.trace.ROWS_A_PART", MANY)
    now = 100.0
    due: list[Callable[[], None]] = []
    trace = Trace(tmp_path / f"*.{ending}", lambda: now, lambda _, act: due.append(act) or Timer())
    trace.of_node(ME)

    def parts() -> list[Path]:
        return sorted(path for path in tmp_path.iterdir() if path.name[0] != ".")

    trace.record("join", "/a")
    trace.flush()
    assert parts() == []
    now += PART_SECONDS
    due.pop()()
    assert len(parts()) == 1
    for number in range(MANY + 5):
        trace.record("send", "/a", event=number.to_bytes(16, "big"), hops=1)
    assert len(parts()) == 2
    assert len(due) == 1  # one timer, however many rows
    trace.close()
    assert len(parts()) == 3
    rows = [row for path in parts() for row in read_trace(path)]
    assert [row["kind"] for row in rows[:1]] == ["join"]
    assert [int(row["event"], 16) for row in rows[1:]] == list(range(MANY + 5))
