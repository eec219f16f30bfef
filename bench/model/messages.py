"""How many messages one event costs: CAMCAST and the three alternatives (section 4.3)."""

from __future__ import annotations

import math

from bench.model.checks import check_count, check_finite
from bench.model.community import Community, Hierarchy, check_hierarchy, largest


def gossip_messages(processes: int, c: float) -> float:
    """N (ln N + c): every process of a group receives the event and forwards it once."""
    check_count("processes", processes)
    check_finite("c", c)
    return processes * (math.log(processes) + c)


def upward_messages(community: Community) -> float:
    """nbUpwardMsg = N p_sel p_a z p_succ: messages received by the super-community."""
    return community.processes * community.p_sel * community.p_a * community.z * community.success


def camcast_messages(hierarchy: Hierarchy) -> float:
    """Equation 1: the gossip of every community, and the upward messages of all but the root.

    The paper prints the second sum over t_(x-2) .. t_0 and says that the root sends nothing upward;
    the sum here leaves out the root, t_0.
    """
    check_hierarchy(hierarchy)
    inside = sum(gossip_messages(community.processes, community.c) for community in hierarchy)
    return inside + sum(upward_messages(community) for community in hierarchy[:-1])


def camcast_bound(hierarchy: Hierarchy) -> float:
    """Equation 2: x N (ln N + c) + x N ln N z, each symbol the largest in the hierarchy.

    Every process sends upward and to its whole super-topic table. Bounds equation 1 from N = 3 on,
    where ln N > 1.
    """
    count = largest(hierarchy)
    c = max(community.c for community in hierarchy)
    z = max(community.z for community in hierarchy)
    return len(hierarchy) * (gossip_messages(count, c) + count * math.log(count) * z)


def camcast_loose_bound(hierarchy: Hierarchy) -> float:
    """Equation 3: x N ln N (1 + c + z), which is O(N ln N) for a bounded depth x.

    Bounds equation 2 from N = 3 on, for c of 0 or more.
    """
    count = largest(hierarchy)
    c = max(community.c for community in hierarchy)
    z = max(community.z for community in hierarchy)
    return len(hierarchy) * count * math.log(count) * (1 + c + z)


def broadcast_messages(processes: int, c: float) -> float:
    """Alternative (a): n (ln n + c), whoever is interested."""
    return gossip_messages(processes, c)


def multicast_messages(hierarchy: Hierarchy) -> float:
    """Alternative (b), equation 4: the sum of N_t (ln N_t + c_t) over the hierarchy."""
    check_hierarchy(hierarchy)
    return sum(gossip_messages(community.processes, community.c) for community in hierarchy)


def multicast_bound(hierarchy: Hierarchy) -> float:
    """Alternative (b): x N (ln N + c), each symbol the largest in the hierarchy."""
    c = max(community.c for community in hierarchy)
    return len(hierarchy) * gossip_messages(largest(hierarchy), c)


def hierarchical_messages(clusters: int, cluster_size: float, c1: float, c2: float) -> float:
    """Alternative (c), equation 5: C m (c1 + c2 + ln C + ln m).

    `clusters` is C and `cluster_size` is m; every process gossips to both of its tables.
    """
    check_count("clusters", clusters)
    check_count("cluster_size", cluster_size)
    check_finite("c1", c1)
    check_finite("c2", c2)
    return clusters * cluster_size * (c1 + c2 + math.log(clusters) + math.log(cluster_size))
