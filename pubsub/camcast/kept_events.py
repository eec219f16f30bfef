"""Events kept for those who were only told of them."""

from __future__ import annotations

from collections.abc import Sequence

from pubsub.event import Gossip

_BYTES_AROUND_AN_EVENT = 256


class KeptEvents:
    """The latest events, by id: those of the last `seconds`, as far as they fit half of `limit` bytes.

    They are let go in halves, so that keeping one costs next to nothing."""

    __slots__ = ("_bytes", "_half", "_new", "_old", "_seconds", "_since")

    def __init__(self, limit: int, seconds: float) -> None:
        self._half = limit // 2
        self._seconds = seconds
        self._new: dict[bytes, Gossip] = {}
        self._old: dict[bytes, Gossip] = {}
        self._bytes = 0
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def add(self, gossips: Sequence[Gossip], now: float) -> None:
        if self._bytes > self._half or now > self._since + self._seconds:
            self._old, self._new = self._new, {}
            self._bytes = 0
            self._since = now
        kept, size = self._new, 0
        for gossip in gossips:
            kept[gossip.id] = gossip
            size += len(gossip.body) + len(gossip.signature) + _BYTES_AROUND_AN_EVENT
        self._bytes += size

    def resize(self, limit: int, seconds: float) -> None:
        """Keep to other bounds from the next event on."""
        self._half = limit // 2
        self._seconds = seconds

    def get(self, event_id: bytes) -> Gossip | None:
        return self._new.get(event_id) or self._old.get(event_id)
