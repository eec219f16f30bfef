"""The parameters of one community on one process, and the formulas they enter (CAMCAST, sections 3 and 4.5).

They may differ from topic to topic and from process to process, and may be changed while running.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from overlay.errors import UsageError
from overlay.membership.config import MembershipConfig


class ParameterError(UsageError):
    """A parameter is outside the range in which the formulas mean anything."""


_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "True or False"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
}
"""By a field's type, as it is written: the types of its values, and what they are called."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Defaults are the paper's simulation settings; times are in seconds."""

    c: float = 5.0
    """Gossip goes to floor(ln N + c) members; everyone gets it with probability exp(-exp(-c))."""

    g: float = 5.0
    """How many processes of a community take an event upward, on average: p_sel = min(1, g / N)."""

    a: float = 1.0
    """How many of its super-processes each of those sends it to, on average: p_a = a / z."""

    z: int = 3
    """The size of a super-topic table; 1 <= a <= z."""

    tau: int = 1
    """With tau or fewer live super-processes, the live ones are asked for more; 0 <= tau <= z."""

    sure_links: bool = True
    """The publisher, and a process that has an event from a sub-community, surely sends it on upward, to at
    least one super-process (as in section 3.1), so that without faults every event goes all the way up. False
    leaves all to chance, as in figure 8: then exp(-g (1 - (1 - a/z)^z)) of the events stop at each level, 3 %
    with these defaults."""

    link_interval: float = 5.0
    """Between two looks at the super-topic tables, and two searches for a nearer super-community, each with
    probability p_sel."""

    search_timeout: float = 1.0
    """How long a search for a super-community waits before it widens."""

    search_ttl: int = 2
    """How many processes hand on a search for a super-community, one after another."""

    rotation: float = 0.1
    """The probability that a look at a super-topic table also replaces one live super-process."""

    lease: float = 30.0
    """How long a process promises to stay in a community when asked; leaving takes as long at most."""

    check_timeout: float = 3.0
    """After this long without an answer a process counts as gone."""

    duplicate_lifetime: float = 120.0
    """How long an event is remembered from when it was first heard of."""

    duplicate_capacity: int = 100_000
    """The most events remembered per community, about 150 bytes each; the oldest are forgotten."""

    announce_delay: float = 0.1
    """Lazy dissemination: ids of events are gathered for this many seconds before they are announced, and for
    five times as long while events keep coming."""

    fetch_delay: float = 0.1
    """Lazy dissemination: an event that was announced is waited for this many seconds before it is asked
    for."""

    keep_seconds: float = 30.0
    """Lazy dissemination: events are kept for this many seconds, at least, for members that ask for
    them..."""

    keep_bytes: int = 32 * 1024 * 1024
    """...within this many bytes a community, each event counted with 256 bytes more; half of it at least is
    full when an event has to go earlier."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds, named = _KINDS[field.type]
            is_of_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
            if not is_of_kind or not math.isfinite(value):
                raise ParameterError(f"{field.name} must be {named}, not {value!r}")
        self._require("c", self.c >= 0, "0 or more")
        self._require("g", self.g > 0, "more than 0")
        self._require("z", self.z >= 1, "1 or more")
        self._require("a", 0 < self.a <= self.z, f"more than 0 and at most z = {self.z}")
        self._require("tau", 0 <= self.tau <= self.z, f"0 to z = {self.z}")
        self._require("search_ttl", 0 <= self.search_ttl <= 8, "0 to 8")
        self._require("rotation", 0 <= self.rotation <= 1, "a probability")
        self._require("duplicate_capacity", self.duplicate_capacity >= 1, "1 or more")
        self._require("keep_bytes", self.keep_bytes >= 0, "0 or more")
        times = ("link_interval", "search_timeout", "lease", "check_timeout", "announce_delay")
        for name in (*times, "fetch_delay", "keep_seconds"):
            self._require(name, getattr(self, name) > 0, "more than 0 seconds")
        self._require("duplicate_lifetime", self.duplicate_lifetime > 0, "more than 0 seconds")

    def _require(self, name: str, holds: bool, range_: str) -> None:
        if not holds:
            raise ParameterError(f"{name} must be {range_}, not {getattr(self, name)!r}")

    def fanout(self, size: float) -> int:
        """floor(ln N + c), the number of members that each process gossips an event to."""
        return math.floor(math.log(max(size, 1.0)) + self.c)

    def p_sel(self, size: float) -> float:
        """g / N, and 1 in a community of g processes or fewer."""
        return min(1.0, self.g / max(size, 1.0))

    @property
    def p_a(self) -> float:
        """a / z."""
        return self.a / self.z

    def is_very_small(self, size: float) -> bool:
        """In a community of g processes or fewer, everyone makes sure that events go up."""
        return size <= self.g


def membership_config(
    parameters: Parameters, usual: MembershipConfig | None = None
) -> MembershipConfig:
    """Topic tables of ln N + c members, as many as gossip goes to; the rest as `usual` says."""
    usual = usual or MembershipConfig()
    return replace(
        usual,
        scamp=replace(usual.scamp, margin=parameters.c),
        structured=replace(usual.structured, c=parameters.c),
        hyparview=replace(usual.hyparview, c=parameters.c),
    )
