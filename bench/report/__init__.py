"""The comparative report: one HTML page, the same as Markdown and as JSON, and its figures as SVG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.aggregates import Aggregates
    from bench.report.content import Content
    from bench.store import ResultStore

PAGE = "report.html"


def write_report(
    store: ResultStore, aggregates: Aggregates | None = None, took: float | None = None
) -> str:
    """Write `report.html`, `.md`, `.json` and `figures/*.svg` beside the results; return where the page is.

    `aggregates`: of the store, where they are known; `took`: seconds since the command that ran a suite.
    """
    from bench.report.content import content, gather
    from bench.store import write_text

    for name, text in report_files(content(gather(store, aggregates, took))).items():
        write_text(store.spark, f"{store.place}/{name}", text)
    return f"{store.place}/{PAGE}"


def report_files(found: Content) -> dict[str, str]:
    """The files of the report, by name."""
    from bench.report.page import as_html, as_json, as_markdown
    from bench.report.svg import draw

    drawn = [*([found.pareto] if found.pareto else []), *found.figures, *found.speed_figures]
    files = {f"figures/{figure.name}.svg": draw(figure) + "\n" for figure in drawn}
    written = {"report.md": as_markdown(found), "report.json": as_json(found), PAGE: as_html(found)}
    return files | written
