"""Events that are dropped: each is counted under a reason, and has a row in the trace if one is written."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.contact import PeerId
from overlay.metrics import Metrics
from pubsub.camcast.observer import Observer
from pubsub.event import ID_BYTES


class EventDrops:
    """The one way in which a node drops events."""

    def __init__(self, metrics: Metrics, observer: Observer | None = None) -> None:
        self._family = metrics.family("events_dropped", "reason", "Events dropped, by reason.")
        self._observer = observer

    def add(
        self, reason: str, topic: str, events: Sequence[bytes], peer: PeerId | None = None
    ) -> None:
        """Drop the events of these ids, of the community of `topic`; `peer`: who they came from, or go to.

        What cannot be an id stands for an event of which it is not known: its row names none."""
        self._family.add(reason, len(events))
        if self._observer is not None:
            for event in events:
                known = event if len(event) == ID_BYTES else None
                self._observer.record("drop", topic, event=known, peer=peer, detail=reason)
