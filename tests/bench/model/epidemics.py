"""Classical results about epidemics on random graphs, as an independent check of both tiers.

In each, a process that is reached sends once to `fanout` processes drawn uniformly. The *effective fanout* is
how many of them receive: fanout x p_succ x the proportion alive.
"""

from __future__ import annotations

import math


def effective_fanout(fanout: float, success: float, failed: float = 0.0) -> float:
    """fanout p_succ (1 - failed): the messages of one process that reach a live one."""
    return fanout * success * (1 - failed)


def extinction(fanout: int, success: float) -> float:
    """The smallest q with q = (1 - p + p q)^fanout: the event dies out near its publisher.

    `success` is p, the probability that one message reaches a live process. The limit for large N.
    """
    dies = 0.0
    for _ in range(100_000):
        following = (1 - success + success * dies) ** fanout
        if following - dies < 1e-15:
            return float(following)
        dies = following
    return dies


def everyone_reached(processes: int, mean_fanout: float) -> float:
    """exp(-n exp(-f)): the probability that no process of n is missed, for large n.

    With f = ln n + c it is exp(-exp(-c)).
    """
    return math.exp(-processes * math.exp(-mean_fanout))
