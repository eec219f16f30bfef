"""Classical results about epidemics on random graphs, as an independent check of both tiers.

In each, a process that is reached sends once to `fanout` processes drawn uniformly. The *effective
fanout* is how many of them receive: fanout x p_succ x the proportion alive.
"""

from __future__ import annotations

import math

from bench.model.checks import check_count, check_finite, check_probability


def effective_fanout(fanout: float, success: float, failed: float = 0.0) -> float:
    """fanout p_succ (1 - failed): the messages of one process that reach a live one."""
    check_count("fanout", fanout, at_least=0)
    check_probability("success", success)
    check_probability("failed", failed)
    return fanout * success * (1 - failed)


def final_size(mean_fanout: float, seeds: float = 0.0) -> float:
    """The largest R with R = 1 - exp(-f R - s): the proportion reached if the event takes off at all.

    `seeds` is s, the share of the processes that have it from elsewhere. Without them 0 for f of 1 or less,
    where no event takes off.
    """
    check_count("mean_fanout", mean_fanout, at_least=0)
    check_count("seeds", seeds, at_least=0)
    if mean_fanout <= 1 and not seeds:
        return 0.0
    reached = 1.0
    for _ in range(200):
        # Newton's step on R - 1 + exp(-f R - s), which is convex: from 1 it falls onto the largest root.
        missed = math.exp(-mean_fanout * reached - seeds)
        step = (reached - 1 + missed) / (1 - mean_fanout * missed)
        reached -= step
        if abs(step) < 1e-15:
            break
    return reached


def extinction(fanout: int, success: float) -> float:
    """The smallest q with q = (1 - p + p q)^fanout: the event dies out near its publisher.

    `success` is p, the probability that one message reaches a live process. The limit for large N.
    """
    check_count("fanout", fanout, at_least=0)
    check_probability("success", success)
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
    check_count("processes", processes)
    check_finite("mean_fanout", mean_fanout)
    return math.exp(-processes * math.exp(-mean_fanout))


def missed_probability(
    processes: int, senders: float, fanout: float, arrives: float = 1.0
) -> float:
    """(1 - f a / (n - 1))^senders: none of them has sent a message to one process that arrived.

    Each sends to f of the n - 1 others, and a message arrives with probability a. For large n, and all others
    sending, exp(-f a).
    """
    check_count("processes", processes)
    check_count("senders", senders, at_least=0)
    check_probability("arrives", arrives)
    if processes == 1:
        return 0.0
    return float((1 - min(1.0, fanout / (processes - 1)) * arrives) ** senders)
