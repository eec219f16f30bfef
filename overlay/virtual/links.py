"""How well hosts reach each other: latency and loss of each link, and the partitions between groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

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


class Links:
    """The quality of every pair of hosts, in each direction, and which pairs are cut off."""

    def __init__(self, default: Quality) -> None:
        self._default = default
        self._exceptions: dict[tuple[str, str], Quality] = {}
        self.cuts: list[tuple[frozenset[str], frozenset[str]]] = []

    def quality(self, source: str, destination: str) -> Quality:
        return self._exceptions.get((source, destination), self._default)

    def change(
        self, source: str, destination: str, latency: Latency | None, loss: float | None
    ) -> None:
        """Change one direction of a link; what is None stays as it is."""
        quality = self.quality(source, destination)
        self._exceptions[source, destination] = replace(
            quality,
            latency=quality.latency if latency is None else latency,
            loss=quality.loss if loss is None else loss,
        )

    def is_cut(self, source: str, destination: str) -> bool:
        return any(source in side and destination in other for side, other in self.cuts)

    def cut(self, side: frozenset[str], other: frozenset[str]) -> None:
        """Let nothing through from one side to the other."""
        self.cuts.append((side, other))

    def heal(self) -> None:
        self.cuts.clear()


def require_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(f"{name} is a probability from 0 to 1, not {value}")
