"""How well hosts reach each other: latency and loss of each link, and the partitions between groups."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from overlay.errors import UsageError
from overlay.virtual.latency import Latency


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


class Links:
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
