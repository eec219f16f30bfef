"""How often a table is drawn anew: the faster a community changes, the more often.

What a member sees of the change is a fair sample of it. A table is a uniform draw of the members, so the part
of it that leaves or crashes is the part of the community that does. A newcomer makes itself known to as many
uniformly drawn members as a table has, so the newcomers that a member meets, over its table's size, are the
part of the community that is new.
"""

from __future__ import annotations

from overlay.membership.structured.config import StructuredConfig

SMOOTHING = 0.5
"""The weight of the latest interval in the estimated rate."""


class Pace:
    """Counts changes between drawings and says when the next drawing is due."""

    __slots__ = ("_changes", "_config", "_drawn_at", "_interval", "_rate")

    def __init__(self, config: StructuredConfig, now: float) -> None:
        self._config = config
        self._drawn_at = now
        self._interval = config.shortest_redraw_seconds / 2  # the next may be twice as long
        self._rate: float | None = None
        self._changes = 0

    @property
    def interval(self) -> float:
        """Seconds from the last drawing to the next."""
        return self._interval

    @property
    def longest_next(self) -> float:
        """The most seconds that the interval after this one may last."""
        return min(2 * self._interval, self._config.longest_redraw_seconds)

    def soonest(self, now: float) -> float:
        """The least seconds to the next drawing."""
        return max(self._drawn_at + self._config.shortest_redraw_seconds - now, 0.0)

    def drawn(self, now: float, table_size: int) -> None:
        """A table was drawn: set the next interval by what changed since the last."""
        seconds = max(now - self._drawn_at, 1e-3)
        seen = self._changes / max(table_size, 1) / seconds
        rate = seen if self._rate is None else SMOOTHING * seen + (1 - SMOOTHING) * self._rate
        self._rate, self._changes, self._drawn_at = rate, 0, now
        config = self._config
        longest = self.longest_next
        wanted = config.change / rate if rate > 0 else longest
        self._interval = min(max(wanted, config.shortest_redraw_seconds), longest)

    def changed(self, now: float, table_size: int) -> float | None:
        """A member came or went; the seconds to the next drawing when that must now be sooner."""
        self._changes += 1
        if self._changes <= 2 * self._config.change * max(table_size, 1):
            return None
        shortest = self._config.shortest_redraw_seconds
        if shortest >= self._interval:
            return None
        self._interval = shortest
        return self.soonest(now)
