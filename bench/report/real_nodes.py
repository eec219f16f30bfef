"""Tables of real nodes: reliability and reception beside the formulas, memory, upward load."""

from __future__ import annotations

import math

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates, community_name
from bench.report.lines import PRINTED, lines
from bench.report.plot import Point, Series
from bench.report.scale import short
from bench.report.table import Table, per_cent, sizes_words
from bench.suites.settings import MODES

CRASHES = ("crashes", "crashes-large")
LINKS = ("figures-19-28", "p-sel-large")


def real_node_tables(aggregates: Aggregates) -> list[Table]:
    """Every table for which there are results."""
    found = []
    for figure in CRASHES:
        for metric in ("reliability", "reception"):
            title = f"{metric.capitalize()} after crashes, tables repaired"
            found.append(_by_community(aggregates, figure, metric, "failed", title))
    for figure in LINKS:
        title = "Reliability by the share of links"
        found.append(_by_community(aggregates, figure, "reliability", "p_sel", title))
    for figure in (*LINKS, *CRASHES):
        found.append(_memory(aggregates, figure))
    return [table for table in found if table.rows]


def _by_community(
    aggregates: Aggregates, figure: str, metric: str, varies: str, title: str
) -> Table:
    """A row for each community and line of the figure; a column for each place on its x axis."""
    rows = [
        row
        for row in aggregates.select(figure=figure, metric=metric, protocol="camcast")
        if row.community != WHOLE and getattr(row, varies) is not None
    ]
    if not any(row.tier == "emulate" for row in rows):
        return Table(title, (), ())
    found: list[tuple[str, Series]] = []
    for level in sorted({row.community for row in rows}):
        own = [row for row in rows if row.community == level]
        name = community_name(level, len(own[0].sizes))
        found += [(name, line) for line in lines(varies, own)]
    places = sorted({point.x for _, line in found for point in line.points})
    unit = "{} % crashed" if varies == "failed" else f"{varies} {{}}"
    heads = ("", *(unit.format(short(place)) for place in places))
    sizes = " or ".join(sorted({sizes_words(row.sizes) for row in rows}))
    cells = tuple(
        (f"{name}: {line.label}", *_cells(line, places))
        for name, line in found
        if metric == "reliability" or not line.label.startswith(PRINTED)
    )
    return Table(f"{title}: {sizes} processes", heads, cells)


def _cells(line: Series, places: list[float]) -> tuple[str, ...]:
    points = {point.x: point for point in line.points}
    return tuple(_share(points.get(place)) for place in places)


def _share(point: Point | None) -> str:
    if point is None:
        return "-"
    value = f"{per_cent(point.y)} %"
    if point.low == point.high:
        return value
    return f"{value} [{per_cent(point.low)}, {per_cent(point.high)}]"


MEMORY_HEADS = (
    "emulated",
    "processes",
    "contacts, mean",
    "deviation",
    "largest",
    "ln N + c + z",
    "busiest link, by the mean",
)


def _memory(aggregates: Aggregates, figure: str) -> Table:
    """Contacts that a process keeps, against the bound, and how evenly upward messages are spread."""
    rows = aggregates.select(figure=figure, tier="emulate", protocol="camcast", failed=0.0)
    if not rows:
        return Table("", MEMORY_HEADS, ())
    most_links = max(row.p_sel or 0.0 for row in rows)
    rows = [row for row in rows if (row.p_sel or 0.0) == most_links]
    rows.sort(key=lambda row: (MODES.index(row.mode), row.sizes, row.c, row.z, row.community))
    kept: dict[tuple[object, ...], dict[str, Aggregate]] = {}
    for row in rows:
        if row.community != WHOLE:
            key = (row.mode, row.sizes, row.c, row.z, row.loss, row.community)
            kept.setdefault(key, {})[row.metric] = row
    lines = [_kept(own) for own in kept.values() if "table_entries" in own]
    links = f" with p_sel = {most_links:g}" if most_links else ""
    sizes = " or ".join(sorted({sizes_words(row.sizes) for row in rows}))
    return Table(f"Memory and upward load{links}: {sizes} processes", MEMORY_HEADS, tuple(lines))


def _kept(own: dict[str, Aggregate]) -> tuple[str, ...]:
    """The cells of one community of one mode."""
    entries = own["table_entries"]
    bound = math.log(entries.size) + entries.c + (0 if entries.is_root else entries.z)
    deviation, peak = own.get("table_deviation"), own.get("upward_peak")
    largest = own.get("largest_table")
    return (
        f"{entries.mode}, {entries.place}",
        f"{entries.size}",
        f"{entries.value:.1f}",
        f"{deviation.value:.1f}" if deviation else "-",
        f"{largest.value:.1f}" if largest else "-",
        f"{bound:.1f}",
        f"{peak.value:.2f}" if peak else "-",
    )
