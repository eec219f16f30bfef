"""Every benchmark has its place in the report, run or not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.report.page import as_html
from bench.report.table import Table
from bench.report.tables import speed_figures, speed_tables
from bench.workloads import workloads
from bench.workloads.workload import LEFT_OUT, Provenance, Row, RowFile
from tests.bench.report.synthetic import whole_content

ORIGIN = Provenance("2026-02-03 04:05:06 UTC", "abc1234", "a machine", "3.12", 0.1, "the command")


def test_what_was_not_run_is_named_with_its_command(tmp_path: Path) -> None:
    [table] = speed_tables(tmp_path)
    assert table.title == "Not run"
    named = [(what, how.partition(";")[0]) for what, how in table.rows]
    assert named == [(each.title, each.command) for each in workloads()]


def test_what_was_run_is_shown_with_where_it_comes_from(tmp_path: Path) -> None:
    file = RowFile(tmp_path, "layers", ORIGIN)
    for number, rate in enumerate((1000.0, 3000.0, 2000.0)):
        file.add(Row({"way": "by pigeon"}, "rate", rate, "messages/s", number))
    file = RowFile(tmp_path, "fanout", ORIGIN)
    file.add(Row({"system": "Zenoh"}, LEFT_OUT, 0.0, note="not installed"))
    first, last = speed_tables(tmp_path)
    assert first.title.startswith("Speed of single layers: ")
    assert first.heads == ("way", "messages/s")
    assert first.rows == (("by pigeon", "2,000"),)
    assert first.commands == (ORIGIN.command,)
    assert f"{ORIGIN.version}; {ORIGIN.place}" in first.note
    assert str(ORIGIN).startswith("`the command` (commit abc1234 of 2026-02-03); a machine, ")
    assert ("Fan-out: Zenoh", "not installed") in last.rows
    assert dict(last.rows)["Fan-out"].startswith("camcast bench fanout; with --quick in about ")
    assert not any(what == "Speed of single layers" for what, _ in last.rows)


def test_a_listing_has_its_place_too(tmp_path: Path) -> None:
    row = Row({"layer": "sealing"}, "seal", 2.5, "us/datagram", note="plain: 0.7")
    RowFile(tmp_path, "layers", ORIGIN).add(row)
    table = speed_tables(tmp_path)[0]
    assert table.rows == (("sealing", "seal", "2.5", "us/datagram", "plain: 0.7"),)
    assert table.commands == ("the command",)


def test_figures_of_a_benchmark_are_in_the_report(tmp_path: Path) -> None:
    assert speed_figures(tmp_path) == []
    file = RowFile(tmp_path, "topics", ORIGIN)
    for participants in (2, 10):
        settings = {"network": "virtual", "participants": participants, "semantics": "reliable"}
        file.add(Row(settings, "rate", 100.0 * participants, "messages/s"))
        file.add(Row(settings, "delivered", 1.0, "share"))
    found = speed_figures(tmp_path)
    assert [figure.name for figure in found] == ["topic-throughput", "topic-delivered"]
    assert found[0].commands == (ORIGIN.command,), "what was run, not what might have been"
    titles = [panel.title for figure in found for panel in figure.panels]
    assert max(map(len, titles)) <= 34, "what is longer does not fit a panel"
    page = as_html(dataclasses.replace(whole_content(), speed_figures=found))
    assert all(f'<figure id="{figure.name}"' in page for figure in found)


def test_words_of_a_note_that_are_code_are_shown_as_code() -> None:
    table = Table("T", ("a",), (("1",),), "a dash under `s until rest`: no rest")
    page = as_html(dataclasses.replace(whole_content(), speed=[table]))
    assert "a dash under <code>s until rest</code>: no rest" in page
