"""The parameters of one community, in the paper's symbols (sections 3.5 and 4.1).

A **community** is the set of processes interested in one topic. Each of its processes keeps a *topic
table* of processes of its own community and a *super-topic table* of processes of the
super-community.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.model.checks import check_count, check_finite, check_probability
from overlay.errors import UsageError


@dataclass(frozen=True)
class Community:
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

    def __post_init__(self) -> None:
        check_count("processes", self.processes)
        check_finite("c", self.c)
        check_count("z", self.z)
        check_probability("success", self.success)
        check_probability("reached", self.reached)
        if not 0.0 <= self.g <= self.processes:
            raise UsageError(f"g must be between 0 and {self.processes}, not {self.g!r}.")
        if not 0.0 <= self.a <= self.z:
            raise UsageError(f"a must be between 0 and z = {self.z}, not {self.a!r}.")

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


Hierarchy = tuple[Community, ...]
"""Communities from the topic published on, t_(x-1), up to the root topic, t_0."""


def check_hierarchy(hierarchy: Hierarchy) -> None:
    """A hierarchy has at least one community."""
    if not hierarchy:
        raise UsageError("hierarchy must hold at least one community.")


def largest(hierarchy: Hierarchy) -> int:
    """N_max, the number of processes of the largest community."""
    check_hierarchy(hierarchy)
    return max(community.processes for community in hierarchy)
