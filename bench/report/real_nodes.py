"""Tables of the real nodes on the virtual network: reliability beside the formulas, memory, upward load."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.aggregates import Aggregate, Aggregates
from bench.report.table import Table, in_words
from bench.suites.settings import MODES

CRASHES = ("crashes", "crashes-large")
LINKS = "figures-19-28"

Key = Callable[[Aggregate], float | None]


def real_node_tables(aggregates: Aggregates) -> list[Table]:
    """Every table for which there are results."""
    found = []
    for figure in CRASHES:
        for metric in ("reliability", "reception"):
            found.append(
                _by_community(
                    aggregates.select(figure=figure, metric=metric, protocol="camcast"),
                    f"{metric.capitalize()} after crashes, tables repaired",
                    lambda row: row.failed,
                    lambda failed: f"{100 * failed:.0f} % crashed",
                )
            )
    found.append(
        _by_community(
            aggregates.select(figure=LINKS, metric="reliability", protocol="camcast"),
            "Reliability against the share of links",
            lambda row: row.p_sel,
            lambda p_sel: f"p_sel {p_sel:g}",
        )
    )
    for figure in (LINKS, *CRASHES):
        found.append(_memory(aggregates, figure))
    return [table for table in found if table.rows]


def _by_community(rows: list[Aggregate], title: str, x: Key, head: Callable[[float], str]) -> Table:
    """A row for each community, mode and tier; a column for each value of x."""
    rows = [row for row in rows if row.community >= 0]
    largest = max((row.sizes for row in rows), default=())
    rows = [row for row in rows if row.sizes == largest]
    values = sorted({at for row in rows if (at := x(row)) is not None})
    lines = []
    for level, size in enumerate(largest):
        for tier, mode in _kinds(rows):
            own = {
                x(row): row
                for row in sorted(rows, key=lambda row: row.count)
                if (row.tier, row.mode, row.community) == (tier, mode, level)
            }
            if own:
                name = "formula" if tier == "model" else f"{mode}, {TIER_WORDS[tier]}"
                cells = (in_words(own.get(value), share=True) for value in values)
                lines.append((f"{_community(level, largest)}, {size}: {name}", *cells))
    sizes = ", ".join(map(str, largest))
    return Table(f"{title}: {sizes} processes", ("", *map(head, values)), tuple(lines))


TIER_WORDS = {"simulate": "simulated", "emulate": "emulated", "live": "live"}


def _kinds(rows: list[Aggregate]) -> list[tuple[str, str]]:
    """The tiers and modes that there are: formula, simulator, then real nodes."""
    order = [("model", "uniform"), ("simulate", "uniform"), ("simulate", "unstructured")]
    order += [(tier, mode) for tier in ("emulate", "live") for mode in MODES]
    there = {(row.tier, row.mode) for row in rows}
    return [kind for kind in order if kind in there]


MEMORY_HEADS = (
    "emulated",
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
    first = rows[0]
    lines = []
    for mode in MODES:
        for level in range(len(first.sizes)):
            own = {r.metric: r for r in rows if (r.mode, r.community) == (mode, level)}
            if "table_entries" in own:
                lines.append((f"{mode}, {_community(level, first.sizes)}", *_kept(own)))
    links = f", p_sel = {most_links:g}" if most_links else ""
    sizes = ", ".join(map(str, first.sizes))
    title = f"Memory and upward load: {sizes} processes, c = {first.c:g}, z = {first.z}{links}"
    return Table(title, MEMORY_HEADS, tuple(lines))


def _kept(own: dict[str, Aggregate]) -> tuple[str, ...]:
    """The cells of one community of one mode."""
    entries = own["table_entries"]
    bound = math.log(entries.size) + entries.c + (0 if entries.is_root else entries.z)
    deviation, peak = own.get("table_deviation"), own.get("upward_peak")
    return (
        f"{entries.value:.1f}",
        f"{deviation.value:.1f}" if deviation else "-",
        f"{own['largest_table'].value:.1f}",
        f"{bound:.1f}",
        f"{peak.value:.2f}" if peak else "-",
    )


def _community(level: int, sizes: tuple[int, ...]) -> str:
    return "gda"[level] if len(sizes) == 3 else f"level {level}"
