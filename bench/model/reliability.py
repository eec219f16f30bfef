"""The probability that *every* interested process receives an event (section 4.5)."""

from __future__ import annotations

import math

from bench.model.checks import check_count, check_finite, check_level
from bench.model.community import Community, Hierarchy


def gossip_reliability(c: float) -> float:
    """exp(-exp(-c)): the limit for large N of gossip to ln N + c processes each."""
    check_finite("c", c)
    return math.exp(-math.exp(-c))


def susceptible_processes(community: Community) -> float:
    """nbSuscProc = N p_sel pi: the processes expected to send the event upward."""
    return community.processes * community.p_sel * community.reached


def no_upward_probability(community: Community) -> float:
    """pbNoUpwardMsg = (1 - p_succ)^(nbSuscProc p_a z)."""
    messages = susceptible_processes(community) * community.p_a * community.z
    return float((1 - community.success) ** messages)


def passing_probability(community: Community) -> float:
    """Equation 6, pit = 1 - pbNoUpwardMsg: the event passes on to the super-community.

    It takes the number of upward messages at its mean. That number varies from event to event, so
    `drawn_passing_probability` is smaller, and it is what a run of the algorithm shows.
    """
    return 1 - no_upward_probability(community)


def drawn_passing_probability(community: Community) -> float:
    """1 - (1 - p_sel (1 - (1 - p_a p_succ)^z))^(N pi): equation 6 with every draw made.

    Each process reached decides with p_sel to send upward, and then for each of its z entries with
    p_a to send to it; each message arrives with p_succ.
    """
    none_of_mine = (1 - community.p_a * community.success) ** community.z
    silent = 1 - community.p_sel * (1 - none_of_mine)
    return float(1 - silent ** (community.processes * community.reached))


def camcast_reliability(hierarchy: Hierarchy, level: int) -> float:
    """The product over t_(x-1) .. t_j of exp(-exp(-c_t)) pit_t.

    `level` is the index of t_j. The paper's product takes in pit of t_j itself, which only an event
    on its way past t_j needs: for the probability that t_j is reached, see `reaching_reliability`.
    """
    check_level(level, len(hierarchy))
    passed = hierarchy[: level + 1]
    return math.prod(gossip_reliability(t.c) * passing_probability(t) for t in passed)


def reaching_reliability(hierarchy: Hierarchy, level: int) -> float:
    """The same product without the last pit: every process up to community `level` is reached."""
    check_level(level, len(hierarchy))
    inside = math.prod(gossip_reliability(t.c) for t in hierarchy[: level + 1])
    return inside * math.prod(passing_probability(t) for t in hierarchy[:level])


def broadcast_reliability(c: float) -> float:
    """Alternative (a): exp(-exp(-c))."""
    return gossip_reliability(c)


def multicast_reliability(hierarchy: Hierarchy, level: int) -> float:
    """Alternative (b): the product over t_(x-1) .. t_j of exp(-exp(-c_t))."""
    check_level(level, len(hierarchy))
    return math.prod(gossip_reliability(t.c) for t in hierarchy[: level + 1])


def hierarchical_reliability(clusters: int, c1: float, c2: float) -> float:
    """Alternative (c): exp(-C exp(-c1) - exp(-c2))."""
    check_count("clusters", clusters)
    check_finite("c1", c1)
    check_finite("c2", c2)
    return math.exp(-clusters * math.exp(-c1) - math.exp(-c2))
