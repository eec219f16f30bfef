"""The paper's own equations and printed values, beside which results are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from bench.model.formulas import (
    Hierarchy,
    ModelCommunity,
    broadcast_latency,
    broadcast_memory,
    camcast_average_latency,
    camcast_memory,
    camcast_reliability,
    gossip_messages,
    gossip_reliability,
    group_latency,
    hierarchical_memory,
    hierarchical_messages,
    hierarchical_reliability,
    multicast_memory,
    multicast_messages,
    multicast_reliability,
    passing_probability,
    upward_messages,
)

# What the paper's own equations give for a setting, and nothing but these (sections 4.3 to 4.6).
#
# p_succ is (1 - loss)(1 - failed), as section 4.3.1 has it depend on availability and links; pi is the share
# of the processes that is up. No equation takes account of what is lost inside a community.


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedSetting:
    """The parameters that the paper's equations know; `sizes` from the publisher's community up."""

    sizes: tuple[int, ...]
    c: float
    g: float
    p_sel: float | None
    a: float
    z: int
    loss: float
    failed: float
    """Of the processes, or of the entries of each table where views are weakly consistent."""
    pi: float = 1.0
    """The share of a community that receives the event, where the event gets there."""

    @property
    def hierarchy(self) -> Hierarchy:
        """The communities in the paper's symbols."""
        success = (1 - self.loss) * (1 - self.failed)
        return tuple(
            ModelCommunity(size, self.c, self._links(size), self.a, self.z, success, self.pi)
            for size in self.sizes
        )

    def _links(self, size: int) -> float:
        return min(self.g, size) if self.p_sel is None else self.p_sel * size

    @property
    def pit(self) -> float:
        """The smallest pit of the communities below the root; 1 where there is none."""
        return min((passing_probability(one) for one in self.hierarchy[:-1]), default=1.0)

    def in_community(self, metric: str, level: int) -> float | None:
        """Reliability by the product of section 4.5.1, messages by 4.3.1; None where there is no equation."""
        community = self.hierarchy[level]
        if metric == "reliability":
            return camcast_reliability(self.hierarchy, level)
        if metric == "messages_inside":
            return gossip_messages(community.processes, community.c)
        if metric == "messages_upward":
            return upward_messages(community)
        return None

    def all_together(self, protocol: str, system: int, clusters: int) -> dict[str, float]:
        """The metrics of a whole system of `system` processes; alternative (c) has `clusters` clusters."""
        if protocol == "broadcast":
            return self._broadcast(system)
        if protocol == "hierarchical":
            return self._hierarchical(system, clusters)
        return self._multicast() if protocol == "multicast" else self._camcast()

    def _camcast(self) -> dict[str, float]:
        own = self.hierarchy
        return {
            "messages_inside": multicast_messages(own),
            "messages_upward": sum(upward_messages(one) for one in own[:-1]),
            "reliability": camcast_reliability(own, len(own) - 1),
            "rounds": camcast_average_latency(self.sizes),
            "table_entries": self._mean([camcast_memory(one, root=one is own[-1]) for one in own]),
        }

    def _broadcast(self, system: int) -> dict[str, float]:
        return {
            "messages_inside": gossip_messages(system, self.c),
            "reliability": gossip_reliability(self.c),
            "rounds": broadcast_latency([system]),
            "table_entries": broadcast_memory(system, self.c),
        }

    def _multicast(self) -> dict[str, float]:
        own = self.hierarchy
        return {
            "messages_inside": multicast_messages(own),
            "reliability": multicast_reliability(own, len(own) - 1),
            "rounds": group_latency(self.sizes),
            "table_entries": self._mean([multicast_memory(own, at) for at in range(len(own))]),
        }

    def _hierarchical(self, system: int, clusters: int) -> dict[str, float]:
        within = system / clusters
        return {
            "messages_inside": hierarchical_messages(clusters, within, self.c, self.c),
            "reliability": hierarchical_reliability(clusters, self.c, self.c),
            "rounds": group_latency([int(within)]),
            "table_entries": hierarchical_memory(clusters, within, self.c, self.c),
        }

    def _mean(self, entries: list[float]) -> float:
        """Over the processes, whose communities have these."""
        pairs = zip(entries, self.sizes, strict=True)
        return sum(entry * size for entry, size in pairs) / sum(self.sizes)


# The numbers printed in the paper's tables, to set ours beside (section 6.1.2).
#
# PMcast appears there by its results alone: the paper gives neither its formulas nor its parameters (see
# `formulas`).


@dataclass(frozen=True)
class PublishedRow:
    """One topology and what the paper prints for it."""

    sizes: tuple[int, ...]
    """N_t of each community, from the lowest topic to the root."""
    camcast: float
    broadcast: float
    pmcast: float


TABLE_1 = (
    PublishedRow((1000, 100, 10), camcast=8.91, broadcast=4.63, pmcast=6.61),
    PublishedRow((100,) * 3, camcast=8.83, broadcast=4.39, pmcast=5.44),
    PublishedRow((100,) * 5, camcast=13.08, broadcast=4.31, pmcast=5.89),
)
"""Mean rounds to disseminate an event in all communities; CAMCAST's simulated, the others computed."""

TABLE_2 = (
    PublishedRow((1000, 100, 10), camcast=0, broadcast=11216, pmcast=453),
    PublishedRow((100,) * 3, camcast=0, broadcast=1699, pmcast=369),
    PublishedRow((100,) * 5, camcast=0, broadcast=3739, pmcast=615),
)
"""Parasite events of one event of the root topic; PMcast's computed, the others simulated."""
