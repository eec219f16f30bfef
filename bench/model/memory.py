"""How many table entries one process keeps: CAMCAST and the three alternatives (section 4.4)."""

from __future__ import annotations

import math

from bench.model.checks import check_count, check_finite, check_level
from bench.model.community import Community, Hierarchy


def camcast_memory(community: Community, root: bool = False) -> float:
    """ln N_t + c_t + z_t; a process of the root community has no super-topic table."""
    return community.fanout + (0 if root else community.z)


def camcast_tables(topics: int, root: bool = False) -> int:
    """Two tables for each of `topics` unrelated topics, one for the root topic alone.

    The number does not depend on how many subtopics or super-topics a topic has.
    """
    check_count("topics", topics)
    return topics if root else 2 * topics


def broadcast_memory(processes: int, c: float) -> float:
    """Alternative (a): ln n + c, n the processes of the whole system."""
    check_count("processes", processes)
    check_finite("c", c)
    return math.log(processes) + c


def multicast_memory(hierarchy: Hierarchy, level: int) -> float:
    """Alternative (b): the sum of ln N_t + c_t from the lowest topic up to that of `level`.

    `level` is an index into the hierarchy; the last one is the root, whose processes keep a table for
    every topic.
    """
    check_level(level, len(hierarchy))
    return sum(community.fanout for community in hierarchy[: level + 1])


def hierarchical_memory(clusters: int, cluster_size: float, c1: float, c2: float) -> float:
    """Alternative (c): ln m + c1 inside the cluster and ln C + c2 outside it."""
    check_count("clusters", clusters)
    check_count("cluster_size", cluster_size)
    check_finite("c1", c1)
    check_finite("c2", c2)
    return math.log(cluster_size) + c1 + math.log(clusters) + c2
