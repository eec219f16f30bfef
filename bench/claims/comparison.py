"""How values with intervals are held against a number and against each other, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.aggregates import Aggregate
from bench.intervals import Interval

FEWEST_NETWORKS = 5
"""Tables differ from network to network: fewer of them decide nothing of real nodes."""


def at_least(interval: Interval, bound: float) -> bool | None:
    """The value is at least `bound`; None where the interval covers both answers."""
    if interval.low >= bound:
        return True
    return False if interval.high < bound else None


def below(smaller: Interval, larger: Interval) -> bool | None:
    """One value lies below the other; None where their intervals overlap."""
    if smaller.high < larger.low:
        return True
    return False if smaller.low > larger.high else None


def all_hold(outcomes: Iterable[bool | None]) -> bool | None:
    """False when one is false, True when all are true."""
    found = list(outcomes)
    if False in found:
        return False
    return None if None in found else True


def too_few_networks(rows: Iterable[Aggregate]) -> str:
    """Why rows of real nodes decide nothing, or nothing."""
    fewest = min(row.networks for row in rows)
    if fewest >= FEWEST_NETWORKS:
        return ""
    return (
        f"from {fewest} network{'s' if fewest > 1 else ''} a mode, where at least {FEWEST_NETWORKS} "
        "are needed: camcast bench run paper"
    )


def averaged(rows: Sequence[Aggregate]) -> Interval:
    """The mean of several values, with bounds that hold however they depend on each other."""
    lows, values, highs = zip(*((row.low, row.value, row.high) for row in rows), strict=True)
    return Interval(*(sum(column) / len(rows) for column in (lows, values, highs)))


def percent(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def with_interval(interval: Interval) -> str:
    low, value, high = (number(one) for one in (interval.low, interval.value, interval.high))
    return f"{value} [{low}, {high}]"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def listed(parts: Iterable[str], most: int = 3) -> str:
    """The first few, and how many more there are."""
    found = list(parts)
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return "; ".join(found[:most] + more)
