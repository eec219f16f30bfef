"""What real nodes say of claims (sections 1, 4.4, 4.5, 5.2 and 6.2): the modes as published.

What depends on tables alone is taken from events replayed over the real tables of every network; emulated
events of the same networks are the cross-check (`bench.report`).
"""

from __future__ import annotations

import dataclasses
import math

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import (
    NOT_REFUTED,
    RELATIVE_MARGIN,
    SHARE_MARGIN,
    NotMeasured,
    Part,
    Verdict,
    all_hold,
    at_least,
    at_most,
    averaged,
    equals,
    exceeds,
    ratio,
    undecided,
)
from bench.intervals import FEWEST, Interval
from bench.model.printed import PrintedSetting
from bench.results import WHOLE
from bench.suites.built_in import (
    CHURN,
    DEFAULT,
    IMPLEMENTED,
    IMPLEMENTED_SIZES,
    LINKS,
    MODES,
    variant,
)

SUPER_COMMUNITIES = (1, 2)
"""d and a, for which the paper shows figures 19 to 28: what happens in g does not depend on p_sel."""
PLACES = [(mode, community) for mode in MODES for community in SUPER_COMMUNITIES]
SEVEN_PERCENT = 0.07
EVERYONE = 1 - SHARE_MARGIN
"""What 100 % is held against (rule 1)."""
VERY_HIGH = 0.9
"""What `very high` is taken for."""
ALIKE = 0.5
"""The standard deviation below which tables have the same size."""


def published(aggregates: Aggregates, mode: str, metric: str) -> list[Aggregate]:
    """A mode as published, with the parameters of section 6.2.1, and its sizes there or the others'."""
    shared = {name: IMPLEMENTED[name] for name in ("c", "a", "z", "loss")}
    shared |= {"figure": LINKS, "tier": "replay", "protocol": "camcast", "failed": 0.0}
    rows = aggregates.select(mode=mode, metric=metric, **shared, **variant("published"))
    own = [row for row in rows if row.sizes == IMPLEMENTED_SIZES[mode]]
    return own or [row for row in rows if row.sizes in IMPLEMENTED_SIZES.values()]


def at_share(
    aggregates: Aggregates, mode: str, metric: str, p_sel: float, community: int = WHOLE
) -> Aggregate:
    for row in published(aggregates, mode, metric):
        if row.p_sel == p_sel and row.community == community:
            return row
    raise NotMeasured


def _over_shares(aggregates: Aggregates, metric: str) -> dict[str, Aggregate]:
    """Each mode's mean over the super-communities and over the values of p_sel that all modes have.

    A metric may have no value where no event arrived: such a place is left out in all modes.
    """
    found = {
        mode: {
            (row.community, row.p_sel): row
            for row in published(aggregates, mode, metric)
            if row.community in SUPER_COMMUNITIES and row.p_sel is not None
        }
        for mode in MODES
    }
    shared = sorted(set.intersection(*(set(rows) for rows in found.values())), key=str)
    return {mode: averaged([rows[place] for place in shared]) for mode, rows in found.items()}


# In short.


def reliable_with_seven_percent(aggregates: Aggregates) -> Verdict:
    """Reliability over all three communities with p_sel = 0.07; one mode that reaches everyone is enough."""
    rows = [at_share(aggregates, mode, "reliability", SEVEN_PERCENT) for mode in MODES]
    parts = [at_least(row.mode, row, EVERYONE) for row in rows]
    sure = [part.label for part in parts if part.outcome]
    if sure:
        return Verdict(True, tuple(parts), f"with {' and '.join(sure)}")
    if any(part.outcome is None for part in parts):
        return undecided(parts)
    because = f"no mode reaches everyone in 95 % of the events{_by_the_paper(rows[0])}"
    return Verdict(False, tuple(parts), because)


def _by_the_paper(row: Aggregate) -> str:
    """What the paper's own formula says of the root, which is the worst case."""
    names = ("sizes", "c", "g", "p_sel", "a", "z", "loss")
    setting = PrintedSetting(failed=0.0, **{name: getattr(row, name) for name in names})
    value = setting.in_community("reliability", len(row.sizes) - 1)
    assert value is not None
    return f"; the paper's formula gives {100 * value:.0f} % for the root with its c = {row.c:g}"


def no_parasites(aggregates: Aggregates) -> Verdict:
    """Every parasite that real nodes received while processes left, crashed and changed topics."""
    shared = {"figure": CHURN, "tier": "emulate", "protocol": "camcast", "metric": "parasites"}
    rows = [row for row in aggregates.select(**shared, community=WHOLE) if row.failed > 0]
    parts = []
    for row in rows:
        total = row.value * row.count
        label = f"{row.mode}, in {row.count} events"
        parts.append(at_most(label, Interval(total, total, total), 0.0, row))
    events = sum(row.count for row in rows)
    because = (
        f"not refuted in {events:,} events during which processes left, crashed and changed topics"
    )
    return all_hold(parts, because, "parasites were received", NOT_REFUTED)


# Memory.


def _bound(row: Aggregate) -> float:
    return math.log(row.size) + row.c + (0 if row.is_root else row.z)


def _tables(aggregates: Aggregates, mode: str, metric: str, least: int = 3) -> list[Aggregate]:
    """A mode's rows of all communities, once each: the same tables serve every p_sel. `NotMeasured` of
    fewer than `least`."""
    rows = published(aggregates, mode, metric)
    found = {row.community: row for row in rows if row.community != WHOLE}
    if len(found) < least:
        raise NotMeasured
    return [found[level] for level in sorted(found)]


def memory_is_two_tables(aggregates: Aggregates) -> Verdict:
    """The most contacts that any process keeps, against ln N + c + z, in each mode."""
    parts = []
    for mode in MODES:
        rows = _tables(aggregates, mode, "largest_table", least=1)
        worst = max(rows, key=lambda row: row.value - _bound(row))
        label = f"{mode}, largest in {worst.place}, over the bound"
        parts.append(at_most(label, worst.interval.scaled(1 / _bound(worst)), 1.0, worst))
    return all_hold(parts, "", "the tables of SCAMP vary in size")


def gossiped_tables_average_ln_n(aggregates: Aggregates) -> Verdict:
    """Entries of the topic tables that SCAMP keeps, on average, over ln N."""
    parts = []
    for mode in MODES[:2]:
        for row in _tables(aggregates, mode, "table_entries"):
            above = 0 if row.is_root else row.z
            own = row.interval.shifted(-above).scaled(1 / math.log(row.size))
            parts.append(equals(f"{mode}, {row.place}, over ln N", own, 1.0, row))
    because = "more than 10 % from ln N: SCAMP's views come out at (c + 1) ln N with its own c = 1"
    return all_hold(parts, "", because)


def structured_tables_are_alike(aggregates: Aggregates) -> Verdict:
    """Structured tables: ln N + c entries, a whole number of them, and the same for all."""
    parts = []
    for row in _tables(aggregates, "structured", "table_entries"):
        above = 0 if row.is_root else min(row.z, row.sizes[row.community + 1])
        full = min(row.size - 1, math.log(row.size) + row.c) + above
        parts.append(Part(f"entries in {row.place}", row.interval, full - 1, full, (row,)))
    for row in _tables(aggregates, "structured", "table_deviation"):
        parts.append(at_most(f"deviation in {row.place}", row.interval, ALIKE, row))
    return all_hold(parts, "", "tables of another size")


# Reliability.


def reliable_as_the_formula(aggregates: Aggregates) -> Verdict:
    """Reliability in every community and mode: with the parameters of section 6.2.1 by the share of links,
    and with the defaults over repaired tables by loss and share of crashes."""
    shared = {"metric": "reliability", "protocol": "camcast"}
    formula = {_place(row): row.value for row in aggregates.select(tier="model", **shared)}
    shared |= {"figure": DEFAULT, "tier": "replay", "failure": "repaired", **variant("published")}
    rows = aggregates.select(**shared)
    rows += [row for mode in MODES for row in published(aggregates, mode, "reliability")]
    rows = [row for row in rows if row.community != WHOLE and _place(row) in formula]
    rows = [row for row in rows if len(row.networks) >= FEWEST] or rows
    parts = []
    for row in rows:
        lost = f", {100 * row.loss:.0f} % lost" if row.loss else ""
        crashed = f", {100 * row.failed:.0f} % crashed" if row.failed else ""
        links = f", p_sel {row.p_sel:g}" if row.p_sel is not None else ""
        label = f"{row.mode}, {row.place}{links}{lost}{crashed}"
        parts.append(equals(label, row.interval.shifted(-formula[_place(row)]), 0.0, row))
    return all_hold(parts, "within five points everywhere", _why_apart(parts))


def _why_apart(parts: list[Part]) -> str:
    reasons = []
    if any(part.interval.low > SHARE_MARGIN for part in parts):
        reasons.append("more reliable: real nodes leave out whom they know to have an event")
    if any(part.interval.high < -SHARE_MARGIN for part in parts):
        reasons.append("less reliable: tables are not drawn uniformly")
    return " and ".join(reasons) or "apart from the formula"


def _place(row: Aggregate) -> tuple[object, ...]:
    """The setting, whatever ran it."""
    return dataclasses.replace(row, tier="", mode="").setting


# Figures 19 to 28.


def everywhere(
    aggregates: Aggregates, metric: str, p_sel: float, bound: float, short: str
) -> Verdict:
    """A share is at least `bound` in every mode and super-community with this share of links."""
    parts = []
    for mode, community in PLACES:
        row = at_share(aggregates, mode, metric, p_sel, community)
        parts.append(at_least(f"{mode}, {row.place}", row, bound))
    return all_hold(parts, "", short)


def in_order(aggregates: Aggregates, metric: str, pairs: list[tuple[str, str]]) -> Verdict:
    """In d and a, averaged over the values of p_sel, the first mode of each pair is below the second."""
    means = _over_shares(aggregates, metric)
    parts = [
        exceeds(f"{larger} over {smaller}", means[larger], means[smaller])
        for smaller, larger in pairs
    ]
    return all_hold(parts, "mean over the values of p_sel", "not ahead")


def falls_with_links(aggregates: Aggregates, metric: str) -> Verdict:
    """In d and a, a metric is smaller with every process a link than with the fewest, in every mode."""
    parts = []
    for mode, community in PLACES:
        rows = [r for r in published(aggregates, mode, metric) if r.community == community]
        rows = sorted((r for r in rows if r.p_sel), key=lambda row: row.p_sel or 0.0)
        # With the fewest links an event gets there in few networks, or in none.
        rows = [row for row in rows if len(row.networks) >= FEWEST] or rows
        if len(rows) < 2:
            raise NotMeasured
        label = f"{mode}, {rows[0].place}: p_sel {rows[0].p_sel:g} over {rows[-1].p_sel:g}"
        parts.append(exceeds(label, rows[0], rows[-1]))
    return all_hold(parts, "", "it does not fall")


def upward_messages_are_proportional(aggregates: Aggregates) -> Verdict:
    """Messages from g to d by p_sel, over the same with every process a link."""
    parts = []
    for mode in MODES:
        every = at_share(aggregates, mode, "messages_upward", 1.0, 0)
        rows = [r for r in published(aggregates, mode, "messages_upward") if r.community == 0]
        fewer = [row for row in rows if row.p_sel not in (None, 1.0)]
        if not fewer:
            raise NotMeasured
        for row in fewer:
            share = ratio(row, every, row.p_sel or 1.0)
            if share is not None:
                low, high = 1 - RELATIVE_MARGIN, 1 + RELATIVE_MARGIN
                label = f"{mode}, p_sel {row.p_sel:g}, of proportional"
                parts.append(Part(label, share.interval, low, high, (row, every)))
    return all_hold(parts, "", "not in proportion")
