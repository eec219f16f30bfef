"""What one row of the grid asks for: a frozen, validated description that determines its result.

Communities are listed from the one an event may be published in at the bottom up to the root, as the
paper's (1000, 100, 10): the first community is the largest in its examples and the last has no super-topic.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlay.errors import UsageError

TIERS = ("model", "simulate", "replay", "emulate", "live")
PROTOCOLS = ("camcast", "broadcast", "multicast", "hierarchical", "pmcast")
MODES = ("uniform", "unstructured", "semi-structured", "structured", "hyparview")
MODES_OF_TIER = {
    "model": ("uniform",),
    "simulate": ("uniform", "unstructured"),
    "replay": MODES[1:],
    "emulate": MODES[1:],
    "live": MODES[1:],
}
"""The simulator takes uniform or SCAMP-built tables; real nodes always run a membership service."""
DISSEMINATIONS = ("eager", "lazy")
VARIANTS = {
    "published": (False, "eager", False),
    "improved": (True, "eager", False),
    "shipped": (True, "lazy", True),
}
"""By name, the values of balance, dissemination and sure_links: the paper's algorithms; the membership of
this project under the paper's dissemination; and what a node does that is told nothing else."""
SERIES = ("p_sel_series", "failed_series", "c_series", "loss_series")
"""The fields that make one experiment stand for several."""
CLUSTERS = 10
"""C: the clusters that hierarchical gossip broadcast splits the system into, whatever the interests."""
FAILURES = ("stillborn", "weak", "repaired", "churn")
FAILURES_OF_TIER = {
    "model": FAILURES[:3],
    "simulate": FAILURES[:3],
    "replay": FAILURES[2:],
    "emulate": FAILURES[2:],
    "live": FAILURES[2:3],
}
"""Real nodes repair their tables, and the simulator knows no time."""


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
    balance: bool = False
    """Membership with this project's improvements: members see to it that enough others hold them, and count
    each other. False is the algorithm as published."""
    dissemination: str = "eager"
    """eager: every process sends an event to floor(ln N + c) others, as in the paper; lazy: once along a
    tree, and elsewhere only its id."""
    sure_links: bool = False
    """The publisher, and a process that has an event from below, surely sends it on upward. False leaves all
    to chance, as in the paper's figure 8."""
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
    """stillborn: down from the start, and still in the tables of the others; weak: down for each observer
    apart; repaired: down, and the tables hold living processes again; churn: over time."""
    failed: float = 0.0
    """Share of processes that are down, or that change a second (churn)."""
    publish_level: int = 0
    """Index in `sizes` of the community in which the event is published."""
    repetitions: int = 1
    """How many times; repetition r uses the seed of `(seed, r)`."""
    network: int = 0
    """Which of the networks of a setting it is; networks of the same number are compared with each other."""
    replays: int = 0
    """Emulated networks: how many events to replay over their tables, for each point (see
    bench.simulate.replay)."""
    p_sel_series: tuple[float, ...] = ()
    """Instead of one p_sel several, whose events take turns on one network."""
    failed_series: tuple[float, ...] = ()
    """Instead of one share that failed, growing ones: more and more crash on one network (not live)."""
    c_series: tuple[float, ...] = ()
    """Replayed events: instead of c several, none above it, for how many a process sends to."""
    loss_series: tuple[float, ...] = ()
    """Replayed events: instead of one loss several."""
    seed: int = 0
    """All randomness comes from it."""

    def __post_init__(self) -> None:
        self._check_types()
        _one_of("tier", self.tier, TIERS)
        _one_of("protocol", self.protocol, PROTOCOLS)
        _one_of("mode", self.mode, MODES)
        _one_of("failure", self.failure, FAILURES)
        _one_of("dissemination", self.dissemination, DISSEMINATIONS)
        if not self.sizes or any(n < 1 for n in self.sizes):
            raise ExperimentError(f"sizes must be whole numbers of at least 1, not {self.sizes!r}")
        for name in ("loss", "failed"):
            if not 0 <= getattr(self, name) < 1:
                raise ExperimentError(f"{name} is a share in [0, 1), not {getattr(self, name)!r}")
        if self.p_sel is not None and not 0 < self.p_sel <= 1:
            raise ExperimentError(f"p_sel is a probability in (0, 1], not {self.p_sel!r}")
        if not all(0 < p_sel <= 1 for p_sel in self.p_sel_series):
            raise ExperimentError(f"p_sel_series is not in (0, 1]: {self.p_sel_series!r}")
        self._check_failures()
        if self.z < 1 or not 0 < self.a <= self.z:
            raise ExperimentError(f"z is at least 1 and 0 < a <= z, not z={self.z!r}, a={self.a!r}")
        if self.g < 1:
            raise ExperimentError(f"g is at least 1, not {self.g!r}")
        if not 0 <= self.publish_level < len(self.sizes):
            raise ExperimentError(f"publish_level {self.publish_level!r} is not an index of sizes")
        if self.repetitions < 1:
            raise ExperimentError(f"repetitions is at least 1, not {self.repetitions!r}")
        if self.network < 0 or self.replays < 0:
            raise ExperimentError("network and replays are 0 or more")
        self._check_tier()

    def _check_tier(self) -> None:
        real = self.tier in ("replay", "emulate", "live")
        if not real and (self.balance or self.sure_links or self.dissemination != "eager"):
            raise ExperimentError(
                f"tier {self.tier} has the algorithms as published: balance and sure_links are False, and "
                "dissemination is eager"
            )
        if self.replays and self.tier not in ("replay", "emulate"):
            raise ExperimentError(f"tier {self.tier} has no tables to replay events over")
        if self.c_series and (not self.replays or max(self.c_series) > self.c):
            raise ExperimentError("c_series is for replayed events, and has no value above c")
        if self.loss_series and not self.replays:
            raise ExperimentError("loss_series is for replayed events")
        if not all(0 <= loss < 1 for loss in self.loss_series):
            raise ExperimentError(f"loss_series has shares in [0, 1), not {self.loss_series!r}")
        if self.mode not in MODES_OF_TIER[self.tier]:
            raise ExperimentError(
                f"tier {self.tier} has the modes {', '.join(MODES_OF_TIER[self.tier])}, not {self.mode}"
            )

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            fits, what = _TYPES[str(field.type)]
            value = getattr(self, field.name)
            if not fits(value):
                raise ExperimentError(f"{field.name} is {what}, not {value!r}")

    def _check_failures(self) -> None:
        series = self.failed_series
        if not all(0 <= share < 1 for share in series) or list(series) != sorted(set(series)):
            raise ExperimentError(f"failed_series has growing shares in [0, 1), not {series!r}")
        if series and (self.tier == "live" or self.failure == "churn"):
            raise ExperimentError("failed_series is for crashes, and not for the live tier")
        known = FAILURES_OF_TIER[self.tier]
        fails = self.failed or series or self.failure != "stillborn"
        if fails and self.failure not in known:
            raise ExperimentError(
                f"tier {self.tier} has the failures {', '.join(known)}, not {self.failure}"
            )

    @property
    def living(self) -> tuple[int, ...]:
        """Processes of each community that are up, at least one, where a share is down."""
        return tuple(left_of(size, self.failed) for size in self.sizes)

    def fanout(self, processes: int) -> int:
        """floor(ln N + c), within what a group of N allows: the paper's simulator takes the floor."""
        return max(0, min(math.floor(math.log(processes) + self.c), processes - 1))

    @property
    def variant(self) -> str:
        """What `VARIANTS` calls it; `other` for a mixture."""
        return variant_of(self.balance, self.dissemination, self.sure_links)

    def points(self) -> list[Experiment]:
        """The experiments without series that this one stands for, in the order in which they are run."""
        return [
            dataclasses.replace(self, failed=failed, p_sel=p_sel, p_sel_series=(), failed_series=())
            for failed in self.failed_series or (self.failed,)
            for p_sel in self.p_sel_series or (self.p_sel,)
        ]

    def replayed(self) -> list[Experiment]:
        """What a point stands for when its events are replayed: the paper's rule on its own tables."""
        plain = dataclasses.replace(
            self,
            tier="replay",
            dissemination="eager",
            sure_links=False,
            c_series=(),
            loss_series=(),
        )
        found = [plain]
        # What reliability costs is asked before anybody crashes.
        found += [dataclasses.replace(plain, c=c) for c in self.c_series if not self.failed]
        found += [dataclasses.replace(plain, loss=loss) for loss in self.loss_series]
        return list(dict.fromkeys(found))

    @property
    def id(self) -> str:
        """A digest of every field: the same experiment has the same id on any machine."""
        return hashlib.blake2b(self.as_json().encode(), digest_size=10).hexdigest()

    def as_json(self) -> str:
        return json.dumps(self.fields(), sort_keys=True, separators=(",", ":"))

    def fields(self) -> dict[str, Any]:
        """Every field by its name, not copied: values are never changed, and grids have millions."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        fields: dict[str, Any] = json.loads(text)
        for name in ("sizes", *SERIES):
            fields[name] = tuple(fields[name])
        return cls(**fields)


_NAMES = tuple(field.name for field in dataclasses.fields(Experiment))


def left_of(size: int, failed: float) -> int:
    """Processes of a community that are up when a share of it is down: at least one."""
    return max(1, size - round(failed * size))


def variant_of(balance: bool, dissemination: str, sure_links: bool) -> str:
    """The name in `VARIANTS` of these values; `other` where there is none."""
    wanted = (balance, dissemination, sure_links)
    return next((name for name, values in VARIANTS.items() if values == wanted), "other")


def _is_whole(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: type(value) is bool, "True or False"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "int": (_is_whole, "a whole number of at most 64 bits"),
    "float": (_is_number, "a finite number"),
    "float | None": (lambda value: value is None or _is_number(value), "a finite number"),
    "tuple[int, ...]": (
        lambda value: isinstance(value, tuple) and all(map(_is_whole, value)),
        "a tuple of whole numbers",
    ),
    "tuple[float, ...]": (
        lambda value: isinstance(value, tuple) and all(map(_is_number, value)),
        "a tuple of finite numbers",
    ),
}
"""By a field's annotation: what its values have to be, so that every row fits the schema of results."""


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ExperimentError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
