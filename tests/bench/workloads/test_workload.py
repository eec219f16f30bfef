"""What a workload declares becomes its command, its rows and its tables."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import bench.workloads
from bench import commands
from bench.commands import command_of, run_workload
from bench.players import PlayerFailed
from bench.quote import Figures, Kept, quoted
from bench.report.tables import speed_tables
from bench.workloads import distributors, workloads
from bench.workloads.workload import (
    LEFT_OUT,
    Option,
    Recorded,
    Row,
    RowTable,
    Workload,
    markdown_table,
    newest,
    percentiles,
    provenance,
    read_rows,
)
from pubsub.cli import main

TABLE = RowTable(
    "speed",
    "Speed",
    {"system": "system", "size": "bytes", "mood": "mood"},
    {
        "rate": "{rate:,.0f} /s",
        "p50 / p99": "{p50:.1f} / {p99:.1f}",
    },
)


def run(options: argparse.Namespace) -> Iterator[Row]:
    for size in options.sizes:
        for number in range(options.runs):
            settings = {"system": "ours", "size": size}
            yield Row(settings, "rate", 1000.0 * size + number, "1/s", network=number)
    yield Row({"system": "theirs"}, LEFT_OUT, 0.0, note="not installed")


MADE_UP = Workload(
    "made-up",
    "Made up",
    "Nothing is measured.",
    (
        Option("sizes", [1, 2], "sizes", quick=[1]),
        Option("runs", 3, "runs"),
        Option("kinds", [], "kinds", choices=("a", "b")),
        Option("wild", False, "a switch"),
    ),
    run,
    (TABLE,),
    quick_seconds=1,
    is_wrong=lambda rows: any(row.value > 2000 for row in rows),
)


def test_options_come_from_what_is_declared() -> None:
    parser = argparse.ArgumentParser()
    for option in MADE_UP.options:
        option.add_to(parser)
    found = parser.parse_args(["--sizes", "5", "6", "--wild", "--kinds", "b"])
    assert (found.sizes, found.runs, found.kinds, found.wild) == ([5, 6], 3, ["b"], True)
    assert command_of(MADE_UP, found) == "camcast bench made-up --sizes 5 6 --kinds b --wild"
    assert command_of(MADE_UP, parser.parse_args([])) == "camcast bench made-up"
    assert MADE_UP.defaults(quick=True).sizes == [1]


def test_rows_are_kept_with_what_they_were_made_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_workload(MADE_UP, MADE_UP.defaults(quick=True), tmp_path) == 0
    shown = capsys.readouterr().out
    assert "ours    1      1,001 /s" in shown, "the median of three runs"
    assert "mood" not in shown, "a column in which nothing stands is left out"
    assert "left out: theirs: not installed" in shown
    lines = [
        json.loads(line) for line in (tmp_path / "speed/made-up.jsonl").read_text().splitlines()
    ]
    assert lines[0]["origin"]["command"] == "camcast bench made-up --sizes 1"
    assert set(lines[0]["origin"]) == {
        "started",
        "commit",
        "machine",
        "python",
        "load",
        "command",
    }
    names = ("experiment", "network", "event", "community", "metric", "value", "unit")
    assert [lines[1][name] for name in names] == ["made-up", 1, None, None, "rate", 1001.0, "1/s"]
    assert run_workload(MADE_UP, MADE_UP.defaults(quick=False), tmp_path) == 1, "a failure is told"


def test_a_note_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a listing beside its value; with other tables, which have no place for it, below them."""
    rows = (
        Row({"layer": "sealing"}, "seal", 2.5, "us", note="plain: 0.7"),
        Row({"way": "by pigeon"}, "rate", 3.0, "1/s", note="two were lost"),
    )
    tables = (
        RowTable("layers", "Layers", {"layer": "layer"}),
        RowTable("ways", "Ways", {"way": "way"}, {"rate": "{rate:.0f}"}),
    )
    both = replace(MADE_UP, run=lambda options: rows, tables=tables)
    run_workload(both, both.defaults(quick=True), tmp_path)
    shown = capsys.readouterr().out
    assert shown.count("plain: 0.7") == 1
    assert "rate: by pigeon: two were lost" in shown


def test_readers_take_the_newest_run_of_each_experiment() -> None:
    old = replace(provenance("x"), started="2026-01-01 00:00:00 UTC")
    new = replace(old, started="2026-02-01 00:00:00 UTC")
    rows = [
        Recorded(Row({"size": 1}, "rate", 1.0), old),
        Recorded(Row({"size": 2}, "rate", 2.0), old),
        Recorded(Row({"size": 1}, "rate", 3.0), new),
    ]
    assert [one.row.value for one in newest(rows)] == [2.0, 3.0]


def test_torn_lines_are_left_out(tmp_path: Path) -> None:
    run_workload(MADE_UP, MADE_UP.defaults(quick=True), tmp_path, as_json=True)
    path = tmp_path / "speed/made-up.jsonl"
    path.write_text(path.read_text() + '{"experiment": "made up", "val\n[]\n{}\n')
    assert len(read_rows(tmp_path, "made-up")) == 4
    assert read_rows(tmp_path, "another") == []


def test_a_table_shows_medians_and_dashes() -> None:
    rows = [
        Row({"system": "a", "size": 4096}, "rate", value, network=number)
        for number, value in enumerate((1.0, 9.0, 5000.0))
    ]
    rows.append(Row({"system": "a", "size": 4096}, "p50", 1.0, event=7))
    rows.append(Row({"system": "b", "size": None}, "p50", 2.0))
    rows.append(Row({"system": "b", "size": None}, "p99", 3.0))
    assert markdown_table(TABLE.lines(rows), TABLE.is_key).splitlines() == [
        "| system | bytes | rate | p50 / p99 |",
        "| --- | --- | ---: | ---: |",
        "| a | 4,096 | 9 /s | - |",
        "| b |  | - | 2.0 / 3.0 |",
    ]
    assert TABLE.lines(rows, only=["system", "rate"])[0] == ["system", "rate"]


def test_quantiles() -> None:
    found = percentiles([3.0, 1.0, 2.0], 1e3, "ms")
    assert found["p50"] == (2000.0, "ms")
    assert found["p99"] == (pytest.approx(2980.0), "ms")
    assert all(math.isnan(value) for value, _ in percentiles([], 1.0, "s").values())


def test_every_workload_declares_what_it_needs() -> None:
    names = [workload.name for workload in workloads()]
    assert len(set(names)) == len(names)
    for workload in workloads():
        assert workload.tables, workload.name
        assert workload.quick_seconds > 0
        for table in workload.tables:
            headings = [*table.keys.values(), *table.columns]
            assert len(set(headings)) == len(headings), (workload.name, table.name)


@pytest.mark.parametrize(
    "error", [PlayerFailed("process 5 has ended"), AssertionError("process 5 has ended")]
)
def test_one_workload_that_fails_does_not_keep_the_others_from_running(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def broken(options: argparse.Namespace) -> Iterator[Row]:
        raise error
        yield

    failing = replace(MADE_UP, name="failing", run=broken, quick_seconds=0.5)
    monkeypatch.setattr(commands, "workloads", lambda: [MADE_UP, failing])
    assert commands.run_speed(tmp_path) == 1
    told = capsys.readouterr()
    assert "failed: camcast bench failing: " in told.err
    assert "process 5 has ended" in told.err
    assert "1 of 2 workloads: failing took 0 s" in told.out  # the quickest comes first
    assert "1,001 /s" in told.out


NEW = """
from bench.workloads.workload import Option, Row, RowTable, Workload


def run(options):
    for size in options.sizes:
        yield Row({"size": size}, "rate", 10.0 * size, "1/s")


WORKLOAD = Workload(
    "pigeons",
    "Pigeons",
    "Messages a second by pigeon.",
    (Option("sizes", [1, 2], "bytes of a message", quick=[1]),),
    run,
    (RowTable("speed", "By pigeon", {"size": "bytes"}, {"messages/s": "{rate:,.0f}"}),),
    quick_seconds=1,
)
"""


def test_a_new_benchmark_is_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pigeons.py").write_text(NEW)
    monkeypatch.setattr("bench.workloads.__path__", [*bench.workloads.__path__, str(tmp_path)])
    bench.workloads.workloads.cache_clear()
    try:
        assert main(["bench", "pigeons", "--sizes", "3", "--out", str(tmp_path)]) == 0
        assert "30" in capsys.readouterr().out
        first, *_ = speed_tables(tmp_path)
        assert (first.title, first.rows) == ("Pigeons: By pigeon", (("3", "30"),))
        page = "<!-- figures: pigeons.speed --><!-- end of figures -->"
        rows = Figures(tuple(read_rows(tmp_path, "pigeons")))
        assert "| 3 | 30 |" in quoted(page, Kept({"pigeons": rows}, {}))
    finally:
        bench.workloads.workloads.cache_clear()
        sys.modules.pop("bench.workloads.pigeons", None)


def test_the_memory_of_distributors_is_counted_and_nothing_is_traced_any_more() -> None:
    """In a run of all workloads, those behind it would be slow."""
    rows = list(distributors.run(argparse.Namespace(subscribers=[20], bytes=256, runs=0)))
    assert [row.unit for row in rows] == ["bytes", "bytes"]
    assert min(row.value for row in rows) > 100
    assert not tracemalloc.is_tracing()
