"""The tables of the report: tables 1 and 2 beside the paper's numbers, and the alternatives."""

from __future__ import annotations

from bench.aggregate import WHOLE
from bench.aggregates import Aggregates
from bench.model.published import TABLE_1, TABLE_2, PublishedRow
from bench.report.table import Table, in_words, short_number
from bench.suites.settings import TOPOLOGIES


def tables(aggregates: Aggregates) -> list[Table]:
    """Every table for which there are results."""
    found = [
        _paper_table(
            aggregates,
            "Table 1: rounds until all communities have the event",
            "table-1",
            "rounds",
            TABLE_1,
        ),
        _paper_table(
            aggregates,
            "Table 2: parasite events of an event of the root topic",
            "table-2",
            "parasites",
            TABLE_2,
        ),
        *(
            _alternatives(aggregates, sizes, level)
            for sizes in TOPOLOGIES
            for level in (0, len(sizes) - 1)
        ),
    ]
    return [table for table in found if table.rows]


def _paper_table(
    aggregates: Aggregates,
    title: str,
    figure: str,
    metric: str,
    paper: tuple[PublishedRow, ...],
) -> Table:
    rows = []
    for tier in ("simulate", "model"):
        for protocol in ("camcast", "broadcast", "multicast", "hierarchical"):
            found = {
                row.sizes: row
                for row in aggregates.select(
                    figure=figure, metric=metric, tier=tier, protocol=protocol, community=WHOLE
                )
            }
            if found:
                word = "formula" if tier == "model" else "simulated"
                rows.append(
                    (f"{protocol}, {word}", *(in_words(found.get(sizes)) for sizes in TOPOLOGIES))
                )
    if rows:
        for protocol in ("camcast", "broadcast", "pmcast"):
            printed = {row.sizes: short_number(getattr(row, protocol)) for row in paper}
            rows.append((f"{protocol}, the paper", *(printed[sizes] for sizes in TOPOLOGIES)))
    return Table(title, ("", *(_sizes(sizes) for sizes in TOPOLOGIES)), tuple(rows))


def _alternatives(aggregates: Aggregates, sizes: tuple[int, ...], level: int) -> Table:
    metrics = (
        "messages_inside",
        "messages_upward",
        "parasites",
        "reliability",
        "rounds",
        "table_entries",
    )
    rows = []
    for protocol in ("camcast", "broadcast", "multicast", "hierarchical"):
        for tier in ("simulate", "model"):
            found = {
                row.metric: row
                for row in aggregates.select(
                    figure="alternatives",
                    tier=tier,
                    protocol=protocol,
                    sizes=sizes,
                    publish_level=level,
                    community=WHOLE,
                )
            }
            if found:
                word = "formula" if tier == "model" else "simulated"
                rows.append(
                    (f"{protocol}, {word}", *(in_words(found.get(metric)) for metric in metrics))
                )
    where = "the bottom community" if level == 0 else "the root"
    heads = (
        "",
        "messages inside",
        "upward",
        "parasites",
        "reliability",
        "rounds",
        "contacts a process",
    )
    return Table(f"An event published in {where} of {_sizes(sizes)}", heads, tuple(rows))


def _sizes(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
