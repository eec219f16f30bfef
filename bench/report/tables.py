"""Tables beside the paper's: tables 1 and 2, the alternatives, parity and latency (section 4).

And the tables of the other benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.aggregates import Aggregate, Aggregates
from bench.experiment import CLUSTERS, PROTOCOLS
from bench.model import formulas
from bench.model.formulas import ASSUMED_DELEGATES, ASSUMED_DEPTH, ASSUMED_FANOUT
from bench.model.printed import TABLE_1, TABLE_2, PublishedRow
from bench.report.figures import SMALLEST, printed_setting, printed_whole
from bench.report.svg import Figure
from bench.report.table import Table, digits, in_words, remade_by, sizes_words
from bench.results import WHOLE
from bench.suites.built_in import SIMULATED, TOPOLOGIES
from bench.workloads import workloads
from bench.workloads.workload import LEFT_OUT, Recorded, Workload, read_rows

# The tables of the report: tables 1 and 2 beside the paper's numbers, and the alternatives.


NAMES = {
    "camcast": "CAMCAST",
    "broadcast": "(a) gossip broadcast",
    "multicast": "(b) gossip multicast",
    "hierarchical": "(c) hierarchical gossip broadcast",
    "pmcast": "PMcast",
}
PARAMETERS = {name: value for name, value in SIMULATED.items() if name != "sizes"}
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
            # As it is printed there, to every digit.
            printed = {row.sizes: f"{getattr(row, protocol):,g}" for row in paper}
            cells = (printed[sizes] for sizes in TOPOLOGIES)
            rows.append((f"{NAMES[protocol]}, the paper", *cells))
    measured = any(not name.endswith("the paper") for name, *_ in rows)
    heads = ("", *(sizes_words(sizes) for sizes in TOPOLOGIES))
    again = remade_by(aggregates.select(figure=figure))
    return Table(title, heads, tuple(rows) if measured else (), ASSUMED, again)


def _of_table(
    aggregates: Aggregates, figure: str, metric: str, tier: str, protocol: str
) -> dict[tuple[int, ...], Aggregate]:
    """Rows by topology. PMcast's formula is of no figure: its rows of the alternatives serve, too."""
    rows = aggregates.select(
        metric=metric,
        tier=tier,
        protocol=protocol,
        mode="uniform",
        community=WHOLE,
        failed=0.0,
        **PARAMETERS,
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
    shared = {"figure": "alternatives", "sizes": sizes, "publish_level": level, "community": WHOLE}
    shared |= PARAMETERS
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
    again = remade_by(aggregates.select(figure="alternatives"))
    return Table(title, ("", *METRICS.values()), tuple(rows), f"{DRAWN} {ASSUMED}", again)


# Tables of section 4's comparisons: when CAMCAST is as reliable as an alternative, and its latency.


PARITY_HEADS = (
    "",
    "c of the alternative, admissible",
    "largest c here",
    "CAMCAST's c then",
    "it keeps less with z up to",
    "z here",
)
PARITY_NOTE = (
    "Section 4.5.2, for communities alike: x levels of n/x processes, and the smallest pit. For a c of the "
    "alternative within the range, CAMCAST is as reliable with a c of its own. Given for the c that was run, "
    "or for the largest whole c below it that is admissible."
)
LATENCY_HEADS = (
    "",
    "best",
    "at most",
    "average",
    "at most",
    "worst",
    "at most",
    "simulated",
    "the paper",
)
LATENCY_NOTE = (
    "Section 4.6, R = ln N / ln ln N without its constant: an event climbs at once, halfway through each "
    "community, or after it is done; each with the paper's bound."
)


def parity_table(aggregates: Aggregates) -> Table:
    """The admissible ranges of c and z, for each topology that was run and each alternative."""
    rows = [line for row in _run(aggregates) for line in _parities(row)]
    title = "As reliable as an alternative, and with less memory"
    return Table(title, PARITY_HEADS, tuple(rows), PARITY_NOTE)


def _parities(row: Aggregate) -> list[tuple[str, ...]]:
    """The three alternatives to one topology."""
    x, n, pit = len(row.sizes), sum(row.sizes), printed_setting(row).pit
    each, within = max(1, round(n / x)), sizes_words(row.sizes)
    alike: dict[str, Any] = {"levels": x, "pit": pit}
    return [
        _parity(
            f"{within}: as (a) gossip broadcast",
            row,
            formulas.broadcast_range(x, pit),
            partial(formulas.broadcast_constant, **alike),
            partial(formulas.broadcast_largest_z, **alike, processes=n, community=each),
        ),
        _parity(
            f"{within}: as (b) gossip multicast",
            row,
            formulas.multicast_range(pit),
            partial(formulas.multicast_constant, pit=pit),
            partial(formulas.multicast_largest_z, **alike, community=each),
        ),
        _parity(
            f"{within}: as (c) hierarchical gossip broadcast",
            row,
            formulas.hierarchical_range(x, pit, CLUSTERS),
            partial(formulas.hierarchical_constant, **alike, clusters=CLUSTERS),
            partial(formulas.hierarchical_largest_z, **alike, clusters=CLUSTERS),
        ),
    ]


Formula = Callable[[float], float]


def _parity(
    name: str,
    row: Aggregate,
    admissible: formulas.Admissible,
    constant: Formula,
    largest_z: Formula,
) -> tuple[str, ...]:
    high = "any" if math.isinf(admissible.high) else f"{admissible.high:.2f}"
    c = row.c if row.c in admissible else math.floor(min(row.c, admissible.high))
    cells = (name, f"{admissible.low:.2f} to {high}", f"{c:g}")
    if c not in admissible:
        return (*cells, "none", "-", f"{row.z}")
    return (*cells, f"{constant(c):.2f}", f"{largest_z(c):.1f}", f"{row.z}")


def latency_table(aggregates: Aggregates) -> Table:
    """Rounds of the best, average and worst case with their bounds, beside what was simulated."""
    printed = {row.sizes: f"{row.camcast:g}" for row in TABLE_1}
    rows = []
    for row in _run(aggregates):
        if min(row.sizes) < SMALLEST:
            continue
        cases = (
            formulas.camcast_best_latency,
            formulas.camcast_best_bound,
            formulas.camcast_average_latency,
            formulas.camcast_average_bound,
            formulas.camcast_worst_latency,
            formulas.camcast_latency_bound,
        )
        shared = {"figure": row.figure, "sizes": row.sizes, "publish_level": 0, "community": WHOLE}
        shared |= {"c": row.c, "g": row.g, "a": row.a, "z": row.z, "loss": row.loss}
        found = aggregates.select(tier="simulate", protocol="camcast", metric="rounds", **shared)
        cells = (f"{case(row.sizes):.2f}" for case in cases)
        measured = in_words(next(iter(found), None))
        rows.append((sizes_words(row.sizes), *cells, measured, printed.get(row.sizes, "-")))
    return Table("Latency by formula, in rounds", LATENCY_HEADS, tuple(rows), LATENCY_NOTE)


def _run(aggregates: Aggregates) -> list[Aggregate]:
    """One row for each topology whose alternatives were compared, with its parameters."""
    rows = aggregates.select(
        figure="alternatives",
        tier="model",
        protocol="camcast",
        publish_level=0,
        community=WHOLE,
        metric="messages_inside",
    )
    return list({(row.sizes, row.c, row.z, row.loss): row for row in rows}.values())


# The other benchmarks: what each workload measured, and what was not run.


def speed_tables(directory: Path | None) -> list[Table]:
    """The tables of every workload that was run, then the commands of those that were not."""
    found: list[Table] = []
    absent: list[tuple[str, str]] = []
    for workload in workloads():
        recorded = read_rows(directory, workload.name) if directory else []
        own = _measured(workload, recorded)
        found += own
        if not own:
            quick = f"with --quick in about {workload.quick_seconds:g} s"
            absent.append((workload.title, f"{workload.command}; {quick}"))
        absent += [
            (f"{workload.title}: {one.row.what}", one.row.note)
            for one in recorded
            if one.row.metric == LEFT_OUT
        ]
    if absent:
        found.append(Table("Not run", ("what", "how"), tuple(absent)))
    return found


def speed_figures(directory: Path | None) -> list[Figure]:
    """The figures of every workload that was run."""
    if directory is None:
        return []
    found: list[Figure] = []
    for workload in workloads():
        recorded = read_rows(directory, workload.name)
        again = tuple(dict.fromkeys(one.origin.command for one in recorded))
        drawn = workload.figures([one.row for one in recorded])
        found += [replace(own, commands=again) for own in drawn]
    return found


def _measured(workload: Workload, recorded: list[Recorded]) -> list[Table]:
    rows = [one.row for one in recorded]
    found = []
    for table in workload.tables:
        heads, *lines = table.lines(rows)
        if lines:
            shown = [
                one for one in recorded if not table.columns or one.row.metric in table.metrics
            ]
            origins = dict.fromkeys(one.origin for one in shown)
            made = (f"Measured: {origin.version}; {origin.place}." for origin in origins)
            note = " ".join([table.about, *dict.fromkeys(made)]).strip()
            title = f"{workload.title}: {table.title}"
            cells, again = tuple(map(tuple, lines)), dict.fromkeys(one.command for one in origins)
            found.append(Table(title, tuple(heads), cells, note, tuple(again)))
    return found
