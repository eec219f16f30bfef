"""The evidence for what the paper says of its simulations and its analysis (sections 4 and 6.1)."""

from __future__ import annotations

import math

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import NOT_MEASURED, Verdict
from bench.model.published import TABLE_1, TABLE_2

CAMCAST_ROUNDS = {row.sizes: row.camcast for row in TABLE_1}
BROADCAST_PARASITES = {row.sizes: row.broadcast for row in TABLE_2}


def degradation_at_thirty_percent(aggregates: Aggregates) -> Verdict:
    """Reception of CAMCAST against gossip broadcast with 30 % crashed, over all live processes."""
    shared = {"figure": "figures-13-16", "tier": "simulate", "mode": "uniform", "failed": 0.3}
    shared |= {"metric": "reception", "community": WHOLE}
    ours = _only(aggregates.select(protocol="camcast", **shared))
    other = _only(aggregates.select(protocol="broadcast", **shared))
    if ours is None or other is None:
        return NOT_MEASURED
    low, mean, high = (100 * (other.value - value) for value in (ours.high, ours.value, ours.low))
    holds = high <= 5 or (None if low <= 5 else False)
    because = "" if holds else "the loss of reception against gossip broadcast is above five points"
    return Verdict(holds, f"{mean:.2f} points [{low:.2f}, {high:.2f}]", because)


def upward_messages_at_half(aggregates: Aggregates) -> Verdict:
    """Messages that leave a community upward with half of the processes crashed."""
    rows = aggregates.select(
        figure="figures-13-16",
        tier="simulate",
        mode="uniform",
        protocol="camcast",
        metric="messages_upward",
        failed=0.4,
    )
    rows = [row for row in rows if not row.is_root and row.community != WHOLE]
    if not rows:
        return NOT_MEASURED
    holds = all(row.low >= 1 for row in rows)
    ours = "; ".join(f"level {row.community}: {_with_interval(row)}" for row in rows)
    return Verdict(
        holds, f"{ours} (at 40 %)", "" if holds else "fewer than one on average somewhere"
    )


def weak_beats_stillborn(aggregates: Aggregates) -> Verdict:
    """Reliability at the root, weakly consistent views against stillborn processes."""
    shared = {"tier": "simulate", "mode": "uniform", "protocol": "camcast", "metric": "reliability"}
    weak = _at_root(aggregates.select(figure="figures-17-18", failed=0.3, **shared))
    still = _at_root(aggregates.select(figure="figures-13-16", failed=0.3, **shared))
    if weak is None or still is None:
        return NOT_MEASURED
    holds = weak.low > still.high or (None if weak.high > still.low else False)
    because = "" if holds else "the intervals do not separate the two"
    return Verdict(holds, f"{_with_interval(weak)} against {_with_interval(still)}", because)


def messages_grow_as_n_log_n(aggregates: Aggregates) -> Verdict:
    """Messages inside a community over N (ln N + c): at most 1, and as large at any size."""
    rows = aggregates.select(
        figure="scale", tier="simulate", protocol="camcast", metric="messages_inside", community=0
    )
    if len(rows) < 2:
        return NOT_MEASURED
    ratios = [row.value / (row.sizes[0] * (math.log(row.sizes[0]) + row.c)) for row in rows]
    holds = max(ratios) <= 1 and max(ratios) / min(ratios) < 1.25
    ours = (
        f"{min(ratios):.2f} to {max(ratios):.2f} for N = {rows[0].sizes[0]} to {rows[-1].sizes[0]}"
    )
    return Verdict(
        holds, ours, "" if holds else "the ratio to N (ln N + c) is above 1 or not steady"
    )


def memory_is_two_tables(aggregates: Aggregates) -> Verdict:
    """The most contacts that any simulated process keeps, against ln N + c + z."""
    rows = aggregates.select(
        figure="scale", tier="simulate", protocol="camcast", metric="largest_table"
    )
    rows = [row for row in rows if row.community != WHOLE]
    if not rows:
        return NOT_MEASURED
    excess = max(row.value - (math.log(row.size) + row.c + row.z) for row in rows)
    holds = excess <= 0
    return Verdict(
        holds, f"{excess:+.2f} entries at the most", "" if holds else "larger tables seen"
    )


def rounds_of_table_1(aggregates: Aggregates) -> Verdict:
    """Rounds until the event is everywhere.

    The paper does not say when it stops to count: at the last reception, or one round later, in which the
    last receivers forward in vain. Its value has to lie between the two.
    """
    rows = aggregates.select(
        figure="table-1", tier="simulate", protocol="camcast", metric="rounds", community=WHOLE
    )
    found = {row.sizes: row for row in rows if row.sizes in CAMCAST_ROUNDS}
    if len(found) < len(CAMCAST_ROUNDS):
        return NOT_MEASURED
    pairs = [(found[sizes], value) for sizes, value in CAMCAST_ROUNDS.items()]
    outside = [
        f"{row.value:.2f} to {row.value + 1:.2f} against {value:.2f}"
        for row, value in pairs
        if not row.low <= value <= row.high + 1
    ]
    ours = " / ".join(f"{row.value:.2f} to {row.value + 1:.2f}" for row, _ in pairs)
    return Verdict(
        not outside,
        f"{ours} (to the last reception, and to the round after it, in which nobody is left to reach)",
        "; ".join(outside),
    )


def parasites_of_table_2(aggregates: Aggregates) -> Verdict:
    """Parasite events of gossip broadcast, an event of the root topic, all communities together."""
    rows = aggregates.select(
        figure="table-2", tier="simulate", protocol="broadcast", metric="parasites", community=WHOLE
    )
    found = {row.sizes: row for row in rows if row.sizes in BROADCAST_PARASITES}
    if len(found) < len(BROADCAST_PARASITES):
        return NOT_MEASURED
    pairs = [(found[sizes], value) for sizes, value in BROADCAST_PARASITES.items()]
    outside = [
        f"{_number(row.value)} against {_number(value)}"
        for row, value in pairs
        if abs(row.value / value - 1) > 0.01
    ]
    ours = " / ".join(_with_interval(row) for row, _ in pairs)
    return Verdict(not outside, ours, "; ".join(outside))


def no_parasites(aggregates: Aggregates) -> Verdict:
    """Every parasite that CAMCAST caused, on any tier, in any experiment."""
    rows = aggregates.select(protocol="camcast", metric="parasites", community=WHOLE)
    if not rows:
        return NOT_MEASURED
    total = sum(row.value * row.count for row in rows)
    events = sum(row.count for row in rows)
    holds = total == 0
    return Verdict(
        holds, f"{total:.0f} in {events:,} events", "" if holds else "parasites were received"
    )


def _only(rows: list[Aggregate]) -> Aggregate | None:
    return rows[0] if len(rows) == 1 else None


def _at_root(rows: list[Aggregate]) -> Aggregate | None:
    return next((row for row in rows if row.is_root), None)


def _with_interval(row: Aggregate) -> str:
    return f"{_number(row.value)} [{_number(row.low)}, {_number(row.high)}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
