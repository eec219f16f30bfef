"""The figures of the documentation are those of the kept rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import quote
from bench.quote import Figures, Kept, QuoteError, markers, medians, quoted, stale
from bench.workloads import workloads
from bench.workloads.workload import Provenance, Recorded, Row, RowFile
from pubsub.cli import main

ROOT = Path(__file__).parents[2]
ORIGIN = Provenance(
    "2026-02-03 04:05:06 UTC", "abc1234", "a machine", "3.12.1", 0.1, "camcast bench layers"
)
PAGE = """# Speed

<!-- figures: layers.channels way="one|two" columns="way, messages/s" -->
anything
<!-- end of figures -->

It does <!-- figure: layers.rate "{:,.0f}" way=two -->?<!-- end --> messages a second.
"""


def kept(*values: tuple[str, float], report: Mapping[str, Any] | None = None) -> Kept:
    rows = [Recorded(Row({"way": way}, "rate", rate), ORIGIN) for way, rate in values]
    figures = {each.name: Figures() for each in workloads()}
    return Kept(figures | {"layers": Figures(tuple(rows))}, report or {})


def test_the_documentation_says_what_the_kept_rows_say() -> None:
    assert stale(ROOT) == [], "run `camcast bench quote`"


TYPED = re.compile(
    r"\b(took|takes) (about )?\d[\d.,]* (s|min|ms|us|seconds|minutes)\b|\b\d[\d.,]* us\b"
    r"|\d s of processor time|\d (deliveries|messages|events|rows)(/s| a second)"
)
"""How measurements read: these belong between markers."""
BY_HAND = ("security.md",)
"""Pages whose measurements are not rows of a workload yet."""


def test_no_measurement_is_typed() -> None:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        text = quote._MARKER.sub("", text)
        typed = [found[0] for found in TYPED.finditer(text)]
        assert not typed or path.name in BY_HAND, (path.name, typed)


def test_every_kept_row_was_made_by_a_commit_on_a_day() -> None:
    for figures in Kept.read(ROOT).figures.values():
        for one in figures.recorded:
            assert one.origin.commit, one
            assert re.match(r"\d{4}-\d\d-\d\d ", one.origin.started), one


def test_every_kept_row_is_shown_somewhere() -> None:
    asked = [marker for path in quote.pages(ROOT) for marker in markers(path.read_text())]
    for name, figures in Kept.read(ROOT).figures.items():
        own = [marker for marker in asked if marker.workload.name == name]
        for one in figures.recorded:
            assert any(marker.shows(one.row) for marker in own), one.row


def test_tables_and_numbers_are_written_from_rows() -> None:
    page = quoted(PAGE, kept(("one", 1000.0), ("two", 2345.6), ("three", 3.0)))
    assert page.splitlines()[2:] == [
        '<!-- figures: layers.channels way="one|two" columns="way, messages/s" -->',
        "",
        "| way | messages/s |",
        "| --- | ---: |",
        "| one | 1,000 |",
        "| two | 2,346 |",
        "",
        "`camcast bench layers` (commit abc1234 of 2026-02-03); a machine, Python 3.12.1, load 0.1 before"
        " the run.",
        "",
        "<!-- end of figures -->",
        "",
        'It does <!-- figure: layers.rate "{:,.0f}" way=two -->2,346<!-- end --> messages a second.',
    ]
    assert quoted(page, kept(("one", 1000.0), ("two", 2345.6))) == page


def test_what_was_not_measured_is_said_with_its_command() -> None:
    page = quoted(PAGE, kept())
    assert "Not measured yet; `camcast bench layers` does." in page
    assert "It does" in page
    assert "-->(not measured yet: `camcast bench layers`)<!-- end -->" in page


@pytest.mark.parametrize(
    ("marker", "wrong"),
    [
        ("figures: nothing.speed", "names no workload"),
        ("figures: fanout", "names no workload"),
        ("figures: fanout.nothing", "fanout has no table nothing"),
        ('figures: fanout.speed "{:.1f}"', "a table has none"),
    ],
)
def test_a_marker_that_cannot_be_understood_is_an_error(marker: str, wrong: str) -> None:
    with pytest.raises(QuoteError, match=wrong):
        quoted(f"<!-- {marker} -->\n<!-- end of figures -->", kept())


def test_a_number_that_several_rows_fit_is_an_error() -> None:
    page = '<!-- figure: layers.rate "{:.0f}" -->1<!-- end -->'
    with pytest.raises(QuoteError, match="fit 2 rows"):
        quoted(page, kept(("one", 1.0), ("two", 2.0)))


REPORT = {
    "made": {
        "command": "make",
        "run of quick": "today, commit abc; a machine; Python 3; pyspark 4",
    },
    "tables": {
        "modes": {
            "heads": ["", "structured", "verdict"],
            "rows": [["reached", "100 %", "no difference"], ["sent", "7 [6, 8]", "-"]],
        },
        "unasked": {"heads": [], "rows": []},
    },
}
REPORTED = """<!-- report: modes rows="reached" -->
<!-- end of report -->
Sent: <!-- cell: modes sent structured -->?<!-- end -->
"""


def test_tables_and_cells_of_the_report_are_quoted_as_it_shows_them(tmp_path: Path) -> None:
    assert quoted(REPORTED, kept(report=REPORT)).splitlines() == [
        '<!-- report: modes rows="reached" -->',
        "",
        "|  | structured |",
        "| --- | --- |",
        "| reached | 100 % |",
        "",
        "`make`: today, commit abc; a machine; Python 3.",
        "",
        "<!-- end of report -->",
        "Sent: <!-- cell: modes sent structured -->7<!-- end -->",
    ]
    assert "Not measured yet; `make report` does." in quoted(REPORTED, kept())
    for wrong in ("cell: modes sent nothing", "cell: modes nothing structured"):
        with pytest.raises(QuoteError, match="no such row or column"):
            quoted(f"<!-- {wrong} --><!-- end -->", kept(report=REPORT))
    with pytest.raises(QuoteError, match="no row 'nothing'"):
        quoted(REPORTED.replace('"reached"', '"nothing"'), kept(report=REPORT))


def test_rows_that_begin_alike_are_all_quoted() -> None:
    rows = [["defaults", "emulate", "66"], ["defaults", "simulate", "0.3"]]
    costs = {"heads": ["figure", "tier", "seconds"], "rows": rows}
    page = "<!-- report: costs --><!-- end of report -->"
    written = quoted(page, kept(report={**REPORT, "tables": {"costs": costs}}))
    assert "| defaults | emulate | 66 |\n| defaults | simulate | 0.3 |" in written


def test_of_a_report_the_tables_are_kept_that_pages_ask_for(tmp_path: Path) -> None:
    (tmp_path / "docs/figures").mkdir(parents=True)
    (tmp_path / "docs/page.md").write_text(REPORTED)
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    command = ["bench", "quote", "--root", str(tmp_path)]
    assert main([*command, "--take", str(tmp_path)]) == 0
    kept_report = json.loads((tmp_path / "docs/figures/report.json").read_text())
    assert list(kept_report["tables"]) == ["modes"]
    assert "-->7<!--" in (tmp_path / "docs/page.md").read_text()
    assert main([*command, "--check"]) == 0


def test_medians_of_whole_runs_are_kept() -> None:
    row = Row({"way": "one"}, "rate", 1.0, network=0)
    runs = [replace(row, value=value, network=number) for number, value in enumerate((5, 1, 3))]
    moment = replace(row, value=99.0, event=4)
    [found] = medians(Recorded(each, ORIGIN) for each in (*runs, moment))
    assert (found.row.value, found.row.network) == (3.0, None)


def test_results_are_taken_as_far_as_pages_ask_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "tree", tmp_path / "out"
    (root / "docs").mkdir(parents=True)
    page = root / "docs" / "speed.md"
    page.write_text(PAGE)
    file = RowFile(out, "layers", ORIGIN)
    for way in ("one", "two", "three"):
        file.add(Row({"way": way}, "rate", float(len(way)) * 1000, "messages/s"))
        file.add(Row({"way": way}, "unasked", 1.0))
    command = ["bench", "quote", "--root", str(root)]
    assert main([*command, "--check"]) == 1
    assert "speed.md" in capsys.readouterr().err
    assert main([*command, "--take", str(out)]) == 0
    assert main([*command, "--check"]) == 0
    assert "| two | 3,000 |" in page.read_text()
    figures = json.loads((root / "docs/figures/layers.json").read_text())
    assert [row["settings"]["way"] for row in figures["rows"]] == ["one", "two"]
    assert figures["origins"][0]["commit"] == "abc1234"
    assert main([*command, "--take", str(tmp_path / "nowhere")]) == 0
    assert "layers: not run, its figures stay" in capsys.readouterr().out
    page.write_text(page.read_text().replace("3,000", "3,001"))
    assert main([*command, "--check"]) == 1, "a figure changed by hand is found"
    again = RowFile(tmp_path / "again", "layers", replace(ORIGIN, commit="def5678"))
    again.add(Row({"way": "two"}, "rate", 4000.0, "messages/s"))
    assert main([*command, "--take", str(tmp_path / "again")]) == 0
    assert "| one | 3,000 |\n| two | 4,000 |" in page.read_text(), "what was not run again stays"
    assert "commit abc1234" in page.read_text()
    assert "commit def5678" in page.read_text()


def test_what_was_measured_for_the_first_time_stands_in_its_place() -> None:
    def rows(*ways: str) -> tuple[Recorded, ...]:
        return kept(*((way, 1.0) for way in ways)).figures["layers"].recorded

    found = quote._replaced(rows("a", "b", "d", "z"), rows("b", "c", "d", "e"))
    assert [one.row.settings["way"] for one in found] == ["a", "b", "c", "d", "e", "z"]
