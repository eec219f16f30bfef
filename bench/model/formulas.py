"""The closed formulas of section 4: what the analysis predicts, with nothing run.

Whoever asks has parameters that were checked (bench.experiment): the formulas do not check them again.
Messages, memory, parasite events, reliability and latency. A hierarchy is a tuple of communities, from the
topic published on up to the root topic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# The parameters of one community, in the paper's symbols (sections 3.5 and 4.1).
#
# A **community** is the set of processes interested in one topic. Each of its processes keeps a *topic
# table* of processes of its own community and a *super-topic table* of processes of the
# super-community.


@dataclass(frozen=True)
class ModelCommunity:
    """One topic's processes and how they gossip; the defaults are those of the paper's simulation."""

    processes: int
    """N_t, the number of processes."""
    c: float = 5.0
    """c_t: an event is gossiped to ln N_t + c_t processes of the topic table."""
    g: float = 5.0
    """g_t, the number of processes expected to send upward; sets p_sel."""
    a: float = 1.0
    """a_t, the number of super-topic table entries expected to be sent to; sets p_a."""
    z: int = 3
    """z_t, the size of the super-topic table."""
    success: float = 0.85
    """p_succ, the probability that a message sent is received."""
    reached: float = 1.0
    """pi_t, the proportion of the community that receives the event."""

    @property
    def fanout(self) -> float:
        """ln N_t + c_t, also the size of the topic table."""
        return math.log(self.processes) + self.c

    @property
    def p_sel(self) -> float:
        """p_sel = g_t / N_t: the probability that a process sends upward."""
        return self.g / self.processes

    @property
    def p_a(self) -> float:
        """p_a = a_t / z_t: the probability that one super-topic table entry is sent to."""
        return self.a / self.z


Hierarchy = tuple[ModelCommunity, ...]
"""Communities from the topic published on, t_(x-1), up to the root topic, t_0."""


# Epidemics on random graphs: a process that is reached sends once to others drawn uniformly.


def final_size(mean_fanout: float, seeds: float = 0.0) -> float:
    """The largest R with R = 1 - exp(-f R - s): the proportion reached if the event takes off at all.

    `seeds` is s, the share of the processes that have it from elsewhere. Without them 0 for f of 1 or less,
    where no event takes off.
    """
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


def missed_probability(
    processes: int, senders: float, fanout: float, arrives: float = 1.0
) -> float:
    """(1 - f a / (n - 1))^senders: none of them has sent a message to one process that arrived.

    Each sends to f of the n - 1 others, and a message arrives with probability a. For large n, and all others
    sending, exp(-f a).
    """
    if processes == 1:
        return 0.0
    return float((1 - min(1.0, fanout / (processes - 1)) * arrives) ** senders)


# How many messages one event costs: CAMCAST and the three alternatives (section 4.3).


def gossip_messages(processes: int, c: float) -> float:
    """N (ln N + c): every process of a group receives the event and forwards it once.

    With all n processes of the system as the group: alternative (a), whoever is interested."""
    return processes * (math.log(processes) + c)


def upward_messages(community: ModelCommunity) -> float:
    """nbUpwardMsg = N p_sel p_a z p_succ: messages received by the super-community."""
    return community.processes * community.p_sel * community.p_a * community.z * community.success


def camcast_messages(hierarchy: Hierarchy) -> float:
    """Equation 1: the gossip of every community, and the upward messages of all but the root.

    The paper prints the second sum over t_(x-2) .. t_0 and says that the root sends nothing upward;
    the sum here leaves out the root, t_0.
    """
    inside = sum(gossip_messages(community.processes, community.c) for community in hierarchy)
    return inside + sum(upward_messages(community) for community in hierarchy[:-1])


def multicast_messages(hierarchy: Hierarchy) -> float:
    """Alternative (b), equation 4: the sum of N_t (ln N_t + c_t) over the hierarchy."""
    return sum(gossip_messages(community.processes, community.c) for community in hierarchy)


def hierarchical_messages(clusters: int, cluster_size: float, c1: float, c2: float) -> float:
    """Alternative (c), equation 5: C m (c1 + c2 + ln C + ln m).

    `clusters` is C and `cluster_size` is m; every process gossips to both of its tables.
    """
    return clusters * cluster_size * (c1 + c2 + math.log(clusters) + math.log(cluster_size))


# How many table entries one process keeps: CAMCAST and the three alternatives (section 4.4).


def camcast_memory(community: ModelCommunity, root: bool = False) -> float:
    """ln N_t + c_t + z_t; a process of the root community has no super-topic table."""
    return community.fanout + (0 if root else community.z)


def broadcast_memory(processes: int, c: float) -> float:
    """Alternative (a): ln n + c, n the processes of the whole system."""
    return math.log(processes) + c


def multicast_memory(hierarchy: Hierarchy, level: int) -> float:
    """Alternative (b): the sum of ln N_t + c_t from the lowest topic up to that of `level`.

    `level` is an index into the hierarchy; the last one is the root, whose processes keep a table for
    every topic.
    """
    return sum(community.fanout for community in hierarchy[: level + 1])


def hierarchical_memory(clusters: int, cluster_size: float, c1: float, c2: float) -> float:
    """Alternative (c): ln m + c1 inside the cluster and ln C + c2 outside it."""
    return math.log(cluster_size) + c1 + math.log(clusters) + c2


# Parasite events: what processes receive and are not interested in (sections 1.2 and 6.1.2).
#
# Every reception counts, duplicates too. CAMCAST and gossip multicast have none by construction.


def broadcast_parasites(processes: int, interested: int, c: float, success: float) -> float:
    """Alternative (a): floor(ln n + c) p_succ (n - interested).

    Everyone forwards to floor(ln n + c) processes, the integer that the paper's simulator took: its
    table 2 follows from this formula to within 0.1 %.
    """
    return math.floor(math.log(processes) + c) * success * (processes - interested)


def hierarchical_parasites(
    clusters: int, cluster_size: int, interested: int, c1: float, c2: float, success: float
) -> float:
    """Alternative (c): (floor(ln m + c1) + floor(ln C + c2)) p_succ (C m - interested)."""
    inside = broadcast_parasites(cluster_size, 0, c1, success) / cluster_size
    across = broadcast_parasites(clusters, 0, c2, success) / clusters
    total = clusters * cluster_size
    return (inside + across) * (total - interested)


# The probability that *every* interested process receives an event (section 4.5).


def gossip_reliability(c: float) -> float:
    """exp(-exp(-c)): the limit for large N of gossip to ln N + c processes each; also alternative (a)."""
    return math.exp(-math.exp(-c))


def susceptible_processes(community: ModelCommunity) -> float:
    """nbSuscProc = N p_sel pi: the processes expected to send the event upward."""
    return community.processes * community.p_sel * community.reached


def no_upward_probability(community: ModelCommunity) -> float:
    """pbNoUpwardMsg = (1 - p_succ)^(nbSuscProc p_a z)."""
    messages = susceptible_processes(community) * community.p_a * community.z
    return float((1 - community.success) ** messages)


def passing_probability(community: ModelCommunity) -> float:
    """Equation 6, pit = 1 - pbNoUpwardMsg: the event passes on to the super-community.

    It takes the number of upward messages at its mean. That number varies from event to event, so
    `drawn_passing_probability` is smaller, and it is what a run of the algorithm shows.
    """
    return 1 - no_upward_probability(community)


def drawn_passing_probability(community: ModelCommunity) -> float:
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
    on its way past t_j needs.
    """
    passed = hierarchy[: level + 1]
    return math.prod(gossip_reliability(t.c) * passing_probability(t) for t in passed)


def multicast_reliability(hierarchy: Hierarchy, level: int) -> float:
    """Alternative (b): the product over t_(x-1) .. t_j of exp(-exp(-c_t))."""
    return math.prod(gossip_reliability(t.c) for t in hierarchy[: level + 1])


def hierarchical_reliability(clusters: int, c1: float, c2: float) -> float:
    """Alternative (c): exp(-C exp(-c1) - exp(-c2))."""
    return math.exp(-clusters * math.exp(-c1) - math.exp(-c2))


# How many rounds an event takes (section 4.6).
#
# A round is the propagation of an event from one set of processes to the next. The formulas assume that
# the event does pass from each community to its super-community.


def gossip_rounds(processes: float) -> float:
    """Equation 12: R_N = ln N / ln ln N, without its O(1).

    Needs three processes or more, for ln ln N to be above 0; below about 16 the formula falls with N
    and says little.
    """
    return math.log(processes) / math.log(math.log(processes))


def camcast_best_latency(sizes: Sequence[int]) -> float:
    """(j - i) + R of the last community: the event climbs at once, one round a level.

    `sizes` are the communities climbed, from the publisher's, t_j, to the last, t_i.
    """
    return len(sizes) - 1 + gossip_rounds(sizes[-1])


def camcast_average_latency(sizes: Sequence[int]) -> float:
    """The sum of R_N / 2 over the communities + (j - i): it climbs halfway through each."""
    return sum(gossip_rounds(size) / 2 for size in sizes) + len(sizes) - 1


def camcast_worst_latency(sizes: Sequence[int]) -> float:
    """The sum of R_N over the communities + (j - i): it climbs after each is done."""
    return sum(gossip_rounds(size) for size in sizes) + len(sizes) - 1


def camcast_best_bound(sizes: Sequence[int]) -> float:
    """x - 1 + R_(N max), the bound of the best case."""
    return len(sizes) - 1 + group_latency(sizes)


def camcast_average_bound(sizes: Sequence[int]) -> float:
    """x (R_(N max) / 2 + 1), the bound of the average case."""
    return len(sizes) * (group_latency(sizes) / 2 + 1)


def camcast_latency_bound(sizes: Sequence[int]) -> float:
    """x (R_(N max) + 1), the bound of the worst case; N max is the size with the largest R."""
    return len(sizes) * (group_latency(sizes) + 1)


def broadcast_latency(sizes: Sequence[int]) -> float:
    """Alternative (a): R_n, n the processes of the whole system."""
    return gossip_rounds(sum(sizes))


def group_latency(sizes: Sequence[int]) -> float:
    """Alternatives (b) and (c): R of the slowest community or cluster."""
    return max(gossip_rounds(size) for size in sizes)


# When CAMCAST can be as reliable as an alternative, and when it then needs less memory (section 4.5.2).
#
# All communities are alike here: x levels of N_t processes with one pit. For a given constant c of the
# alternative, CAMCAST is exactly as reliable with a constant c_1 of its own, as long as c lies in the
# *admissible range*; it then keeps fewer table entries as long as z stays below a bound.


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


# PMcast, which the paper's tables name without formulas: a regular tree of delegates (its reference [22]).
#
# n = a^d processes stand in a tree of depth d whose subgroups have a members each; R delegates of a subgroup
# stand for it one level up. An event is gossiped from the root down, at each depth only among delegates that
# have somebody interested below them. So processes that are not interested handle events only as delegates.


@dataclass(frozen=True)
class DelegateTree:
    """The shape of the tree and how it gossips."""

    arity: int
    """a, members of a subgroup."""
    depth: int
    """d, levels of subgroups."""
    delegates: int
    """R, delegates of a subgroup."""
    fanout: float
    """F, processes that one gossips to in a round."""

    def interested_share(self, depth: int, interested: float) -> float:
        """p_i = 1 - (1 - p)^(a^(d - i)): a subtree at depth i has somebody interested."""
        return float(1 - (1 - interested) ** (self.arity ** (self.depth - depth)))

    def view_size(self, depth: int) -> int:
        """R a delegates at an inner depth, a processes at the last."""
        return self.arity if depth == self.depth else self.delegates * self.arity


def pmcast_memory(tree: DelegateTree) -> int:
    """R a (d - 1) + a: the processes that one knows."""
    return sum(tree.view_size(depth) for depth in range(1, tree.depth + 1))


def pushed_rounds(processes: float, fanout: float) -> float:
    """Pittel: ln n (1 / F + 1 / ln(F + 1)), without its O(1), where everyone keeps gossiping to F a round."""
    return math.log(processes) * (1 / fanout + 1 / math.log(fanout + 1))


def pmcast_rounds(tree: DelegateTree, interested: float, success: float) -> float:
    """The sum over the depths of Pittel's rounds among those interested.

    At depth i they are a share p_i of the view, and of the fanout F p_i p_succ takes effect.
    """
    total = 0.0
    for depth in range(1, tree.depth + 1):
        share = tree.interested_share(depth, interested)
        concerned, effective = tree.view_size(depth) * share, tree.fanout * share * success
        if concerned > 1 and effective > 0:
            total += pushed_rounds(concerned, effective)
    return total


def pmcast_uninterested(tree: DelegateTree, interested: float) -> float:
    """Processes that handle the event as delegates alone: a^(d - 1) p_(d - 1) R (1 - p).

    The delegates of the lowest subgroups; those of higher ones are taken from among them.
    """
    if tree.depth == 1:
        return 0.0
    subgroups = tree.arity ** (tree.depth - 1)
    share = tree.interested_share(tree.depth - 1, interested)
    return float(subgroups * share * tree.delegates * (1 - interested))


ASSUMED_DEPTH, ASSUMED_DELEGATES, ASSUMED_FANOUT = 2, 2, 5.0
"""CAMCAST's paper prints PMcast's numbers without its parameters; with these, rounds come near table 1's."""


def assumed_tree(processes: int) -> DelegateTree:
    """The smallest tree of two levels that holds this many processes, with two delegates and a fanout of
    five."""
    arity = max(ASSUMED_DELEGATES, math.ceil(processes ** (1 / ASSUMED_DEPTH)))
    return DelegateTree(arity, ASSUMED_DEPTH, ASSUMED_DELEGATES, ASSUMED_FANOUT)
