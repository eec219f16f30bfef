"""The evidence for what the paper says of crashes and of weakly consistent views (section 6.1)."""

from __future__ import annotations

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import IN_PART, NOT_MEASURED, Verdict
from bench.claims.comparison import all_hold, at_least, below, percent, with_interval
from bench.claims.lookup import by_community, simulated
from bench.intervals import Interval
from bench.suites.settings import SIMULATED

STILLBORN = {"figure": "figures-13-16", "sizes": SIMULATED["sizes"]}
WEAK = {"figure": "figures-17-18", "sizes": SIMULATED["sizes"]}
ALMOST_HALF = (0.4, 0.5)
ALWAYS = 0.99
"""What a share that is always 1 is held against."""


def degradation_at_thirty_percent(aggregates: Aggregates) -> Verdict:
    """Reception of CAMCAST against gossip broadcast with 30 % crashed, in each community and together."""
    shared = {**STILLBORN, "metric": "reception", "failed": 0.3}
    ours = by_community(simulated(aggregates, protocol="camcast", **shared))
    other = by_community(simulated(aggregates, protocol="broadcast", **shared))
    if set(ours) != set(other) or len(ours) < len(SIMULATED["sizes"]) + 1:
        return NOT_MEASURED
    lost = {level: _points_lost(ours[level], other[level]) for level in sorted(ours)}
    words = "; ".join(f"{ours[level].place}: {_points(lost[level])}" for level in lost)
    if all(each.high <= 5 for each in lost.values()):
        return Verdict(True, words)
    if lost[WHOLE].low > 5:
        return Verdict(False, words, "over all processes, more than five points are lost")
    more = [ours[level].place for level in lost if lost[level].low > 5 and level != WHOLE]
    if lost[WHOLE].high <= 5 and more:
        because = (
            f"five points or fewer over all processes, of whom most are in {ours[0].place}; more in "
            f"{' and '.join(more)}: an event has to be passed on to get there"
        )
        return Verdict(None, words, because, IN_PART)
    return Verdict(None, words, "an interval covers five points: more repetitions may decide")


def _points_lost(ours: Aggregate, other: Aggregate) -> Interval:
    bounds = (other.low - ours.high, other.value - ours.value, other.high - ours.low)
    return Interval(*(100 * bound for bound in bounds))


def _points(lost: Interval) -> str:
    return f"{lost.value:.1f} points [{lost.low:.1f}, {lost.high:.1f}]"


def upward_messages_at_half(aggregates: Aggregates) -> Verdict:
    """The mean number of messages that leave a community upward with almost half crashed."""
    rows = _leaving(aggregates, "messages_upward")
    if rows is None:
        return NOT_MEASURED
    holds = all_hold(at_least(row.interval, 1) for row in rows)
    because = {
        True: "on average, which is what figure 14 shows",
        False: "fewer than one on average somewhere",
        None: "an interval covers one message: more repetitions may decide",
    }
    ours = "; ".join(f"{_where(row)}: {with_interval(row.interval)}" for row in rows)
    return Verdict(holds, ours, because[holds])


def upward_in_every_event(aggregates: Aggregates) -> Verdict:
    """The share of events of which at least one message leaves a community upward."""
    rows = _leaving(aggregates, "climbing")
    if rows is None:
        return NOT_MEASURED
    holds = all_hold(at_least(row.interval, ALWAYS) for row in rows)
    because = {
        True: "",
        False: "the mean is above one, but often nobody is drawn to be a link",
        None: f"an interval covers {100 * ALWAYS:.0f} %: more repetitions may decide",
    }
    ours = "; ".join(f"{_where(row)}: {percent(row.interval)}" for row in rows)
    return Verdict(holds, ours, because[holds])


def _leaving(aggregates: Aggregates, metric: str) -> list[Aggregate] | None:
    """The rows of the communities below the root at 40 and 50 %; None where one is missing."""
    rows = []
    for failed in ALMOST_HALF:
        found = by_community(
            simulated(aggregates, protocol="camcast", metric=metric, failed=failed, **STILLBORN)
        )
        rows += [found[level] for level in (0, 1) if level in found]
    return rows if len(rows) == 2 * len(ALMOST_HALF) else None


def _where(row: Aggregate) -> str:
    return f"{row.place} at {100 * row.failed:.0f} %"


def weak_beats_stillborn(aggregates: Aggregates) -> Verdict:
    """Reliability with 30 % failed, weakly consistent views against stillborn processes."""
    shared = {"protocol": "camcast", "metric": "reliability", "failed": 0.3}
    weak = by_community(simulated(aggregates, **WEAK, **shared))
    still = by_community(simulated(aggregates, **STILLBORN, **shared))
    levels = range(len(SIMULATED["sizes"]))
    if not all(level in weak and level in still for level in levels):
        return NOT_MEASURED
    outcomes = [below(still[level].interval, weak[level].interval) for level in levels]
    ours = "; ".join(
        f"{weak[level].place}: {percent(weak[level].interval)} against {percent(still[level].interval)}"
        for level in levels
    )
    holds = all_hold(outcomes)
    worse = [weak[level].place for level in levels if outcomes[level] is False]
    if holds is False and True in outcomes:
        because = (
            f"worse in {' and '.join(worse)}, where nobody is down and so more are to be reached"
        )
        return Verdict(None, ours, because, IN_PART)
    reasons = {True: "", False: f"worse in {' and '.join(worse)}", None: "intervals overlap"}
    return Verdict(holds, ours, reasons[holds])
