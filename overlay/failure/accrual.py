"""How strongly a silent peer is suspected, learned from how long it took to answer before.

The time to answer is taken as a constant part (the way there and back) and an exponential rest: losses,
repeated questions, a busy peer. The *suspicion level* after a silence is minus log10 of the chance that a
live peer is silent for so long: it accrues, and whoever asks sets the threshold (Hayashibara et al., SRDS
2004, who assume a normal distribution; asking again and again makes the tail exponential).
"""

from __future__ import annotations

import math

GAIN = 1 / 16
"""Weight of the newest answer in the mean."""

CREEP = 1 / 64
"""How fast the constant part follows answers that are slower than it."""

LEAST_SCALE = 0.001
"""Seconds: the least mean of the exponential rest."""


class AnswerTime:
    """What is known of how long one peer takes to answer."""

    __slots__ = ("_mean", "shortest")

    def __init__(self, expected: float) -> None:
        """`expected`: seconds, assumed until there are answers."""
        self.shortest = expected / 2
        self._mean = expected

    def sample(self, seconds: float) -> None:
        self._mean += (seconds - self._mean) * GAIN
        gap = seconds - self.shortest
        self.shortest += gap if gap < 0 else gap * CREEP

    @property
    def _scale(self) -> float:
        return max(self._mean - self.shortest, LEAST_SCALE)

    def level(self, silence: float) -> float:
        """The suspicion level after so many seconds without an answer."""
        return max(0.0, silence - self.shortest) / (self._scale * math.log(10))

    def timeout(self, threshold: float) -> float:
        """The silence at which the level reaches `threshold`."""
        return self.shortest + threshold * math.log(10) * self._scale
