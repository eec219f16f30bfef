"""A time that is measured again and again: the estimator of RFC 6298."""

from __future__ import annotations


class Smoothed:
    """A smoothed time and its mean deviation, in seconds; None and 0 before anything is measured."""

    __slots__ = ("smoothed", "variation")

    def __init__(self) -> None:
        self.smoothed: float | None = None
        self.variation = 0.0

    def sample(self, seconds: float) -> None:
        if self.smoothed is None:
            self.smoothed = seconds
            self.variation = seconds / 2
        else:
            error = seconds - self.smoothed
            self.smoothed += error / 8
            self.variation += (abs(error) - self.variation) / 4

    def expected(self, margin: float, beside: float = 0.0) -> float:
        """Within how long nearly all come that also take the time `beside`; `margin`: the least that is
        allowed for the deviation."""
        return beside + (self.smoothed or 0.0) + max(margin, 4 * self.variation)
