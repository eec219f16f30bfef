"""A trace holds one row an event, in the documented columns, in both formats."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet
import pytest

from overlay.contact import PeerId
from pubsub.trace import COLUMNS, KINDS, Trace, TraceError

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
