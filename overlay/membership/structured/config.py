"""The parameters of the structured service, with their formulas and units."""

from __future__ import annotations

import math
from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True, slots=True)
class StructuredConfig:
    """One community's drawn tables."""

    c: float = 5.0
    """A table has floor(ln N + c) members. 0 or more."""

    shortest_redraw_seconds: float = 15.0
    """The least time between two drawings of a whole table."""

    longest_redraw_seconds: float = 300.0
    """The most time between two drawings, in a community that does not change."""

    change: float = 0.1
    """The part of the members that may change, by joining, leaving or crashing, from one drawing to the
    next: the interval is `change` / (part that changes a second). More than 0, at most 1."""

    settle_seconds: float = 1.0
    """How long a newcomer waits for members to take it into their tables before it says it has joined."""

    def __post_init__(self) -> None:
        if not 0 <= self.c < math.inf:
            raise UsageError(f"c must be 0 or more, not {self.c}")
        if not 0 < self.change <= 1:
            raise UsageError(f"change must be more than 0 and at most 1, not {self.change}")
        if not 0 < self.shortest_redraw_seconds <= self.longest_redraw_seconds < math.inf:
            raise UsageError(
                "shortest_redraw_seconds must be more than 0 and at most longest_redraw_seconds, not"
                f" {self.shortest_redraw_seconds} and {self.longest_redraw_seconds}"
            )
        if not 0 <= self.settle_seconds < math.inf:
            raise UsageError(f"settle_seconds must be 0 or more, not {self.settle_seconds}")

    def table_size(self, size: float) -> int:
        """Members of a table in a community of `size`."""
        return math.floor(math.log(max(size, 1.0)) + self.c)
