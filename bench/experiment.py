"""What one row of the grid asks for: a frozen, validated description that determines its result.

Communities are listed from the one an event may be published in at the bottom up to the root, as the
paper's (1000, 100, 10): the first community is the largest in its examples and the last has no super-topic.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from overlay.errors import UsageError

TIERS = ("model", "simulate", "emulate", "live")
PROTOCOLS = ("camcast", "broadcast", "multicast", "hierarchical", "pmcast")
MODES = ("uniform", "unstructured", "semi-structured", "structured")
MODES_OF_TIER = {
    "model": ("uniform",),
    "simulate": ("uniform", "unstructured"),
    "emulate": MODES[1:],
    "live": MODES[1:],
}
"""The simulator takes uniform or SCAMP-built tables; real nodes always run a membership service."""
CLUSTERS = 10
"""C: the clusters that hierarchical gossip broadcast splits the system into, whatever the interests."""
FAILURES = ("stillborn", "weak", "churn")


class ExperimentError(UsageError):
    """An experiment that cannot be run; the text names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One deterministic run, or many repetitions of one, of a protocol in one setting."""

    suite: str
    """The suite that asked for it."""
    figure: str
    """The figure, table or question that it serves, such as `figure-15`."""
    tier: str
    """Where it runs: model, simulate, emulate or live."""
    protocol: str = "camcast"
    """camcast, or an alternative: broadcast, multicast, hierarchical, pmcast."""
    mode: str = "uniform"
    """The membership service; `uniform` stands for static tables drawn uniformly (model, simulate)."""
    sizes: tuple[int, ...] = (1000, 100, 10)
    """Processes per community, bottom first, root last."""
    c: float = 5.0
    """c_t: a process gossips to floor(ln N_t + c_t) others."""
    g: float = 5.0
    """g_t: expected number of processes that forward an event upward; p_sel = g_t / N_t."""
    p_sel: float | None = None
    """Set instead of g to fix the probability of acting as a link."""
    a: float = 1.0
    """a_t: expected super-processes that a link sends to; p_a = a_t / z_t."""
    z: int = 3
    """z_t: entries of the super-topic table."""
    loss: float = 0.0
    """Probability that one transmission is lost."""
    failure: str = "stillborn"
    """stillborn: down from the start for all; weak: down for each observer apart; churn: over time."""
    failed: float = 0.0
    """Share of processes that are down (stillborn, weak), or that change a second (churn)."""
    publish_level: int = 0
    """Index in `sizes` of the community in which the event is published."""
    repetitions: int = 1
    """How many times; repetition r uses the seed of `(seed, r)`."""
    seed: int = 0
    """All randomness comes from it."""

    def __post_init__(self) -> None:
        _one_of("tier", self.tier, TIERS)
        _one_of("protocol", self.protocol, PROTOCOLS)
        _one_of("mode", self.mode, MODES)
        _one_of("failure", self.failure, FAILURES)
        if not self.sizes or any(type(n) is not int or n < 1 for n in self.sizes):
            raise ExperimentError(f"sizes must be whole numbers of at least 1, not {self.sizes!r}")
        for name in ("loss", "failed"):
            if not 0 <= getattr(self, name) < 1:
                raise ExperimentError(f"{name} is a share in [0, 1), not {getattr(self, name)!r}")
        if self.p_sel is not None and not 0 < self.p_sel <= 1:
            raise ExperimentError(f"p_sel is a probability in (0, 1], not {self.p_sel!r}")
        if self.z < 1 or not 0 < self.a <= self.z:
            raise ExperimentError(f"z is at least 1 and 0 < a <= z, not z={self.z!r}, a={self.a!r}")
        if self.g < 1:
            raise ExperimentError(f"g is at least 1, not {self.g!r}")
        if not 0 <= self.publish_level < len(self.sizes):
            raise ExperimentError(f"publish_level {self.publish_level!r} is no index of sizes")
        if self.repetitions < 1:
            raise ExperimentError(f"repetitions is at least 1, not {self.repetitions!r}")
        if self.mode not in MODES_OF_TIER[self.tier]:
            raise ExperimentError(
                f"tier {self.tier} has the modes {', '.join(MODES_OF_TIER[self.tier])}, not {self.mode}"
            )

    @property
    def id(self) -> str:
        """A digest of every field: the same experiment has the same id on any machine."""
        return hashlib.blake2b(self.as_json().encode(), digest_size=10).hexdigest()

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        fields: dict[str, Any] = json.loads(text)
        fields["sizes"] = tuple(fields["sizes"])
        return cls(**fields)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ExperimentError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
