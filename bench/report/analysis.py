"""Tables of section 4's comparisons: when CAMCAST is as reliable as an alternative, and its latency."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.aggregates import Aggregate, Aggregates
from bench.experiment import CLUSTERS
from bench.model import latency, parity
from bench.model.published import TABLE_1
from bench.report.figures import SMALLEST, printed_setting
from bench.report.table import Table, digits, in_words, sizes_words
from bench.results import WHOLE

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
            parity.broadcast_range(x, pit),
            partial(parity.broadcast_constant, **alike),
            partial(parity.broadcast_largest_z, **alike, processes=n, community=each),
        ),
        _parity(
            f"{within}: as (b) gossip multicast",
            row,
            parity.multicast_range(pit),
            partial(parity.multicast_constant, pit=pit),
            partial(parity.multicast_largest_z, **alike, community=each),
        ),
        _parity(
            f"{within}: as (c) hierarchical gossip broadcast",
            row,
            parity.hierarchical_range(x, pit, CLUSTERS),
            partial(parity.hierarchical_constant, **alike, clusters=CLUSTERS),
            partial(parity.hierarchical_largest_z, **alike, clusters=CLUSTERS),
        ),
    ]


Formula = Callable[[float], float]


def _parity(
    name: str, row: Aggregate, admissible: parity.Range, constant: Formula, largest_z: Formula
) -> tuple[str, ...]:
    high = "any" if math.isinf(admissible.high) else f"{admissible.high:.2f}"
    c = row.c if row.c in admissible else math.floor(min(row.c, admissible.high))
    cells = (name, f"{admissible.low:.2f} to {high}", f"{c:g}")
    if c not in admissible:
        return (*cells, "none", "-", f"{row.z}")
    return (*cells, f"{constant(c):.2f}", f"{largest_z(c):.1f}", f"{row.z}")


def latency_table(aggregates: Aggregates) -> Table:
    """Rounds of the best, average and worst case with their bounds, beside what was simulated."""
    printed = {row.sizes: row.camcast for row in TABLE_1}
    rows = []
    for row in _run(aggregates):
        if min(row.sizes) < SMALLEST:
            continue
        cases = (
            latency.camcast_best_latency,
            latency.camcast_best_bound,
            latency.camcast_average_latency,
            latency.camcast_average_bound,
            latency.camcast_worst_latency,
            latency.camcast_latency_bound,
        )
        shared = {"figure": row.figure, "sizes": row.sizes, "publish_level": 0, "community": WHOLE}
        shared |= {"c": row.c, "g": row.g, "a": row.a, "z": row.z, "loss": row.loss}
        found = aggregates.select(tier="simulate", protocol="camcast", metric="rounds", **shared)
        paper = digits(printed[row.sizes]) if row.sizes in printed else "-"
        cells = (f"{case(row.sizes):.2f}" for case in cases)
        rows.append((sizes_words(row.sizes), *cells, in_words(next(iter(found), None)), paper))
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
