"""The parts of claims that real nodes decide (sections 1, 4.4, 4.5, 5.2 and 6.2): the modes as published.

What depends on tables alone is taken from events replayed over the real tables of every network; emulated
events of the same networks are the cross-check (`bench.report`).
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import (
    NOT_MEASURED,
    NOT_REFUTED,
    RELATIVE_MARGIN,
    SHARE_MARGIN,
    Part,
    Verdict,
    all_hold,
    at_least,
    at_most,
    averaged,
    claim,
    equals,
    exceeds,
    ratio,
    undecided,
)
from bench.intervals import FEWEST, Interval
from bench.model.printed import PrintedSetting
from bench.results import WHOLE
from bench.suites.settings import (
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
) -> Aggregate | None:
    rows = published(aggregates, mode, metric)
    return next((r for r in rows if r.p_sel == p_sel and r.community == community), None)


def _over_shares(aggregates: Aggregates, metric: str) -> dict[str, Aggregate | None]:
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


@claim(
    "seven-percent",
    "100 % reliability in three communities with 7 % of the processes forwarding upward.",
    "sections 1.4 and 7",
    "100 %",
)
def reliable_with_seven_percent(aggregates: Aggregates) -> Verdict:
    """Reliability over all three communities with p_sel = 0.07; one mode that reaches everyone is enough."""
    rows = [at_share(aggregates, mode, "reliability", SEVEN_PERCENT) for mode in MODES]
    found = [row for row in rows if row is not None]
    if len(found) < len(MODES):
        return NOT_MEASURED
    parts = [at_least(row.mode, row, EVERYONE) for row in found]
    sure = [part.label for part in parts if part.outcome]
    if sure:
        return Verdict(True, tuple(parts), f"with {' and '.join(sure)}")
    if any(part.outcome is None for part in parts):
        return undecided(parts)
    because = f"no mode reaches everyone in 95 % of the events{_by_the_paper(found[0])}"
    return Verdict(False, tuple(parts), because)


def _by_the_paper(row: Aggregate) -> str:
    """What the paper's own formula says of the root, which is the worst case."""
    names = ("sizes", "c", "g", "p_sel", "a", "z", "loss")
    setting = PrintedSetting(failed=0.0, **{name: getattr(row, name) for name in names})
    value = setting.in_community("reliability", len(row.sizes) - 1)
    assert value is not None
    return f"; the paper's formula gives {100 * value:.0f} % for the root with its c = {row.c:g}"


@claim(
    "no-parasites",
    "No process ever receives an event of a community it is not part of.",
    "sections 1.3 and 6.1.2",
    "0",
)
def no_parasites(aggregates: Aggregates) -> Verdict:
    """Every parasite that real nodes received while processes left, crashed and changed topics."""
    shared = {"figure": CHURN, "tier": "emulate", "protocol": "camcast", "metric": "parasites"}
    rows = [row for row in aggregates.select(**shared, community=WHOLE) if row.failed > 0]
    if not rows:
        return NOT_MEASURED
    parts = []
    for row in rows:
        total = row.value * row.count
        label = f"{row.mode}, in {row.count} events"
        parts.append(at_most(label, Interval(total, total, total), 0.0, row))
    verdict = all_hold(parts, "", "parasites were received")
    if not verdict.holds:
        return verdict
    events = sum(row.count for row in rows)
    because = (
        f"not refuted in {events:,} events during which processes left, crashed and changed topics"
    )
    return Verdict(True, tuple(parts), because, NOT_REFUTED)


# Memory.


def _bound(row: Aggregate) -> float:
    return math.log(row.size) + row.c + (0 if row.is_root else row.z)


def _tables(aggregates: Aggregates, mode: str, metric: str) -> list[Aggregate]:
    """A mode's rows of all communities, once each: the same tables serve every p_sel."""
    found: dict[int, Aggregate] = {}
    for row in published(aggregates, mode, metric):
        if row.community != WHOLE:
            found[row.community] = row
    return [found[level] for level in sorted(found)]


@claim(
    "memory",
    "A process keeps at most ln N + c + z contacts, however many subtopics there are.",
    "section 4.4",
    "ln N + c + z",
)
def memory_is_two_tables(aggregates: Aggregates) -> Verdict:
    """The most contacts that any process keeps, against ln N + c + z, in each mode."""
    parts = []
    for mode in MODES:
        rows = _tables(aggregates, mode, "largest_table")
        if not rows:
            return NOT_MEASURED
        worst = max(rows, key=lambda row: row.value - _bound(row))
        label = f"{mode}, largest in {worst.place}, over the bound"
        parts.append(at_most(label, worst.interval.scaled(1 / _bound(worst)), 1.0, worst))
    return all_hold(parts, "", "the tables of SCAMP vary in size")


@claim(
    "gossiped-tables",
    "Topic tables of the gossiped membership average ln N entries.",
    "section 5.2.1",
    "ln N (with c = 0)",
)
def gossiped_tables_average_ln_n(aggregates: Aggregates) -> Verdict:
    """Entries of the topic tables that SCAMP keeps, on average, over ln N."""
    parts = []
    for mode in MODES[:2]:
        for row in _tables(aggregates, mode, "table_entries"):
            above = 0 if row.is_root else row.z
            bounds = (row.low, row.interval.value, row.high)
            own = Interval(*((value - above) / math.log(row.size) for value in bounds))
            parts.append(equals(f"{mode}, {row.place}, over ln N", own, 1.0, row))
    if len(parts) < 6:
        return NOT_MEASURED
    because = "more than 10 % from ln N: SCAMP's views come out at (c + 1) ln N with its own c = 1"
    return all_hold(parts, "", because)


@claim(
    "structured-tables",
    "Structured tables all have the same size, ln N + c (and z above).",
    "section 5.2.3",
    "ln N + c",
)
def structured_tables_are_alike(aggregates: Aggregates) -> Verdict:
    """Structured tables: ln N + c entries, a whole number of them, and the same for all."""
    parts = []
    for row in _tables(aggregates, "structured", "table_entries"):
        above = 0 if row.is_root else min(row.z, row.sizes[row.community + 1])
        full = min(row.size - 1, math.log(row.size) + row.c) + above
        parts.append(Part(f"entries in {row.place}", row.interval, full - 1, full, (row,)))
    for row in _tables(aggregates, "structured", "table_deviation"):
        parts.append(at_most(f"deviation in {row.place}", row.interval, ALIKE, row))
    return all_hold(parts, "", "tables of another size") if len(parts) == 6 else NOT_MEASURED


# Reliability.


@claim(
    "reliability",
    "An event reaches everyone in each community with the probability of the formula (every draw made).",
    "section 4.5",
    "the formula, within 5 points",
)
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
    if not rows:
        return NOT_MEASURED
    parts = []
    for row in rows:
        value = formula[_place(row)]
        lost = f", {100 * row.loss:.0f} % lost" if row.loss else ""
        crashed = f", {100 * row.failed:.0f} % crashed" if row.failed else ""
        apart = Interval(row.low - value, row.interval.value - value, row.high - value)
        links = f", p_sel {row.p_sel:g}" if row.p_sel is not None else ""
        label = f"{row.mode}, {row.place}{links}{lost}{crashed}"
        parts.append(equals(label, apart, 0.0, row))
    return all_hold(parts, "within five points everywhere", _why_apart(parts))


def _why_apart(parts: list[Part]) -> str:
    above = any(part.interval.low > SHARE_MARGIN for part in parts)
    below = any(part.interval.high < -SHARE_MARGIN for part in parts)
    reasons = (
        ["more reliable: real nodes leave out whom they know to have an event"] if above else []
    )
    if below:
        reasons.append("less reliable: tables are not drawn uniformly")
    return " and ".join(reasons) or "apart from the formula"


def _place(row: Aggregate) -> tuple[object, ...]:
    """The setting, whatever ran it."""
    return dataclasses.replace(row, tier="", mode="").setting


# Figures 19 to 28.


@claim(
    "converge",
    "All three modes converge to a reception probability of 100 %.",
    "section 6.2.2, figures 19 and 20",
    "100 %",
)
def every_mode_converges(aggregates: Aggregates) -> Verdict:
    """Reception in the super-communities when every process is a link (p_sel = 1)."""
    return _everywhere(aggregates, "reception", 1.0, EVERYONE, "stays below 95 %")


@claim(
    "tenth",
    "Reliability is very high in all modes, even with p_sel = 0.1.",
    "section 6.2.2, figures 21 and 22",
    "very high",
)
def reliable_at_a_tenth(aggregates: Aggregates) -> Verdict:
    """Reliability in the super-communities with p_sel = 0.1."""
    words = f"below {100 * VERY_HIGH:.0f} %, what very high is taken for"
    return _everywhere(aggregates, "reliability", 0.1, VERY_HIGH, words)


def _everywhere(
    aggregates: Aggregates, metric: str, p_sel: float, bound: float, short: str
) -> Verdict:
    """A share is at least `bound` in every mode and super-community."""
    parts = [
        at_least(f"{mode}, {row.place}", row, bound)
        for mode in MODES
        for community in SUPER_COMMUNITIES
        if (row := at_share(aggregates, mode, metric, p_sel, community))
    ]
    if len(parts) < len(MODES) * len(SUPER_COMMUNITIES):
        return NOT_MEASURED
    return all_hold(parts, "", short)


@claim(
    "structured-first",
    "The structured mode converges first.",
    "section 6.2.2, figures 19 and 20",
    "structured ahead",
)
def structured_converges_first(aggregates: Aggregates) -> Verdict:
    """Reception in d and a, averaged over the values of p_sel: who rises earlier has more."""
    pairs = [(mode, "structured") for mode in MODES if mode != "structured"]
    return _order(aggregates, "reception", pairs)


@claim(
    "efficiency-order",
    "The more structured the mode, the more efficient.",
    "section 6.2.2, figures 23 and 24",
    "unstructured, semi-structured, structured",
)
def efficiency_by_mode(aggregates: Aggregates) -> Verdict:
    """Efficiency in d and a, averaged over the values of p_sel: more structure, more of it."""
    return _order(aggregates, "efficiency", list(pairwise(MODES)))


def _order(aggregates: Aggregates, metric: str, pairs: list[tuple[str, str]]) -> Verdict:
    """In each pair the first mode's mean over p_sel is below the second's."""
    means = _over_shares(aggregates, metric)
    parts = []
    for smaller, larger in pairs:
        low, high = means[smaller], means[larger]
        if low is None or high is None:
            return NOT_MEASURED
        parts.append(exceeds(f"{larger} over {smaller}", high, low))
    return all_hold(parts, "mean over the values of p_sel", "not ahead")


@claim(
    "latency",
    "Rounds fall as more processes forward upward.",
    "section 6.2.2, figures 25 and 26",
    "fewer rounds",
)
def latency_falls_with_links(aggregates: Aggregates) -> Verdict:
    """Rounds to the last reception in d and a, few links against all, in each mode."""
    return _falls(aggregates, "rounds")


@claim(
    "efficiency-falls",
    "More links make more duplicates: efficiency falls.",
    "section 6.2.2, figures 23 and 24",
    "falls with p_sel",
)
def efficiency_falls_with_links(aggregates: Aggregates) -> Verdict:
    """Useful receptions by all receptions in d and a, few links against all, in each mode."""
    return _falls(aggregates, "efficiency")


def _falls(aggregates: Aggregates, metric: str) -> Verdict:
    """A metric is smaller with every process a link than with the fewest, in every mode."""
    parts = []
    for mode in MODES:
        for community in SUPER_COMMUNITIES:
            rows = [r for r in published(aggregates, mode, metric) if r.community == community]
            rows = sorted((r for r in rows if r.p_sel), key=lambda row: row.p_sel or 0.0)
            # With the fewest links an event gets there in few networks, or in none.
            rows = [row for row in rows if len(row.networks) >= FEWEST] or rows
            if len(rows) > 1:
                label = f"{mode}, {rows[0].place}: p_sel {rows[0].p_sel:g} over {rows[-1].p_sel:g}"
                parts.append(exceeds(label, rows[0], rows[-1]))
    if len(parts) < len(MODES) * len(SUPER_COMMUNITIES):
        return NOT_MEASURED
    return all_hold(parts, "", "it does not fall")


@claim(
    "upward-proportional",
    "Upward messages grow in proportion to p_sel (1 is in proportion to p_sel = 1).",
    "section 6.2.2, figures 27 and 28",
    "in proportion",
)
def upward_messages_are_proportional(aggregates: Aggregates) -> Verdict:
    """Messages from g to d by p_sel, over the same with every process a link."""
    parts = []
    for mode in MODES:
        rows = [r for r in published(aggregates, mode, "messages_upward") if r.community == 0]
        every = next((row for row in rows if row.p_sel == 1), None)
        fewer = [row for row in rows if row.p_sel not in (None, 1.0)]
        if every is None or not fewer:
            return NOT_MEASURED
        for row in fewer:
            share = ratio(row, every, row.p_sel or 1.0)
            if share is not None:
                low, high = 1 - RELATIVE_MARGIN, 1 + RELATIVE_MARGIN
                label = f"{mode}, p_sel {row.p_sel:g}, of proportional"
                parts.append(Part(label, share.interval, low, high, (row, every)))
    return all_hold(parts, "", "not in proportion")
