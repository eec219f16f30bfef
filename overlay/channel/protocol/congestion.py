"""How many bytes may be on their way (NewReno: RFC 5681, RFC 6582, and RFC 9002's bookkeeping)."""

from __future__ import annotations

INITIAL_SEGMENTS = 10
LEAST_SEGMENTS = 4


class CongestionWindow:
    """Doubles every round trip until the first loss, then adds one segment every round trip.

    Losses of what was sent before the window was last halved say nothing new and change nothing.
    """

    __slots__ = ("_least", "_most", "_recovery", "_segment", "_threshold", "size")

    def __init__(self, segment: int, most_segments: int) -> None:
        """`segment`: bytes of a full one."""
        self._segment = segment
        self._least = LEAST_SEGMENTS * segment
        self._most = most_segments * segment
        self._threshold = self._most
        self._recovery = 0
        self.size = INITIAL_SEGMENTS * segment

    def acknowledged(self, size: int, number: int, was_full: bool) -> None:
        """`size` bytes arrived, the newest as transmission `number`; `was_full`: the window was in use."""
        if not was_full or number < self._recovery:
            return
        if self.size < self._threshold:
            grown = self.size + size
        else:
            grown = self.size + max(1, self._segment * size // self.size)
        self.size = min(grown, self._most)

    def lost(self, number: int, next_number: int) -> None:
        """Transmission `number` was lost, noticed when `next_number` was the next to be sent."""
        if number < self._recovery:
            return
        self._recovery = next_number
        self._threshold = max(self.size // 2, self._least)
        self.size = self._threshold

    def timed_out(self, in_flight: int, next_number: int) -> None:
        """Nothing is heard: begin again from the smallest window."""
        self._recovery = next_number
        self._threshold = max(in_flight // 2, self._least)
        self.size = self._least
