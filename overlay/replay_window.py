"""Which counters of one sender have been seen, in the manner of IPsec (RFC 4303, section 3.4.3)."""

from __future__ import annotations

WINDOW = 1024
"""Datagrams: how far behind the newest a late one may arrive and still be taken."""

_MASK = (1 << WINDOW) - 1


class ReplayWindow:
    """Takes each counter once; what is more than `WINDOW` behind the newest is taken for seen.

    Asking and marking are apart, so that a counter is marked only once its datagram proved genuine.
    """

    __slots__ = ("_newest", "_seen")

    def __init__(self) -> None:
        self._newest = -1
        self._seen = 0  # bit i: newest - i was seen

    def is_new(self, counter: int) -> bool:
        behind = self._newest - counter
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def mark(self, counter: int) -> None:
        ahead = counter - self._newest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _MASK if ahead < WINDOW else 1
            self._newest = counter
        else:
            self._seen |= 1 << -ahead & _MASK
