"""How strongly a silent peer is suspected, learned from how long it took to answer before.

A peer that does not answer is asked again every r seconds. If question or answer is lost with chance q, the
time to answer is a constant part (the way there and back) and a rest that exceeds t with chance about
q^(t/r); its mean is m = r q / (1 - q), and so q^(t/r) = exp(-t/s) with s = r / ln(1 + r/m). The *suspicion
level* after a silence is minus log10 of that chance: it accrues, and whoever asks sets the threshold. (The
accrual detector of Hayashibara et al., SRDS 2004, with the tail that repeated questions have, in place of a
normal one.)
"""

from __future__ import annotations

import math

PRIOR = 8
"""Answers for which the expectation counts until there are answers."""

MEMORY = 32
"""Answers over which the mean is taken, the newer weighing more."""

FALL = 1 / 8
RISE = 1 / 64
"""How fast the constant part follows faster and slower answers: it stays near the fastest usual ones."""

LEAST_REST = 0.001
"""Seconds: the least mean of the rest."""


class AnswerTime:
    """What is known of how long one peer takes to answer."""

    __slots__ = ("_mean", "_weight", "shortest")

    def __init__(self, expected: float) -> None:
        """`expected`: seconds, assumed until there are answers."""
        self.shortest = expected / 2
        self._mean = expected
        self._weight = PRIOR

    def sample(self, seconds: float) -> None:
        self._weight = min(self._weight + 1, MEMORY)
        self._mean += (seconds - self._mean) / self._weight
        gap = seconds - self.shortest
        self.shortest += gap * (FALL if gap < 0 else RISE)

    def _scale(self, retry: float) -> float:
        rest = max(self._mean - self.shortest, LEAST_REST)
        return retry / math.log1p(retry / rest)

    def level(self, silence: float, retry: float) -> float:
        """The suspicion level after so many seconds of questions `retry` seconds apart without an answer."""
        return max(0.0, silence - self.shortest) / (self._scale(retry) * math.log(10))

    def timeout(self, threshold: float, retry: float) -> float:
        """The silence at which the level reaches `threshold`."""
        return self.shortest + threshold * math.log(10) * self._scale(retry)
