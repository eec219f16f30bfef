"""The evidence for figures 19 to 28: the modes as more processes act as links (section 6.2)."""

from __future__ import annotations

from itertools import pairwise

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import NOT_MEASURED, NOT_REFUTED, Verdict
from bench.claims.comparison import (
    FEWEST_NETWORKS,
    all_hold,
    at_least,
    averaged,
    below,
    listed,
    percent,
    too_few_networks,
    with_interval,
)
from bench.claims.lookup import SUPER_COMMUNITIES, at_share, over_shares, real
from bench.intervals import Interval
from bench.model.printed import PrintedSetting
from bench.suites.settings import MODES

SEVEN_PERCENT = 0.07
SURE = 0.95
"""Where an interval that reaches 100 % begins, if there are enough events to believe it."""
EVERYONE = 0.99
"""What a reception of 100 % is held against."""
VERY_HIGH = 0.9
"""What `very high` is taken for."""
PROPORTIONAL = 0.1
"""How far from proportional the numbers of upward messages may be."""


def reliable_with_seven_percent(aggregates: Aggregates) -> Verdict:
    """Reliability over all three communities with p_sel = 0.07, for each mode, live beside emulated."""
    rows = [_seven(aggregates, mode) for mode in MODES]
    found = [row for row in rows if row is not None]
    if len(found) < len(MODES):
        return NOT_MEASURED
    live = [_seven(aggregates, mode, "live") for mode in MODES]
    ours = "; ".join(
        f"{row.mode} {percent(row.interval)}"
        + (f", live {percent(beside.interval)}" if beside else "")
        for row, beside in zip(found, live, strict=True)
    )
    if few := too_few_networks(found):
        return Verdict(None, ours, few)
    sure = [row.mode for row in found if row.value == 1 and row.low >= SURE]
    if sure:
        return Verdict(True, ours, f"with {' and '.join(sure)}")
    open_yet = [row.mode for row in found if row.high >= EVERYONE]
    if open_yet:
        because = f"too few events to tell whether {' or '.join(open_yet)} always reaches everyone"
        return Verdict(None, ours, because)
    return Verdict(False, ours, f"no mode reaches everyone in every event{_by_the_paper(found[0])}")


def _seven(aggregates: Aggregates, mode: str, tier: str = "emulate") -> Aggregate | None:
    return at_share(aggregates, mode, "reliability", SEVEN_PERCENT, WHOLE, tier)


def _by_the_paper(row: Aggregate) -> str:
    """What the paper's own formula says of the root, which is the worst case."""
    setting = PrintedSetting(
        sizes=row.sizes,
        c=row.c,
        g=row.g,
        p_sel=row.p_sel,
        a=row.a,
        z=row.z,
        loss=row.loss,
        failed=0.0,
    )
    value = setting.in_community("reliability", len(row.sizes) - 1)
    assert value is not None
    return f"; the paper's formula gives {100 * value:.1f} % for the root with its c = {row.c:g}"


def every_mode_converges(aggregates: Aggregates) -> Verdict:
    """Reception in the super-communities when every process is a link (p_sel = 1)."""
    return _everywhere(aggregates, "reception", 1.0, EVERYONE, "stays below 100 %")


def reliable_at_a_tenth(aggregates: Aggregates) -> Verdict:
    """Reliability in the super-communities with p_sel = 0.1."""
    words = f"is below {100 * VERY_HIGH:.0f} %, what very high is taken for here"
    return _everywhere(aggregates, "reliability", 0.1, VERY_HIGH, words)


def _everywhere(
    aggregates: Aggregates, metric: str, p_sel: float, bound: float, short: str
) -> Verdict:
    """A share is at least `bound` in every mode and super-community."""
    rows = [
        row
        for mode in MODES
        for community in SUPER_COMMUNITIES
        if (row := at_share(aggregates, mode, metric, p_sel, community))
    ]
    if len(rows) < len(MODES) * len(SUPER_COMMUNITIES):
        return NOT_MEASURED
    worst = min(rows, key=lambda row: row.value)
    ours = f"at least {percent(worst.interval)} ({worst.mode}, {worst.place})"
    if few := too_few_networks(rows):
        return Verdict(None, ours, few)
    holds = all_hold(at_least(row.interval, bound) for row in rows)
    low = [f"{row.mode}, {row.place}" for row in rows if row.high < bound]
    unsure = [f"{row.mode}, {row.place}" for row in rows if row.low < bound <= row.high]
    because = {
        True: "",
        False: f"{listed(low)} {short}",
        None: f"the interval covers {100 * bound:.0f} %: {listed(unsure)}",
    }
    return Verdict(holds, ours, because[holds])


def structured_converges_first(aggregates: Aggregates) -> Verdict:
    """Reception in d and a, averaged over the values of p_sel: who rises earlier has more."""
    pairs = [(mode, "structured") for mode in MODES if mode != "structured"]
    return _order(aggregates, "reception", pairs)


def efficiency_by_mode(aggregates: Aggregates) -> Verdict:
    """Efficiency in d and a, averaged over the values of p_sel: more structure, more of it."""
    return _order(aggregates, "efficiency", list(pairwise(MODES)))


def _order(aggregates: Aggregates, metric: str, pairs: list[tuple[str, str]]) -> Verdict:
    """In each pair the first mode's mean over p_sel is below the second's."""
    rows = over_shares(aggregates, metric)
    if not all(rows.values()):
        return NOT_MEASURED
    means = {mode: averaged(own) for mode, own in rows.items()}
    shares = sorted({row.p_sel for row in rows[MODES[0]] if row.p_sel})
    ours = "; ".join(f"{mode} {percent(mean)}" for mode, mean in means.items())
    ours += f" (mean over p_sel {', '.join(f'{share:g}' for share in shares)})"
    if few := too_few_networks(row for own in rows.values() for row in own):
        return Verdict(None, ours, few)
    outcomes = {pair: below(means[pair[0]], means[pair[1]]) for pair in pairs}
    holds = all_hold(outcomes.values())
    behind = [
        f"{second} is behind {first}" for (first, second), it in outcomes.items() if it is False
    ]
    unsure = [f"{first} and {second}" for (first, second), it in outcomes.items() if it is None]
    because = {
        True: "",
        False: listed(behind),
        None: f"the intervals overlap: {listed(unsure)}",
    }
    return Verdict(holds, ours, because[holds])


def latency_falls_with_links(aggregates: Aggregates) -> Verdict:
    """Rounds to the last reception in d and a, few links against all, in each mode."""
    return _falls(aggregates, "rounds")


def efficiency_falls_with_links(aggregates: Aggregates) -> Verdict:
    """Useful receptions by all receptions in d and a, few links against all, in each mode."""
    return _falls(aggregates, "efficiency")


def _falls(aggregates: Aggregates, metric: str) -> Verdict:
    """A metric is smaller with every process a link than with the fewest, in every mode."""
    ends = []
    for mode in MODES:
        for community in SUPER_COMMUNITIES:
            rows = [
                r for r in real(aggregates, mode, metric) if r.community == community and r.p_sel
            ]
            rows.sort(key=lambda row: row.p_sel or 0.0)
            # With the fewest links an event gets there in few networks, or in none.
            rows = [row for row in rows if row.networks >= FEWEST_NETWORKS] or rows
            if len(rows) > 1:
                ends.append((rows[0], rows[-1]))
    if len(ends) < len(MODES) * len(SUPER_COMMUNITIES):
        return NOT_MEASURED
    ours = "; ".join(
        f"{few.mode}, {few.place}: {with_interval(few.interval)} to {with_interval(every.interval)}"
        for few, every in ends
    )
    if scarce := too_few_networks(row for pair in ends for row in pair):
        return Verdict(None, ours, scarce)
    outcomes = [below(every.interval, few.interval) for few, every in ends]
    holds = all_hold(outcomes)
    names = [f"{few.mode}, {few.place}" for few, _ in ends]
    rises = [name for name, it in zip(names, outcomes, strict=True) if it is False]
    unsure = [name for name, it in zip(names, outcomes, strict=True) if it is None]
    because = {
        True: "",
        False: f"it rises: {listed(rises)}",
        None: f"the intervals overlap: {listed(unsure)}",
    }
    return Verdict(holds, ours, because[holds])


def upward_messages_are_proportional(aggregates: Aggregates) -> Verdict:
    """Messages from g to d by p_sel, over the same with every process a link."""
    found = []
    for mode in MODES:
        rows = [
            r for r in real(aggregates, mode, "messages_upward") if r.community == 0 and r.p_sel
        ]
        every = next((row for row in rows if row.p_sel == 1), None)
        # Where no event went up there is no spread to judge by.
        fewer = [row for row in rows if row.p_sel != 1 and row.low < row.high]
        if every is None or not fewer:
            return NOT_MEASURED
        found += [(row, _by_share(row, every)) for row in fewer]
    ours = "; ".join(
        f"{row.mode}, p_sel {row.p_sel:g}: {with_interval(ratio)}" for row, ratio in found
    )
    if few := too_few_networks(row for row, _ in found):
        return Verdict(None, ours, few)
    off = [
        f"{row.mode}, p_sel {row.p_sel:g}"
        for row, ratio in found
        if ratio.low > 1 + PROPORTIONAL or ratio.high < 1 - PROPORTIONAL
    ]
    if off:
        return Verdict(False, ours, f"not proportional: {listed(off)}")
    return Verdict(True, ours, "1 is in proportion", NOT_REFUTED)


def _by_share(row: Aggregate, every: Aggregate) -> Interval:
    assert row.p_sel is not None
    return Interval(
        row.low / row.p_sel / max(every.high, 1e-9),
        row.value / row.p_sel / max(every.value, 1e-9),
        row.high / row.p_sel / max(every.low, 1e-9),
    )
