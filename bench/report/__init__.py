"""The comparative report: one HTML page, the same as Markdown, and its figures as SVG files."""

from __future__ import annotations

from pathlib import Path

from bench.aggregates import Aggregates


def write_report(directory: Path) -> Path:
    """Write `report.html`, `report.md` and `figures/*.svg` from the aggregates below `directory`."""
    from bench.report.content import content
    from bench.report.page import as_html, as_markdown
    from bench.report.spread import spread
    from bench.report.svg import draw

    found = content(Aggregates.read(directory), directory, spread(directory))
    drawings = directory / "figures"
    drawings.mkdir(exist_ok=True)
    for figure in [*([found.pareto] if found.pareto else []), *found.figures]:
        (drawings / f"{figure.name}.svg").write_text(draw(figure) + "\n")
    (directory / "report.md").write_text(as_markdown(found))
    page = directory / "report.html"
    page.write_text(as_html(found))
    return page
