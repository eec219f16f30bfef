"""The round trip's estimate and the retransmission time-out drawn from it (RFC 6298)."""

from __future__ import annotations

GRANULARITY = 0.001
"""Seconds: the least variation that the time-out allows for (the RFC's G)."""


class RoundTrip:
    """SRTT, RTTVAR and the time-out with its back-off.

    Samples come from what was sent once only (Karn's rule); the back-off doubles at each time-out and
    ends with the next acknowledgement.
    """

    __slots__ = ("_base", "_max", "_min", "backoff", "smoothed", "variation")

    def __init__(self, initial: float, least: float, most: float) -> None:
        self.smoothed: float | None = None
        self.variation = 0.0
        self.backoff = 1
        self._base = initial
        self._min = least
        self._max = most

    def sample(self, rtt: float) -> None:
        if self.smoothed is None:
            self.smoothed = rtt
            self.variation = rtt / 2
        else:
            self.variation += (abs(self.smoothed - rtt) - self.variation) / 4
            self.smoothed += (rtt - self.smoothed) / 8
        self._base = max(self.smoothed + max(GRANULARITY, 4 * self.variation), self._min)

    @property
    def timeout(self) -> float:
        return min(self._base * self.backoff, self._max)

    def timed_out(self) -> None:
        if self._base * self.backoff < self._max:
            self.backoff *= 2

    def answered(self) -> None:
        self.backoff = 1

    @property
    def patience(self) -> float:
        """How long an overtaken segment still counts as on its way: the time-out, but for its floor."""
        return (self.smoothed or self._base) + max(GRANULARITY, 4 * self.variation)
