"""The page: one HTML file that needs nothing else, and the same content as Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib import resources
from string import Template

from bench.claims import Claim, Verdict
from bench.report.content import Content
from bench.report.glossary import GLOSSARY
from bench.report.plot import Figure, Series
from bench.report.svg import STYLE, draw, marker
from bench.report.table import Table

VERDICT_CLASSES = {True: "yes", False: "no", None: "open"}


def as_html(content: Content) -> str:
    """The self-contained page."""
    assets = resources.files("bench.report") / "assets"
    page = Template((assets / "page.html").read_text())
    return page.substitute(
        css=(assets / "report.css").read_text(),
        js=(assets / "report.js").read_text(),
        lead=html.escape(content.lead),
        summary=_table(content.modes) + _list(content.advice),
        claims=_claims(content.claims),
        tables="".join(map(_table, content.tables)) or "<p>No suite with alternatives was run.</p>",
        figures="".join(map(_figure, content.figures)),
        real_nodes="".join(map(_table, content.real_nodes)) or "<p>No real nodes were run.</p>",
        spread=content.spread or "<p>No emulated event was traced.</p>",
        provenance=_definitions(content.provenance.items) + _folded(content.experiments),
        glossary=_definitions(GLOSSARY),
    )


def as_markdown(content: Content) -> str:
    """The same content as Markdown, the figures as files of their own beside it."""
    lines = ["# Three membership services for CAMCAST, compared", "", content.lead, ""]
    lines += ["## Which mode when", "", *_table_lines(content.modes), ""]
    lines += [*(f"- {sentence}" for sentence in content.advice), ""]
    lines += ["## The paper's claims", ""]
    lines += ["| claim | the paper | here | verdict |", "| --- | --- | --- | --- |"]
    for claim, verdict in content.claims:
        word = verdict.words + (f": {verdict.because}" if verdict.because else "")
        lines.append(f"| {claim.sentence} | {claim.paper} | {verdict.ours} | {word} |")
    lines += _sections(content.tables)
    lines += ["", "## Figures", ""]
    for figure in content.figures:
        lines += [f"### {figure.title}", "", f"![{figure.title}](figures/{figure.name}.svg)", ""]
        lines += [figure.caption, ""]
    lines += ["## Real nodes, beside the formulas"]
    lines += _sections(content.real_nodes)
    lines += ["", "## Words", "", *(f"- {word}: {meaning}" for word, meaning in GLOSSARY)]
    lines += ["", "## How it was made", ""]
    lines += [f"- {name}: {value}" for name, value in content.provenance.items]
    if content.experiments.rows:
        lines += _sections([content.experiments])
    return "\n".join(lines) + "\n"


def _sections(tables: list[Table]) -> list[str]:
    """Tables in Markdown, each under its title and above its note."""
    lines = []
    for table in tables:
        lines += ["", f"### {table.title}", "", *_table_lines(table)]
        lines += ["", table.note] if table.note else []
    return lines


def _claims(claims: list[tuple[Claim, Verdict]]) -> str:
    rows = []
    for claim, verdict in claims:
        because = f'<div class="source">{_lines(verdict.because)}</div>' if verdict.because else ""
        rows.append(
            f'<tr data-claim="{claim.name}"><td>{html.escape(claim.sentence)}'
            f'<div class="source">{html.escape(claim.source)}</div></td>'
            f"<td>{html.escape(claim.paper)}</td><td>{_lines(verdict.ours)}</td>"
            f'<td><span class="verdict {VERDICT_CLASSES[verdict.holds]}">'
            f"{verdict.words}</span>{because}</td></tr>"
        )
    head = "<tr><th>claim</th><th>the paper</th><th>here, with its 95 % interval</th><th>verdict</th></tr>"
    return f'<div class="scroll"><table class="claims">{head}{"".join(rows)}</table></div>'


def _lines(text: str) -> str:
    """What stands between semicolons, a line each."""
    return "".join(f'<div class="each">{html.escape(part)}</div>' for part in text.split("; "))


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.heads)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if index else ''}>{_cell(cell)}</td>"
            for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    title = f"<h3>{html.escape(table.title)}</h3>" if table.title else ""
    note = f'<p class="hint">{html.escape(table.note)}</p>' if table.note else ""
    return f'{title}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>{note}'


def _cell(text: str) -> str:
    """A value, and its interval below it in small."""
    value, bracket, interval = text.partition(" [")
    if not bracket:
        return html.escape(text)
    return f'{html.escape(value)}<span class="interval">[{html.escape(interval)}</span>'


def _figure(figure: Figure) -> str:
    return (
        f'<figure id="{figure.name}" class="panels-{len(figure.panels)}">'
        f'<h3>{html.escape(figure.title)}</h3><div class="scroll">{draw(figure)}</div>'
        f'<div class="legend">{"".join(map(_legend, figure.labels()))}</div>'
        f"<figcaption>{html.escape(figure.caption)}</figcaption></figure>"
    )


def _legend(series: Series) -> str:
    label = html.escape(series.label, quote=True)
    kind = f"{series.colour} v{min(series.variant, 4)}"
    return (
        f'<button type="button" aria-pressed="true" data-label="{label}">'
        f'<svg viewBox="0 0 30 10" aria-hidden="true"><style>{STYLE}</style><g class="{kind}">'
        f'<path class="line {series.dash}" d="M0 5H30"/>{marker(series.dash, 15, 5)}</g></svg>'
        f"{label}</button>"
    )


def _list(sentences: list[str]) -> str:
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>"


def _definitions(items: Iterable[tuple[str, str]]) -> str:
    parts = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in items
    )
    return f"<dl>{parts}</dl>"


def _folded(table: Table) -> str:
    """A long table that opens when asked for."""
    if not table.rows:
        return ""
    inner = _table(Table("", table.heads, table.rows))
    return f'<details class="fine"><summary>{html.escape(table.title)}</summary>{inner}</details>'


def _table_lines(table: Table) -> list[str]:
    return [
        f"| {' | '.join(table.heads)} |",
        f"|{' --- |' * len(table.heads)}",
        *(f"| {' | '.join(row)} |" for row in table.rows),
    ]
