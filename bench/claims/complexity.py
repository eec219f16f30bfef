"""The evidence for messages, memory and parasites (sections 4.3, 4.4, 5.2 and 6.1.2)."""

from __future__ import annotations

import math

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import NOT_MEASURED, Verdict
from bench.claims.comparison import (
    all_hold,
    below,
    listed,
    number,
    too_few_networks,
    with_interval,
)
from bench.claims.lookup import real, simulated
from bench.intervals import Interval

STEADY = 1.25
"""The most that the ratio to N (ln N + c) may vary from size to size."""
NEAR = 0.2
"""How far from ln N an average table may be, as a share of it."""
ALIKE = 0.5
"""The standard deviation below which tables have the same size."""
TIER_WORDS = {"simulate": "simulated", "emulate": "emulated", "live": "live"}


def messages_grow_as_n_log_n(aggregates: Aggregates) -> Verdict:
    """Messages inside a community over N (ln N + c): at most 1, and as large at any size.

    That is said of any c.
    """
    shared = {"figure": "scale", "tier": "simulate", "mode": "uniform", "protocol": "camcast"}
    rows = aggregates.select(**shared, metric="messages_inside", community=0)
    if len(rows) < 2:
        return NOT_MEASURED
    bounds = [row.size * (math.log(row.size) + row.c) for row in rows]
    ratios = [row.value / bound for row, bound in zip(rows, bounds, strict=True)]
    ours = f"{min(ratios):.2f} to {max(ratios):.2f} for N = {rows[0].sizes[0]:,} to {rows[-1].sizes[0]:,}"
    if any(row.low > bound for row, bound in zip(rows, bounds, strict=True)):
        return Verdict(False, ours, "more messages than N (ln N + c)")
    if max(ratios) >= STEADY * min(ratios):
        return Verdict(False, ours, "the ratio to N (ln N + c) is not the same at all sizes")
    if any(row.high > bound for row, bound in zip(rows, bounds, strict=True)):
        return Verdict(None, ours, "an interval covers the bound")
    return Verdict(True, ours)


def memory_is_two_tables(aggregates: Aggregates) -> Verdict:
    """The most contacts that any process keeps, against ln N + c + z, for each tier and mode."""
    rows = [
        row
        for row in aggregates.select(protocol="camcast", metric="largest_table", failed=0.0)
        if row.community != WHOLE and row.tier in TIER_WORDS
    ]
    if not any(row.tier == "emulate" for row in rows):
        return NOT_MEASURED
    worst: dict[tuple[str, str], Aggregate] = {}
    for row in rows:
        kind = (row.tier, row.mode)
        if kind not in worst or _excess(row) > _excess(worst[kind]):
            worst[kind] = row
    ours = "; ".join(
        f"{row.mode}, {TIER_WORDS[row.tier]}: {_excess(row):+.1f}" for row in worst.values()
    )
    over = [row for row in worst.values() if _excess(row) > 0]
    because = [
        f"{row.mode}, {TIER_WORDS[row.tier]}: {number(row.value)} contacts in {row.place} of "
        f"{row.size}, where the bound is {number(_bound(row))}"
        for row in sorted(over, key=_excess, reverse=True)
    ]
    reason = f"SCAMP's tables vary in size: {listed(because)}" if over else ""
    return Verdict(not over, f"{ours} contacts at the most against the bound", reason)


def _bound(row: Aggregate) -> float:
    return math.log(row.size) + row.c + (0 if row.is_root else row.z)


def _excess(row: Aggregate) -> float:
    return row.value - _bound(row)


def gossiped_tables_average_ln_n(aggregates: Aggregates) -> Verdict:
    """Entries of the topic tables that SCAMP keeps, on average, over ln N."""
    rows = [
        row
        for mode in ("unstructured", "semi-structured")
        for row in _tables(aggregates, mode, "table_entries")
    ]
    if len(rows) < 6:
        return NOT_MEASURED
    ratios = {_kind(row): _topic_table(row) for row in rows}
    ours = "; ".join(f"{name}: {with_interval(ratio)} ln N" for name, ratio in ratios.items())
    if few := too_few_networks(rows):
        return Verdict(None, ours, few)
    far = [name for name, ratio in ratios.items() if not _near(ratio)]
    if far:
        return Verdict(False, ours, f"more than {100 * NEAR:.0f} % from ln N: {listed(far)}")
    inside = all(r.low >= 1 - NEAR and r.high <= 1 + NEAR for r in ratios.values())
    return Verdict(True if inside else None, ours, "" if inside else "an interval goes further")


def _near(ratio: Interval) -> bool:
    return ratio.high >= 1 - NEAR and ratio.low <= 1 + NEAR


def _topic_table(row: Aggregate) -> Interval:
    """Entries without those of the super-topic table, over ln N."""
    above = 0 if row.is_root else row.z
    bounds = ((value - above) / math.log(row.size) for value in (row.low, row.value, row.high))
    return Interval(*bounds)


def structured_tables_are_alike(aggregates: Aggregates) -> Verdict:
    """Structured tables: ln N + c entries, a whole number of them, and the same for all."""
    entries = _tables(aggregates, "structured", "table_entries")
    deviations = {
        row.community: row for row in _tables(aggregates, "structured", "table_deviation")
    }
    if len(entries) < 3 or not all(row.community in deviations for row in entries):
        return NOT_MEASURED
    ours = "; ".join(
        f"{row.place}: {number(row.value)} of {number(_bound(row))}, deviation "
        f"{number(deviations[row.community].value)}"
        for row in entries
    )
    if few := too_few_networks(entries):
        return Verdict(None, ours, few)
    off = [row.place for row in entries if row.low > _bound(row) or row.high < _bound(row) - 1]
    uneven = [row.place for row in deviations.values() if row.low > ALIKE]
    because = [f"tables of another size in {place}" for place in off]
    because += [f"tables of different sizes in {place}" for place in uneven]
    return Verdict(not because, ours, listed(because))


def _tables(aggregates: Aggregates, mode: str, metric: str) -> list[Aggregate]:
    """A mode's rows of all communities, once each: the same tables serve every p_sel."""
    found: dict[int, Aggregate] = {}
    for row in real(aggregates, mode, metric):
        if row.community != WHOLE:
            found[row.community] = row
    return [found[level] for level in sorted(found)]


def _kind(row: Aggregate) -> str:
    return f"{row.mode}, {row.place}"


def less_memory_than_multicast_and_clusters(aggregates: Aggregates) -> Verdict:
    """Contacts of a process, in every community, against alternatives (b) and (c)."""
    shared = {"figure": "alternatives", "metric": "table_entries", "publish_level": 0}
    rows = [row for row in simulated(aggregates, **shared) if row.community != WHOLE]
    of = {(row.protocol, row.sizes, row.community): row for row in rows}
    ours = [row for row in rows if row.protocol == "camcast"]
    outcomes: dict[str, list[bool | None]] = {}
    more = []
    for row in ours:
        for protocol in ("multicast", "hierarchical"):
            other = of.get((protocol, row.sizes, row.community))
            if other is None:
                continue
            outcome = below(row.interval, other.interval)
            outcomes.setdefault(protocol, []).append(outcome)
            if outcome is not True:
                more.append(
                    f"{number(row.value)} against {number(other.value)} of {protocol} in {row.place} of "
                    f"{', '.join(map(str, row.sizes))}"
                )
    if len(outcomes) < 2:
        return NOT_MEASURED
    words = "; ".join(
        f"less than {protocol} in {found.count(True)} of {len(found)} communities"
        for protocol, found in outcomes.items()
    )
    holds = all_hold(outcome for found in outcomes.values() for outcome in found)
    reason = f"{listed(more)}: a process at the bottom keeps one table in multicast, too"
    return Verdict(holds, words, "" if holds else reason)


def no_parasites(aggregates: Aggregates) -> Verdict:
    """Every parasite that real nodes received, in any experiment."""
    rows = [
        row
        for tier in ("emulate", "live")
        for row in aggregates.select(
            tier=tier, protocol="camcast", metric="parasites", community=WHOLE
        )
    ]
    if not rows:
        return NOT_MEASURED
    total = sum(row.value * row.count for row in rows)
    events = sum(row.count for row in rows)
    ours = f"{total:.0f} in {events:,} events of real nodes"
    return Verdict(total == 0, ours, "" if total == 0 else "parasites were received")
