"""What to simulate, a frozen and validated description that determines the result; and what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


# What a simulation found, community by community. A *round* carries the event one hop further: the publisher
# has it in round 0, and a process that receives it in round r forwards it in round r + 1.


def trimmed(infections: Sequence[int]) -> tuple[int, ...]:
    """Counts by round without the last rounds in which nobody was new."""
    length = len(infections)
    while length and not infections[length - 1]:
        length -= 1
    return tuple(infections[:length])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityResult:
    """What one event did to one community."""

    level: int
    """Index in the settings' `community_sizes`: the root is the last."""
    processes: int
    """N_t, crashed ones included."""
    alive: int
    """Processes that can receive; the publisher is one of them."""
    interested: bool
    """The event's topic is this one's, or a subtopic of it."""
    infections: tuple[int, ...]
    """First receptions by round, the publisher's own in round 0, to the last round with any."""
    sent_inside: int
    """Messages sent by these processes to their group: the community, or everyone in a broadcast."""
    sent_upward: int
    """Messages sent by these processes to their super-community."""
    received: int
    """Messages that arrived at a live process of the community, from wherever."""
    received_from_below: int
    """How many of the received messages were upward messages."""
    published_here: bool
    """The publisher is one of these processes."""
    table_entries: int
    """Entries of all tables of all processes of the community."""
    largest_tables: int
    """Entries that one process keeps at most, in all of its tables."""

    @property
    def reached(self) -> int:
        """Live processes that have the event."""
        return sum(self.infections)

    @property
    def everyone(self) -> bool:
        """No live process was missed; so also where none is alive."""
        return self.reached == self.alive

    @property
    def reception(self) -> float | None:
        """The share of the live processes that was reached; None where none is alive."""
        return self.reached / self.alive if self.alive else None

    @property
    def duplicates(self) -> int:
        """Messages received by processes that had the event already."""
        return self.received - (self.reached - self.published_here)

    @property
    def parasites(self) -> int:
        """Messages received by processes that are not interested."""
        return 0 if self.interested else self.received

    @property
    def last_round(self) -> int | None:
        """The round of the last first reception."""
        return len(self.infections) - 1 if self.infections else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What one event did to every community, and the settings that bring it about again."""

    settings: SimulationSettings
    communities: tuple[CommunityResult, ...]
    """The communities by level, the root last."""

    @property
    def rounds(self) -> int:
        """The round of the last first reception by an interested process."""
        return max(community.last_round or 0 for community in self._interested)

    @property
    def rounds_to_silence(self) -> int:
        """Rounds in which anything is sent: one more, as the last to receive forward in vain."""
        return self.rounds + 1

    @property
    def everyone(self) -> bool:
        """Every live process that is interested was reached."""
        return all(community.everyone for community in self._interested)

    @property
    def root_reached(self) -> bool:
        """Someone in the root community was reached."""
        return self.communities[-1].reached > 0

    @property
    def messages(self) -> int:
        """All messages sent."""
        return sum(community.sent_inside + community.sent_upward for community in self.communities)

    @property
    def parasites(self) -> int:
        """All parasite events."""
        return sum(community.parasites for community in self.communities)

    @property
    def _interested(self) -> tuple[CommunityResult, ...]:
        return self.communities[self.settings.publish_level :]
