"""The tables of the report: tables 1 and 2 beside the paper's numbers, and the alternatives."""

from __future__ import annotations

from bench.aggregates import Aggregate, Aggregates
from bench.model.pmcast import ASSUMED_DELEGATES, ASSUMED_DEPTH, ASSUMED_FANOUT
from bench.model.published import TABLE_1, TABLE_2, PublishedRow
from bench.report.analysis import latency_table, parity_table
from bench.report.figures import printed_whole
from bench.report.table import Table, digits, in_words, sizes_words
from bench.results import WHOLE
from bench.suites.settings import SIMULATED, TOPOLOGIES

PROTOCOLS = ("camcast", "broadcast", "multicast", "hierarchical", "pmcast")
NAMES = {
    "camcast": "CAMCAST",
    "broadcast": "(a) gossip broadcast",
    "multicast": "(b) gossip multicast",
    "hierarchical": "(c) hierarchical gossip broadcast",
    "pmcast": "PMcast",
}
METRICS = {
    "messages_inside": "messages inside",
    "messages_upward": "upward",
    "parasites": "parasites",
    "reliability": "reliability",
    "rounds": "rounds",
    "table_entries": "contacts a process",
}
ASSUMED = (
    f"PMcast by its formulas with assumed parameters, as the paper gives none: a tree of {ASSUMED_DEPTH} "
    f"levels, {ASSUMED_DELEGATES} delegates a subgroup, fanout {ASSUMED_FANOUT:g}, chosen because its rounds "
    "then come near those of table 1. Its parasites are the "
    "processes that handle the event as delegates alone."
)
DRAWN = (
    "Formulas have every draw made: floor(ln N + c) messages of each process, loss, who sends upward. The "
    "paper's know no loss inside a community."
)


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
        parity_table(aggregates),
        latency_table(aggregates),
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
    for protocol in PROTOCOLS:
        for tier, word in (("simulate", "simulated"), ("model", "formula")):
            found = _of_table(aggregates, figure, metric, tier, protocol)
            if found:
                cells = (in_words(found.get(sizes)) for sizes in TOPOLOGIES)
                rows.append((f"{NAMES[protocol]}, {word}", *cells))
        if hasattr(paper[0], protocol):
            printed = {row.sizes: digits(getattr(row, protocol)) for row in paper}
            cells = (printed[sizes] for sizes in TOPOLOGIES)
            rows.append((f"{NAMES[protocol]}, the paper", *cells))
    measured = any(not name.endswith("the paper") for name, *_ in rows)
    heads = ("", *(sizes_words(sizes) for sizes in TOPOLOGIES))
    return Table(title, heads, tuple(rows) if measured else (), ASSUMED)


def _of_table(
    aggregates: Aggregates, figure: str, metric: str, tier: str, protocol: str
) -> dict[tuple[int, ...], Aggregate]:
    """Rows by topology. PMcast's formula is of no figure: its rows of the alternatives serve, too."""
    shared = {name: SIMULATED[name] for name in ("c", "g", "a", "z", "loss")}
    rows = aggregates.select(
        metric=metric,
        tier=tier,
        protocol=protocol,
        mode="uniform",
        community=WHOLE,
        failed=0.0,
        **shared,
    )
    figures = (figure, "alternatives") if protocol == "pmcast" else (figure,)
    from_root = figure == "table-2"
    return {
        row.sizes: row
        for row in rows
        if row.figure in figures and row.publish_level == (len(row.sizes) - 1 if from_root else 0)
    }


def _alternatives(aggregates: Aggregates, sizes: tuple[int, ...], level: int) -> Table:
    """Measured, by formula, and by the paper's own; one line for each protocol and of these."""
    shared = {name: SIMULATED[name] for name in ("c", "g", "a", "z", "loss")}
    shared |= {"figure": "alternatives", "sizes": sizes, "publish_level": level, "community": WHOLE}
    rows = []
    for protocol in PROTOCOLS:
        for tier, word in (("simulate", "simulated"), ("model", "formula")):
            own = {r.metric: r for r in aggregates.select(tier=tier, protocol=protocol, **shared)}
            if own:
                cells = (in_words(own.get(metric)) for metric in METRICS)
                rows.append((f"{NAMES[protocol]}, {word}", *cells))
            if own and tier == "model":
                printed = printed_whole(next(iter(own.values())))
                cells = (
                    digits(printed[metric]) if metric in printed else "-" for metric in METRICS
                )
                rows += [(f"{NAMES[protocol]}, the paper's formula", *cells)] if printed else []
    where = "the bottom community" if level == 0 else "the root"
    title = f"An event published in {where} of {sizes_words(sizes)}"
    return Table(title, ("", *METRICS.values()), tuple(rows), f"{DRAWN} {ASSUMED}")
