"""The page: one HTML file that needs nothing else, and the same content as Markdown."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable
from importlib import resources
from string import Template

from bench.aggregates import Aggregate
from bench.claims import Decided, Part
from bench.report.content import GLOSSARY, Content, counts, outcome
from bench.report.headline import Cell, Headline
from bench.report.svg import STYLE, Figure, Series, draw, marker
from bench.report.table import Table, digits, interval_words, per_cent, remade_by, row_words
from bench.workloads.workload import markdown_table

KINDS = {"holds": "yes", "does not hold": "no", "in part": "part", "undecided": "open"}
OPEN = '<button type="button" class="open" aria-expanded="false">rows</button>'
"""Shows the next row of the table: what a value was computed from."""
LONG = 20
"""Rows of a table beyond which it opens when asked for."""
SHOWN_PARTS = 3
"""Bars of a claim that are seen at once; the others open with the rows behind it."""


def as_html(content: Content) -> str:
    """The self-contained page."""
    assets = resources.files("bench.report") / "assets"
    page = Template((assets / "page.html").read_text())
    return page.substitute(
        css=(assets / "report.css").read_text(),
        js=(assets / "report.js").read_text(),
        lead=html.escape(content.lead),
        answer=_answer(content.headline),
        modes=_headline(content),
        pareto=_figure(content.pareto) if content.pareto else "",
        variants=_table(content.variants) if content.variants.rows else "",
        claims=_claims(content),
        tables="".join(map(_table, content.tables)) or "<p>No suite with alternatives was run.</p>",
        figures="".join(map(_figure, content.figures)),
        real_nodes="".join(map(_table, content.real_nodes)) or "<p>No real nodes were run.</p>",
        speed="".join([*map(_figure, content.speed_figures), *map(_table, content.speed)]),
        spread=content.spread or "<p>No emulated event was traced.</p>",
        provenance=_definitions(content.provenance)
        + _table(content.costs)
        + _folded(content.experiments),
        compare=html.escape(content.comparison),
        glossary=_definitions(GLOSSARY),
    )


# The first screen.


def _answer(headline: Headline) -> str:
    first, *others = map(html.escape, headline.answer)
    listed = "".join(f"<li>{sentence}</li>" for sentence in others)
    return f"<p class=answer><b>{first}</b></p>" + (
        f"<ul class=answer>{listed}</ul>" if others else ""
    )


def _headline(content: Content) -> str:
    headline = content.headline
    if not headline.rows:
        return ""
    heads = "".join(f'<th class="mode {mode}">{_broken(mode)}</th>' for mode in headline.modes)
    rows = "".join(
        f"<tbody><tr><th scope=row>{html.escape(row.words)}"
        + f'<span class="brief">{html.escape(row.verdict)}</span></th>'
        + "".join(map(_headline_cell, row.cells))
        + f'<td class="said">{html.escape(row.verdict)}</td><td>{OPEN}</td></tr>'
        + f'<tr class="behind" hidden><td colspan="{len(row.cells) + 3}">'
        + f"{_headline_behind(row.behind)}{_sources(row.behind, content.seeds)}</td></tr></tbody>"
        for row in headline.rows
    )
    return (
        f'<div class="scroll"><table class="modes"><thead><tr><th></th>{heads}<th></th><th></th></tr>'
        f'</thead>{rows}</table></div><p class="hint">{html.escape(headline.note)}</p>'
    )


def _broken(mode: str) -> str:
    """A mode's name, which a narrow screen may break where a reader would."""
    return mode.replace("unstruct", "un&shy;struct").replace("hyparview", "hypar&shy;view")


def _headline_behind(found: tuple[Aggregate, ...]) -> str:
    """The value of each network behind the cells of a row."""
    rows = "".join(
        f"<tr><td>{html.escape(_place(row))}</td>"
        f"<td class=number>{', '.join(map(digits, row.sample))}</td></tr>"
        for row in found
    )
    return f'<table class="fine"><tr><th>rows</th><th>network by network</th></tr>{rows}</table>'


def _headline_cell(cell: Cell) -> str:
    kind = ' class="number best"' if cell.is_best else ' class="number"'
    below = f'<span class="interval">{html.escape(cell.interval)}</span>' if cell.interval else ""
    return f"<td{kind}>{html.escape(cell.text)}{below}</td>"


# Claims.


def _claims(content: Content) -> str:
    found = counts(content.claims)
    buttons = "".join(
        f'<button type="button" data-kind="{KINDS[name]}" aria-pressed="true">{name} '
        f"<b>{count}</b></button>"
        for name, count in found.items()
    )
    heads = ("verdict", "claim", "the paper", "here: interval against the paper's", "networks")
    head = "".join(
        f'<th data-head="{name}"><button type="button" data-column="{index}">{name}</button></th>'
        for index, name in enumerate(heads)
    )
    bodies = "".join(_claim(one, content.seeds) for one in content.claims)
    return (
        f'<div class="filters">{buttons}<input type="search" placeholder="find a claim" '
        f'aria-label="find a claim"></div><div class="scroll"><table class="claims"><thead><tr>{head}'
        f"<th></th></tr></thead>{bodies}</table></div>"
    )


def _claim(one: Decided, seeds: dict[tuple[object, ...], tuple[int, ...]]) -> str:
    claim, verdict = one.claim, one.verdict
    kind = KINDS[outcome(one)]
    bars = "".join(map(_bar, _telling(verdict.parts)[:SHOWN_PARTS]))
    more = len(verdict.parts) - SHOWN_PARTS
    bars += f'<div class="source">and {more} more</div>' if more > 0 else ""
    because = f'<div class="source">{html.escape(verdict.because)}</div>' if verdict.because else ""
    networks = "" if verdict.networks is None else str(verdict.networks)
    after = f'<div class="source">decided after {one.after}</div>' if one.after else ""
    return (
        f'<tbody data-claim="{claim.name}" data-kind="{kind}"><tr>'
        f'<td><span class="verdict {kind}">{verdict.words}</span></td>'
        f"<td>{html.escape(claim.sentence)}"
        f'<div class="source">{html.escape(claim.source)}</div>{because}</td>'
        f"<td>{html.escape(claim.paper)}</td><td>{bars}</td>"
        f'<td class="number">{networks}{after}</td>'
        f"<td>{OPEN}</td></tr>"
        f'<tr class="behind" hidden><td colspan="6">{_behind(one, seeds)}</td></tr></tbody>'
    )


def _telling(parts: tuple[Part, ...]) -> list[Part]:
    """The parts, those that decide first: what does not hold, then what is undecided."""
    rank = {False: 0, None: 1, True: 2}
    return sorted(parts, key=lambda part: rank[part.outcome])


def _bar(part: Part) -> str:
    """The interval as a line with a dot, over the range in which the claim is true."""
    low, high = _scale(part)
    kind = {True: "yes", False: "no", None: "open"}[part.outcome]

    def at(value: float) -> float:
        return 2 + 136 * min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 70.0

    start, end = at(max(part.low, low)), at(min(part.high, high))
    first, last = at(max(part.interval.low, low)), at(min(part.interval.high, high))
    return (
        f'<div class="part"><svg class="bar {kind}" viewBox="0 0 140 12" aria-hidden="true">'
        f'<rect class="range" x="{start:.1f}" y="1" width="{max(1.0, end - start):.1f}" height="10"/>'
        f'<path class="reach" d="M{first:.1f} 6H{last:.1f}"/>'
        f'<circle cx="{at(part.interval.value):.1f}" cy="6" r="3"/></svg>'
        f"<span>{html.escape(part.label)}: {html.escape(value_words(part))}</span></div>"
    )


def _scale(part: Part) -> tuple[float, float]:
    """From where to where a bar is drawn: all of the interval and the nearest bounds, with some room."""
    known = [part.interval.value, part.interval.low, part.interval.high, part.low, part.high]
    values = [value for value in known if math.isfinite(value)]
    if part.is_share and part.margin == 0 and min(values) >= 0:
        return 0.0, 1.0
    room = 0.15 * (max(values) - min(values)) or 0.1 * abs(max(values)) or 1.0
    return min(values) - room, max(values) + room


def value_words(part: Part) -> str:
    """A part as a reader is told it: a value, its interval, and what they are counted in."""
    interval = part.interval
    write = per_cent if part.is_share else digits
    # A difference of shares may be negative, and so may what is asked of it.
    unit = (" points" if part.margin or part.low < 0 else " %") if part.is_share else ""
    return interval_words(interval, write) + unit


def _behind(one: Decided, seeds: dict[tuple[object, ...], tuple[int, ...]]) -> str:
    """Every part with the rows, seeds and command behind it."""
    rows = []
    for part in _telling(one.verdict.parts):
        word = {True: "holds", False: "does not", None: "undecided"}[part.outcome]
        needed = f", about {part.needed} networks would decide it" if part.needed else ""
        places = "<br>".join(html.escape(_place(row)) for row in part.rows)
        rows.append(
            f"<tr><td>{html.escape(part.label)}</td><td class=number>{html.escape(value_words(part))}</td>"
            f"<td class=number>{_range(part)}</td><td>{word}{needed}</td><td>{places}</td></tr>"
        )
    head = "<tr><th>part</th><th>here</th><th>true within</th><th></th><th>rows</th></tr>"
    sources = _sources((row for part in one.verdict.parts for row in part.rows), seeds)
    return f'<table class="fine">{head}{"".join(rows)}</table>{sources}'


def _sources(rows: Iterable[Aggregate], seeds: dict[tuple[object, ...], tuple[int, ...]]) -> str:
    """The seeds of the experiments that rows come from, and the command that runs them again."""
    found = {_key(row): row for row in rows}
    told = "".join(
        f"<dt>{html.escape(', '.join(str(value) for value in key if value not in (True, False)))}</dt>"
        f"<dd>{', '.join(map(str, seeds.get(key, ()))) or 'computed'}</dd>"
        for key in found
    )
    again = _again(remade_by(found.values()))
    return f"<details><summary>seeds</summary><dl>{told}</dl></details>{again}"


def _again(commands: Iterable[str]) -> str:
    return "".join(
        f'<div class="again"><code>{html.escape(command)}</code></div>' for command in commands
    )


def _key(row: Aggregate) -> tuple[object, ...]:
    return row.suite, row.figure, row.tier, row.protocol, row.mode, row.balance


def _place(row: Aggregate) -> str:
    return f"{row.metric}: {row_words(row)}, {row.count:,} events"


def _range(part: Part) -> str:
    write = per_cent if part.is_share else digits
    low = write(part.low) if part.low > 1e-300 or part.low <= 0 else "0"
    if math.isinf(part.high):
        return f"{'above' if part.low > 0 and part.low < 1e-300 else 'at least'} {low}"
    if math.isinf(part.low):
        return f"at most {write(part.high)}"
    return f"{low} to {write(part.high)}"


# Everything else.


def as_markdown(content: Content) -> str:
    """The same content as Markdown, the figures as files of their own beside it."""
    lines = [
        "# Membership services for CAMCAST, compared",
        "",
        " ".join(content.headline.answer),
        "",
    ]
    if content.headline.rows:
        rows = [
            (row.words, *(f"**{c.text}**" if c.is_best else c.text for c in row.cells), row.verdict)
            for row in content.headline.rows
        ]
        heads = ("", *content.headline.modes, "")
        lines += [markdown_table([heads, *rows]), "", content.headline.note, ""]
    lines += [content.lead, ""]
    if content.variants.rows:
        lines += _sections([content.variants])
    claims = [("verdict", "claim", "the paper", "here", "networks")]
    for one in content.claims:
        ours = "; ".join(f"{part.label}: {value_words(part)}" for part in one.verdict.parts[:6])
        word = one.verdict.words + (f": {one.verdict.because}" if one.verdict.because else "")
        networks = "" if one.verdict.networks is None else f"{one.verdict.networks}"
        claims.append((word, one.claim.sentence, one.claim.paper, ours, networks))
    lines += ["", "## The paper's claims", "", markdown_table(claims)]
    lines += _sections(content.tables)
    lines += ["", "## Figures", ""]
    drawn = [content.pareto] if content.pareto else []
    lines += _drawn([*drawn, *content.figures])
    lines += ["## Real nodes, beside the formulas"]
    lines += _sections(content.real_nodes)
    lines += ["", "## Speed", "", *_drawn(content.speed_figures), *_sections(content.speed)]
    lines += ["", "## Words", "", *(f"- {word}: {meaning}" for word, meaning in GLOSSARY)]
    lines += ["", "## How it was made", ""]
    lines += [f"- {name}: {value}" for name, value in content.provenance]
    lines += _sections([table for table in (content.costs, content.experiments) if table.rows])
    return "\n".join(lines) + "\n"


def as_json(content: Content) -> str:
    """The tables by their titles, the first one as `modes`, and how many claims have which verdict.

    Cells are as the page shows them. The documentation quotes them (bench.quote).
    """
    headline = content.headline
    modes = {
        "heads": ["", *headline.modes, "verdict"],
        "rows": [
            [row.words, *(cell.text for cell in row.cells), row.verdict] for row in headline.rows
        ],
    }
    found = [content.variants, *content.tables, *content.real_nodes, content.costs]
    tables = {table.title: {"heads": table.heads, "rows": table.rows} for table in found}
    said = {
        "claims": counts(content.claims),
        "made": dict(content.provenance),
        "tables": {"modes": modes, **tables},
    }
    return json.dumps(said, indent=1) + "\n"


def _drawn(figures: list[Figure]) -> list[str]:
    """Figures in Markdown, each under its title and above its caption."""
    lines = []
    for figure in figures:
        lines += [f"### {figure.title}", "", f"![{figure.title}](figures/{figure.name}.svg)", ""]
        lines += [figure.caption, ""]
    return lines


def _sections(tables: list[Table]) -> list[str]:
    """Tables in Markdown, each under its title and above its note and the commands that remake it."""
    lines = []
    for table in tables:
        lines += ["", f"### {table.title}", "", markdown_table([table.heads, *table.rows])]
        lines += ["", table.note] if table.note else []
        lines += (
            ["", ", ".join(f"`{command}`" for command in table.commands)] if table.commands else []
        )
    return lines


def _table(table: Table) -> str:
    if not table.rows:
        return ""
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
    note = f'<p class="hint">{_with_code(table.note)}</p>' if table.note else ""
    whole = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    if len(table.rows) > LONG and table.title:
        whole = f"<details><summary>{len(table.rows)} rows</summary>{whole}</details>"
    return f"{title}{whole}{note}{_again(table.commands)}"


def _with_code(text: str) -> str:
    """Words between backticks as code, as Markdown has them."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


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
        f"<figcaption>{html.escape(figure.caption)}{_again(figure.commands)}</figcaption></figure>"
    )


def _legend(series: Series) -> str:
    label = html.escape(series.label, quote=True)
    kind = f"{series.colour} v{min(series.shade, 4)}"
    return (
        f'<button type="button" aria-pressed="true" data-label="{label}">'
        f'<svg viewBox="0 0 30 10" aria-hidden="true"><style>{STYLE}</style><g class="{kind}">'
        f'<path class="line {series.dash}" d="M0 5H30"/>{marker(series.dash, 15, 5)}</g></svg>'
        f"{label}</button>"
    )


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
