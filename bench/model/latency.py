"""How many rounds an event takes (section 4.6).

A round is the propagation of an event from one set of processes to the next. The formulas assume that
the event does pass from each community to its super-community.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.model.checks import check_count, check_finite
from overlay.errors import UsageError


def gossip_rounds(processes: float, constant: float = 0.0) -> float:
    """Equation 12: R_N = ln N / ln ln N + O(1), with `constant` for the O(1).

    Needs three processes or more, for ln ln N to be above 0; below about 16 the formula falls with N
    and says little.
    """
    check_count("processes", processes, at_least=3)
    check_finite("constant", constant)
    return math.log(processes) / math.log(math.log(processes)) + constant


def camcast_best_latency(sizes: Sequence[int], constant: float = 0.0) -> float:
    """(j - i) + R of the last community: the event climbs at once, one round a level.

    `sizes` are the communities climbed, from the publisher's, t_j, to the last, t_i.
    """
    _check(sizes)
    return len(sizes) - 1 + gossip_rounds(sizes[-1], constant)


def camcast_average_latency(sizes: Sequence[int], constant: float = 0.0) -> float:
    """The sum of R_N / 2 over the communities + (j - i): it climbs halfway through each."""
    _check(sizes)
    return sum(gossip_rounds(size, constant) / 2 for size in sizes) + len(sizes) - 1


def camcast_worst_latency(sizes: Sequence[int], constant: float = 0.0) -> float:
    """The sum of R_N over the communities + (j - i): it climbs after each is done."""
    _check(sizes)
    return sum(gossip_rounds(size, constant) for size in sizes) + len(sizes) - 1


def camcast_best_bound(sizes: Sequence[int], constant: float = 0.0) -> float:
    """x - 1 + R_(N max), the bound of the best case."""
    _check(sizes)
    return len(sizes) - 1 + group_latency(sizes, constant)


def camcast_average_bound(sizes: Sequence[int], constant: float = 0.0) -> float:
    """x (R_(N max) / 2 + 1), the bound of the average case."""
    _check(sizes)
    return len(sizes) * (group_latency(sizes, constant) / 2 + 1)


def camcast_latency_bound(sizes: Sequence[int], constant: float = 0.0) -> float:
    """x (R_(N max) + 1), the bound of the worst case; N max is the size with the largest R."""
    _check(sizes)
    return len(sizes) * (group_latency(sizes, constant) + 1)


def broadcast_latency(sizes: Sequence[int], constant: float = 0.0) -> float:
    """Alternative (a): R_n, n the processes of the whole system."""
    _check(sizes)
    return gossip_rounds(sum(sizes), constant)


def group_latency(sizes: Sequence[int], constant: float = 0.0) -> float:
    """Alternatives (b) and (c): R of the slowest community or cluster."""
    _check(sizes)
    return max(gossip_rounds(size, constant) for size in sizes)


def _check(sizes: Sequence[int]) -> None:
    if not sizes:
        raise UsageError("sizes must hold at least one community.")
