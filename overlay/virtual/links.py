"""What happens to a datagram on its way: latency, loss and partitions of each link, and the rules of a test.

Latency that varies also reorders: a later datagram with a shorter way overtakes an earlier one.

A rule is a function of a `Packet` that returns `PASS` (or nothing), `DROP`, or a number of seconds by which
the packet is held back. Rules are asked in the order in which they were installed; the delays add up and the
first `DROP` ends it. What passes the rules still meets the network's own loss and latency.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from overlay.contact import Address
from overlay.errors import UsageError


@dataclass(frozen=True)
class Latency:
    """A distribution of one-way delays; make one with the class methods below."""

    name: str
    parameters: tuple[float, ...]

    @classmethod
    def constant(cls, seconds: float) -> Latency:
        """Always the same: no reordering."""
        _require(seconds >= 0, f"a constant latency is not negative: {seconds}")
        return cls("constant", (seconds,))

    @classmethod
    def uniform(cls, low: float, high: float) -> Latency:
        """Evenly spread between `low` and `high` seconds."""
        _require(0 <= low <= high, f"a uniform latency needs 0 <= low <= high: {low}, {high}")
        return cls("uniform", (low, high))

    @classmethod
    def exponential(cls, floor: float, mean: float) -> Latency:
        """`floor` seconds and an exponential tail; `mean` seconds in all on average."""
        _require(
            0 <= floor < mean, f"an exponential latency needs 0 <= floor < mean: {floor}, {mean}"
        )
        return cls("exponential", (floor, mean))

    @classmethod
    def lognormal(cls, median: float, sigma: float) -> Latency:
        """Half of the delays under `median` seconds, and a long tail as on the Internet: the logarithm
        of the delay has the standard deviation `sigma` (0.5: one delay in a hundred above 3.2 medians)."""
        _require(
            median > 0 and sigma >= 0,
            f"a lognormal latency needs median > 0 and sigma >= 0: {median}, {sigma}",
        )
        return cls("lognormal", (median, sigma))

    def sampler(self, source: random.Random) -> Callable[[], float]:
        """A function that draws one delay after another from `source`."""
        if self.name == "constant":
            (seconds,) = self.parameters
            return lambda: seconds
        first, second = self.parameters
        draw = source.random
        if self.name == "uniform":
            span = second - first
            return lambda: first + span * draw()
        if self.name == "exponential":
            tail = second - first
            return lambda: first - tail * math.log(1.0 - draw())
        log_median = math.log(first)
        return lambda: source.lognormvariate(log_median, second)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UsageError(otherwise)


@dataclass(frozen=True)
class Quality:
    """How well one direction of a link works."""

    latency: Latency
    """How long a datagram is on its way."""
    loss: float
    """The probability, 0 to 1, that a datagram is lost."""

    def __post_init__(self) -> None:
        require_probability("loss", self.loss)


Way: TypeAlias = tuple[float, Callable[[], float]]
"""The quality of a link, ready for use: the loss, and a function that draws one latency after another."""


class VirtualLinks:
    """The quality of every pair of hosts, in each direction, and which pairs are cut off."""

    def __init__(self, default: Quality, source: random.Random) -> None:
        self._source = source
        self._default = default
        self._exceptions: dict[tuple[str, str], tuple[Quality, Way]] = {}
        self._cuts: list[tuple[frozenset[str], frozenset[str]]] = []
        self.default = self._way(default)
        self.differ = False
        """Whether any link is unlike the default; while none is, nobody needs to ask for single ones."""

    def _way(self, quality: Quality) -> Way:
        return quality.loss, quality.latency.sampler(self._source)

    def way(self, source: str, destination: str) -> Way:
        exception = self._exceptions.get((source, destination))
        return self.default if exception is None else exception[1]

    def change(
        self, source: str, destination: str, latency: Latency | None, loss: float | None
    ) -> None:
        """Change one direction of a link; what is None stays as it is."""
        pair = (source, destination)
        quality = self._exceptions[pair][0] if pair in self._exceptions else self._default
        quality = Quality(
            quality.latency if latency is None else latency, quality.loss if loss is None else loss
        )
        self._exceptions[pair] = quality, self._way(quality)
        self.differ = True

    def is_cut(self, source: str, destination: str) -> bool:
        if not self._cuts:  # as a rule, and asked for every datagram
            return False
        return any(source in side and destination in other for side, other in self._cuts)

    def cut(self, side: frozenset[str], other: frozenset[str]) -> None:
        """Let nothing through from one side to the other."""
        self._cuts.append((side, other))
        self.differ = True

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()
        self.differ = bool(self._exceptions)


def require_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(f"{name} is a probability from 0 to 1, not {value}")


class Packet(NamedTuple):
    """One datagram as it leaves its sender."""

    time: float
    """Seconds of virtual time at which it was sent."""
    source: Address
    destination: Address
    data: bytes

    def __str__(self) -> str:
        return f"{self.time:.6f}s {self.source} -> {self.destination} {len(self.data)} bytes"


class PacketVerdict(enum.Enum):
    """What a rule says of a packet, when it is not a delay."""

    PASS = "pass"
    DROP = "drop"


PASS: Final = PacketVerdict.PASS
DROP: Final = PacketVerdict.DROP

Rule: TypeAlias = Callable[[Packet], PacketVerdict | float | None]


def judge(rules: list[Rule], packet: Packet) -> float | Literal[PacketVerdict.DROP]:
    """The seconds by which the rules hold a packet back, or `DROP`."""
    delay = 0.0
    for rule in rules:
        verdict = rule(packet)
        if verdict is None or verdict is PacketVerdict.PASS:
            continue
        if verdict is PacketVerdict.DROP:
            return PacketVerdict.DROP
        if isinstance(verdict, bool) or not isinstance(verdict, int | float) or not verdict >= 0:
            raise UsageError(
                f"a rule returns PASS, DROP or seconds to hold a packet back, not {verdict!r}"
            )
        delay += verdict
    return delay
