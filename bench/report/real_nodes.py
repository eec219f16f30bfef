"""Tables of real nodes: reliability and reception beside the formulas, memory, upward load."""

from __future__ import annotations

import math

from bench.aggregates import Aggregate, Aggregates, community_name
from bench.report.figures import PRINTED, lines
from bench.report.plot import Point, Series, short
from bench.report.table import Table, digits, per_cent, remade_by, sizes_words
from bench.results import WHOLE
from bench.suites.settings import COMPARED, DEFAULT, DEFAULTS, LINKS


def real_node_tables(aggregates: Aggregates) -> list[Table]:
    """Every table for which there are results."""
    found = []
    for metric in ("reliability", "reception"):
        title = f"{metric.capitalize()} after crashes, tables repaired"
        found.append(_by_community(aggregates, DEFAULT, metric, "failed", title))
    title = "Reliability by the share of links"
    found.append(_by_community(aggregates, LINKS, "reliability", "p_sel", title))
    found += [_memory(aggregates, figure) for figure in (LINKS, DEFAULT)]
    found.append(_live(aggregates))
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
    if figure == DEFAULT:
        rows = [row for row in rows if row.c == DEFAULTS["c"] and row.loss == DEFAULTS["loss"]]
    if not any(row.is_of_networks for row in rows):
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
    return Table(f"{title}: {sizes} processes", heads, cells, "", remade_by(rows))


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
    rows.sort(key=lambda row: (COMPARED.index(row.mode), row.variant, row.sizes, row.community))
    kept: dict[tuple[object, ...], dict[str, Aggregate]] = {}
    for row in rows:
        if row.community != WHOLE:
            key = (row.mode, row.variant, row.sizes, row.c, row.z, row.loss, row.community)
            kept.setdefault(key, {})[row.metric] = row
    lines = [_kept(own) for own in kept.values() if "table_entries" in own]
    links = f" with p_sel = {most_links:g}" if most_links else ""
    sizes = " or ".join(sorted({sizes_words(row.sizes) for row in rows}))
    title = f"Memory and upward load{links}: {sizes} processes"
    return Table(title, MEMORY_HEADS, tuple(lines), "", remade_by(rows))


def _kept(own: dict[str, Aggregate]) -> tuple[str, ...]:
    """The cells of one community of one mode."""
    entries = own["table_entries"]
    bound = math.log(entries.size) + entries.c + (0 if entries.is_root else entries.z)
    deviation, peak = own.get("table_deviation"), own.get("upward_peak")
    largest = own.get("largest_table")
    return (
        f"{entries.mode} as {entries.variant}, {entries.place}",
        f"{entries.size}",
        f"{entries.value:.1f}",
        f"{deviation.value:.1f}" if deviation else "-",
        f"{largest.value:.1f}" if largest else "-",
        f"{bound:.1f}",
        f"{peak.value:.2f}" if peak else "-",
    )


LIVE_HEADS = ("live", "processes", "events", "time to the last delivery, p50", "p99", "reached")


def _live(aggregates: Aggregates) -> Table:
    """What only real processes can say: time. One network a mode, so it decides nothing between modes."""
    rows = []
    found = aggregates.select(tier="live", metric="seconds", community=WHOLE)
    for row in found:
        reached = aggregates.select(
            tier="live", metric="reception", community=WHOLE, mode=row.mode, figure=row.figure
        )
        rows.append(
            (
                f"{row.mode} as {row.variant}",
                sizes_words(row.sizes),
                f"{row.count}",
                f"{digits(row.p50 or row.value)} s",
                f"{digits(row.p99 or row.value)} s",
                f"{per_cent(reached[0].value)} %" if reached else "-",
            )
        )
    title = "Real processes over UDP on one machine"
    return Table(title, LIVE_HEADS, tuple(rows), "", remade_by(found))
