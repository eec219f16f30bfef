"""Parasite events: what processes receive and are not interested in (sections 1.2 and 6.1.2).

Every reception counts, duplicates too. CAMCAST and gossip multicast have none by construction.
"""

from __future__ import annotations

import math

from bench.model.checks import check_finite, check_probability
from overlay.errors import UsageError


def broadcast_parasites(processes: int, interested: int, c: float, success: float) -> float:
    """Alternative (a): floor(ln n + c) p_succ (n - interested).

    Everyone forwards to floor(ln n + c) processes, the integer that the paper's simulator took: its
    table 2 follows from this formula to within 0.1 %.
    """
    if not 0 <= interested <= processes or processes < 1:
        raise UsageError(f"interested must be between 0 and {processes}, not {interested!r}.")
    check_finite("c", c)
    check_probability("success", success)
    return math.floor(math.log(processes) + c) * success * (processes - interested)


def hierarchical_parasites(
    clusters: int, cluster_size: int, interested: int, c1: float, c2: float, success: float
) -> float:
    """Alternative (c): (floor(ln m + c1) + floor(ln C + c2)) p_succ (C m - interested)."""
    inside = broadcast_parasites(cluster_size, 0, c1, success) / cluster_size
    across = broadcast_parasites(clusters, 0, c2, success) / clusters
    total = clusters * cluster_size
    if not 0 <= interested <= total:
        raise UsageError(f"interested must be between 0 and {total}, not {interested!r}.")
    return (inside + across) * (total - interested)
