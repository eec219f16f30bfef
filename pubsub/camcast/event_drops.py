"""Events that are dropped: each is counted under a reason, and has a row in the trace if one is written."""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import PeerId
from overlay.metrics import Metrics
from pubsub.camcast.observer import Observer


class EventDrops:
    """The one way in which a node drops events."""

    def __init__(self, metrics: Metrics, observer: Observer | None = None) -> None:
        self._family = metrics.family("events_dropped", "reason", "Events dropped, by reason.")
        self._observer = observer

    def add(
        self, reason: str, topic: str, events: Iterable[bytes], peer: PeerId | None = None
    ) -> None:
        """Drop the events of these ids, of the community of `topic`; `peer`: who they came from, or go to."""
        count = 0
        for event in events:
            count += 1
            if self._observer is not None:
                self._observer.record("drop", topic, event=event, peer=peer, detail=reason)
        self._family.add(reason, count)
