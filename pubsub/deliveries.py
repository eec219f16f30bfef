"""What becomes of events at a node's subscriptions: each is delivered, or dropped for a reason.

Both are counted, and have a row in the trace where one is written. An event that is delivered and then makes
room for a newer one before the application took it is both.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.metrics import Metrics
from pubsub.camcast.event_drops import EventDrops
from pubsub.camcast.observer import Observer
from pubsub.event import Event
from pubsub.topic import Pattern


class Deliveries:
    """The account that all subscriptions of a node keep."""

    def __init__(self, metrics: Metrics, observer: Observer | None = None) -> None:
        self._delivered = metrics.counter("events_delivered", "Events given to subscriptions.")
        self._drops = EventDrops(metrics, observer)
        self._observer = observer

    def delivered(self, pattern: Pattern, events: Sequence[Event]) -> None:
        """These events are in the queue of a subscription to `pattern`."""
        self._delivered.value += len(events)
        if self._observer is not None:
            for event in events:
                self._observer.record(
                    "deliver",
                    pattern.topic.name,
                    event=event.id,
                    hops=event.hops,
                    detail=pattern.text,
                )

    def dropped(self, reason: str, pattern: Pattern, events: Sequence[Event]) -> None:
        """The application will not get these events, which `pattern` matches."""
        self._drops.add(reason, pattern.topic.name, [event.id for event in events])
