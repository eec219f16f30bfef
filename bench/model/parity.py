"""When CAMCAST can be as reliable as an alternative, and when it then needs less memory (section 4.5.2).

All communities are alike here: x levels of N_t processes with one pit. For a given constant c of the
alternative, CAMCAST is exactly as reliable with a constant c_1 of its own, as long as c lies in the
*admissible range*; it then keeps fewer table entries as long as z stays below a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Admissible:
    """The values from `low` to `high`; at `high` itself c_1 would be infinite."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value < self.high


def broadcast_range(levels: int, pit: float) -> Admissible:
    """(a): 0 <= c <= -ln(-x ln pit)."""
    return Admissible(0.0, _minus_log(-levels * math.log(pit)))


def broadcast_constant(c: float, levels: int, pit: float) -> float:
    """(a), from equations 7 and 8: c_1 = c - ln(1 + x e^c ln pit) + ln x."""
    return c - math.log(1 + levels * math.exp(c) * math.log(pit)) + math.log(levels)


def broadcast_largest_z(c: float, levels: int, pit: float, processes: int, community: int) -> float:
    """(a): CAMCAST keeps less iff z <= ln n + ln(1 + x e^c ln pit) - ln N_t - ln x."""
    return math.log(processes) + c - math.log(community) - broadcast_constant(c, levels, pit)


def multicast_range(pit: float) -> Admissible:
    """(b): 0 <= c <= -ln(-ln pit)."""
    return broadcast_range(1, pit)


def multicast_constant(c: float, pit: float) -> float:
    """(b), from equations 9 to 11: c_1 = c - ln(1 + e^c ln pit)."""
    return c - math.log(1 + math.exp(c) * math.log(pit))


def multicast_largest_z(c: float, levels: int, pit: float, community: int) -> float:
    """(b): CAMCAST keeps less iff z <= (x - 1)(ln N_t + c) + ln(1 + e^c ln pit)."""
    return (levels - 1) * (math.log(community) + c) + c - multicast_constant(c, pit)


def hierarchical_range(levels: int, pit: float, clusters: int) -> Admissible:
    """(c): -ln(x (1 - ln pit) / (C + 1)) <= c <= -ln(-x ln pit / (C + 1))."""
    low = -math.log(levels * (1 - math.log(pit)) / (clusters + 1))
    return Admissible(low, _minus_log(-levels * math.log(pit) / (clusters + 1)))


def hierarchical_constant(c: float, levels: int, pit: float, clusters: int) -> float:
    """(c), with c1 = c2 = c: c_t = ln x + c - ln(x e^c ln pit + C + 1)."""
    inner = levels * math.exp(c) * math.log(pit) + clusters + 1
    return math.log(levels) + c - math.log(inner)


def hierarchical_largest_z(c: float, levels: int, pit: float, clusters: int) -> float:
    """(c): CAMCAST keeps less iff z <= c + ln C + ln(C + 1 + x e^c ln pit) - ln x.

    The paper takes a cluster to be as large as a community, m = N_t.
    """
    return 2 * c + math.log(clusters) - hierarchical_constant(c, levels, pit, clusters)


def _minus_log(value: float) -> float:
    return math.inf if value <= 0 else -math.log(value)
