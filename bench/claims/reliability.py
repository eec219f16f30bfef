"""The evidence for reliability: against the formula, the alternatives, and between communities (4.5)."""

from __future__ import annotations

import dataclasses
from statistics import NormalDist

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import NOT_MEASURED, NOT_REFUTED, Verdict
from bench.claims.comparison import (
    FEWEST_NETWORKS,
    all_hold,
    below,
    listed,
    percent,
    too_few_networks,
)
from bench.claims.lookup import simulated
from bench.intervals import errors_above

CHANCE = 0.05
"""The probability of calling any setting too low though none is."""


def reliable_as_the_formula(aggregates: Aggregates) -> Verdict:
    """Reliability of real nodes with repaired tables, in every community, mode and share of crashes.

    Of many settings some lie below by chance: each is tested at the level that leaves all together 5 %.
    """
    shared = {"metric": "reliability", "failure": "repaired", "protocol": "camcast"}
    formula = {_place(row): row.value for row in aggregates.select(tier="model", **shared)}
    rows = [
        row
        for row in aggregates.select(tier="emulate", **shared)
        if row.community != WHOLE and _place(row) in formula
    ]
    if not rows:
        return NOT_MEASURED
    rows = [row for row in rows if row.networks >= FEWEST_NETWORKS] or rows
    enough = NormalDist().inv_cdf(1 - CHANCE / len(rows))
    expected = [formula[_place(row)] for row in rows]
    short = [
        (row.value - value, row, value)
        for row, value in zip(rows, expected, strict=True)
        if errors_above(row.interval, value) > enough
    ]
    least = min(row.value - value for row, value in zip(rows, expected, strict=True))
    fine = f"not below in {len(rows) - len(short)} of {len(rows)} settings"
    ours = f"{fine}; {100 * least:+.1f} points at the least"
    if few := too_few_networks(rows):
        return Verdict(None, ours, few)
    because = listed(
        f"{row.mode}, {row.place} of {row.size}, {100 * row.failed:.0f} % crashed: "
        f"{percent(row.interval)} against {100 * value:.1f} %"
        for _, row, value in sorted(short, key=lambda each: each[0])
    )
    if short:
        return Verdict(False, ours, because)
    return Verdict(True, ours, "no setting is too low, tested for all together", NOT_REFUTED)


def _place(row: Aggregate) -> tuple[object, ...]:
    """The setting, whatever ran it."""
    return dataclasses.replace(row, tier="", mode="").setting


def below_the_alternatives(aggregates: Aggregates) -> Verdict:
    """The probability that everyone everywhere has an event of the bottom topic, in each topology."""
    shared = {"figure": "alternatives", "metric": "reliability", "publish_level": 0}
    rows = simulated(aggregates, community=WHOLE, failed=0.0, **shared)
    of = {(row.sizes, row.protocol): row for row in rows}
    topologies = list(dict.fromkeys(row.sizes for row in rows))
    others = ("broadcast", "multicast", "hierarchical")
    if not topologies or not all((s, p) in of for s in topologies for p in ("camcast", *others)):
        return NOT_MEASURED
    outcomes, words, against = [], [], []
    for sizes in topologies:
        ours = of[sizes, "camcast"]
        name = ", ".join(map(str, sizes))
        best = max((of[sizes, other] for other in others), key=lambda row: row.value)
        words.append(f"{name}: {percent(ours.interval)}, {best.protocol} {percent(best.interval)}")
        for other in others:
            outcome = below(ours.interval, of[sizes, other].interval)
            outcomes.append(outcome)
            if outcome is not True:
                relation = "not below" if outcome is False else "not apart from"
                against.append(f"{relation} {other} in {name}")
    return Verdict(all_hold(outcomes), "; ".join(words), listed(against))


def worst_at_the_root(aggregates: Aggregates) -> Verdict:
    """CAMCAST's reliability in the root community against that in those below it."""
    shared = {"figure": "alternatives", "metric": "reliability", "publish_level": 0}
    rows = simulated(aggregates, protocol="camcast", failed=0.0, **shared)
    by_topology: dict[tuple[int, ...], dict[int, Aggregate]] = {}
    for row in rows:
        by_topology.setdefault(row.sizes, {})[row.community] = row
    if not by_topology:
        return NOT_MEASURED
    outcomes, words, against = [], [], []
    for sizes, found in by_topology.items():
        root, name = found[len(sizes) - 1], ", ".join(map(str, sizes))
        words.append(
            f"{name}: {percent(root.interval)}, at the bottom {percent(found[0].interval)}"
        )
        for level in range(len(sizes) - 1):
            outcome = below(root.interval, found[level].interval)
            outcomes.append(outcome)
            if outcome is not True:
                relation = "not below" if outcome is False else "not apart from"
                against.append(f"{relation} {found[level].place} in {name}")
    return Verdict(all_hold(outcomes), "; ".join(words), listed(against))
