"""What to simulate: a frozen, validated description that determines the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from overlay.errors import UsageError

Kind = TypeVar("Kind", bound=StrEnum)

MOST_PROCESSES = 1 << 31
MOST_COMMUNITIES = 60


class Protocol(StrEnum):
    """CAMCAST, and the alternatives of section 4.2 of the paper."""

    CAMCAST = "camcast"
    BROADCAST = "broadcast"
    """(a): one group of everyone, whatever they are interested in."""
    MULTICAST = "multicast"
    """(b): the publisher starts a gossip in every community from its own up to the root."""
    HIERARCHICAL = "hierarchical"
    """(c): everyone in `clusters` groups that have nothing to do with interests; each process gossips in
    its own cluster and to processes of others."""


class Tables(StrEnum):
    """Where membership tables come from."""

    UNIFORM = "uniform"
    """floor(ln N + c) different processes, drawn uniformly."""
    SCAMP = "scamp"
    """Views built by SCAMP's joins, of which floor(ln N + c) are chosen for the event. Super-topic tables,
    and tables of other clusters, stay uniform."""


class Failure(StrEnum):
    """What `failed` means (section 6.1.2 of the paper)."""

    STILLBORN = "stillborn"
    """Each process is crashed from the start with this probability; tables still name it."""
    WEAK = "weak"
    """Everyone is alive, but each table entry appears crashed to its owner with this probability, and
    is then not sent to: views are only weakly consistent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """One event, published once; the defaults are those of the paper's simulation."""

    protocol: Protocol = Protocol.CAMCAST
    """The dissemination rule."""
    community_sizes: tuple[int, ...] = (1000, 100, 10)
    """N_t of each community, from the lowest topic to the root."""
    publish_level: int = 0
    """Index in `community_sizes` of the topic published on; it and the following are interested."""
    c: float = 5.0
    """c_t: a process forwards to floor(ln N_t + c_t) others; at least 0 and at most N_t - 1 of them.
    For the hierarchical alternative, c_1 and c_2."""
    g: float = 5.0
    """g_t, processes expected to send upward: p_sel = g_t / N_t, at most 1."""
    p_sel: float | None = None
    """Fixes p_sel itself; g is then of no effect."""
    a: float = 1.0
    """a_t, super-topic table entries expected to be sent to: p_a = a_t / z_t."""
    z: int = 3
    """z_t, entries of a super-topic table; fewer where the super-community has fewer processes."""
    loss: float = 0.15
    """Probability that one message is lost."""
    failure: Failure = Failure.STILLBORN
    """What fails."""
    failed: float = 0.0
    """How much of it, from 0 to 1."""
    tables: Tables = Tables.UNIFORM
    """Where topic tables come from."""
    scamp_copies: int = 0
    """SCAMP's c: further copies of each subscription, for views of (c + 1) ln N entries."""
    own_sizes: bool = False
    """SCAMP: a process knows N only from its view, as exp(|view| / (scamp_copies + 1)), so that it forwards
    to floor(|view| / (scamp_copies + 1) + c) of it. Else everyone knows N."""
    clusters: int = 10
    """C, of the hierarchical alternative; clusters differ in size by at most one process."""
    seed: int = 0
    """All randomness comes from it."""
    table_seed: int | None = None
    """Fixes the tables apart, so that many events can run over the same; `seed` if not given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", _choice("protocol", Protocol, self.protocol))
        object.__setattr__(self, "tables", _choice("tables", Tables, self.tables))
        object.__setattr__(self, "failure", _choice("failure", Failure, self.failure))
        self._check_sizes()
        if not 0 <= self.publish_level < len(self.community_sizes):
            raise UsageError(
                f"publish_level {self.publish_level!r} is not an index of community_sizes."
            )
        for name in ("loss", "failed"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be in [0, 1], not {getattr(self, name)!r}.")
        if not math.isfinite(self.c):
            raise UsageError(f"c must be a finite number, not {self.c!r}.")
        if self.p_sel is not None and not 0 <= self.p_sel <= 1:
            raise UsageError(f"p_sel must be in [0, 1], not {self.p_sel!r}.")
        if not (self.g >= 0 and math.isfinite(self.g)):
            raise UsageError(f"g must be 0 or more, not {self.g!r}.")
        if self.z < 1 or not 0 <= self.a <= self.z:
            raise UsageError(f"z must be 1 or more and a in [0, z], not {self.z!r} and {self.a!r}.")
        if self.scamp_copies < 0:
            raise UsageError(f"scamp_copies must be 0 or more, not {self.scamp_copies!r}.")
        if self.clusters < 1:
            raise UsageError(f"clusters must be 1 or more, not {self.clusters!r}.")

    def _check_sizes(self) -> None:
        sizes = self.community_sizes
        if not sizes or any(type(size) is not int or size < 1 for size in sizes):
            raise UsageError(f"community_sizes must be whole numbers of 1 or more, not {sizes!r}.")
        if self.protocol is Protocol.HIERARCHICAL and self.clusters > sum(sizes):
            raise UsageError(f"clusters must be at most the {sum(sizes)} processes there are.")
        if len(sizes) > MOST_COMMUNITIES or sum(sizes) >= MOST_PROCESSES:
            raise UsageError(
                f"community_sizes must be at most {MOST_COMMUNITIES} communities "
                f"and {MOST_PROCESSES} processes, not {len(sizes)} and {sum(sizes)}."
            )

    @property
    def tables_from(self) -> int:
        """The seed of the tables."""
        return self.seed if self.table_seed is None else self.table_seed

    @property
    def stillborn(self) -> float:
        """How likely a process is crashed from the start."""
        return self.failed if self.failure is Failure.STILLBORN else 0.0

    @property
    def suspicion(self) -> float:
        """How likely a table entry appears crashed to its owner."""
        return self.failed if self.failure is Failure.WEAK else 0.0

    def fanout(self, processes: int) -> int:
        """floor(ln N + c), within what a group of N allows: the paper's simulator takes the floor."""
        return max(0, min(math.floor(math.log(processes) + self.c), processes - 1))

    def link_probability(self, processes: int) -> float:
        """p_sel of a community of this many processes."""
        return min(1.0, self.g / processes) if self.p_sel is None else self.p_sel


def _choice(name: str, kinds: type[Kind], value: str) -> Kind:
    try:
        return kinds(value)
    except ValueError:
        known = ", ".join(kinds)
        raise UsageError(f"{name} must be one of {known}, not {value!r}.") from None
