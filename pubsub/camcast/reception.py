"""Reception: an event is taken the first time it is heard of (CAMCAST, figure 7).

Duplicates are recognised for `duplicate_lifetime` seconds after the event was first heard of, as long as no
more than `duplicate_capacity` newer events were heard of in the community. Beyond that a late copy is taken
for a new event: it would be delivered, and gossiped, a second time.
"""

from __future__ import annotations

from collections.abc import Mapping


class HeardEvents:
    """The ids of the events that one community has brought to this process, for a bounded time and memory."""

    __slots__ = ("_capacity", "_expiry", "_lifetime", "_oldest_expiry")

    def __init__(self, lifetime: float, capacity: int) -> None:
        self._lifetime = lifetime
        self._capacity = capacity
        self._expiry: dict[bytes, float] = {}
        self._oldest_expiry = 0.0

    @property
    def ids(self) -> Mapping[bytes, float]:
        """The ids, to look them up without a detour."""
        return self._expiry

    def __len__(self) -> int:
        return len(self._expiry)

    def __contains__(self, event_id: bytes) -> bool:
        return event_id in self._expiry

    def add(self, event_id: bytes, now: float) -> None:
        """Remember an event that was not known; ids are kept in the order of their expiry."""
        expiry = self._expiry
        if now >= self._oldest_expiry or len(expiry) >= self._capacity:
            self._forget(now)
        expiry[event_id] = now + self._lifetime

    def _forget(self, now: float) -> None:
        """Make room for one more: two out for one in, so that memory follows the rate down again."""
        expiry = self._expiry
        for _ in range(2):
            oldest = next(iter(expiry), None)
            if oldest is None or (expiry[oldest] > now and len(expiry) < self._capacity):
                break
            del expiry[oldest]
        self._oldest_expiry = next(iter(expiry.values()), now + self._lifetime)

    def resize(self, lifetime: float, capacity: int) -> None:
        """Hold new events to new bounds; what is remembered keeps its own expiry."""
        self._lifetime = lifetime
        self._capacity = capacity
        while len(self._expiry) > capacity:
            del self._expiry[next(iter(self._expiry))]
