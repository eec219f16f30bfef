"""What a process tells: one call for each thing that happens, for traces and tests, and a count of drops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from overlay.contact import PeerId
from overlay.metrics import Metrics
from pubsub.event import event_ids

ONE = (range(1),)
"""One event, of which the number is not known."""


class Observer(Protocol):
    """`kind` is one of `pubsub.trace.KINDS`, which docs/traces.md describes."""

    def record(
        self,
        kind: str,
        topic: str,
        *,
        event: bytes | None = None,
        peer: PeerId | None = None,
        hops: int | None = None,
        detail: str | None = None,
    ) -> None: ...


class EventDrops:
    """The one way in which a node drops events: counted under a reason, with a row in the trace for each."""

    def __init__(self, metrics: Metrics, observer: Observer | None = None) -> None:
        self._family = metrics.family("events_dropped", "reason", "Events dropped, by reason.")
        self._observer = observer

    def add(
        self,
        reason: str,
        topic: str,
        source: bytes | None = None,
        numbers: Sequence[range] = ONE,
        peer: PeerId | None = None,
    ) -> None:
        """Drop these events, of the community of `topic`; `peer`: who they came from, or go to.

        Without a source it is not known which event it is: its row names none."""
        self._family.add(reason, sum(map(len, numbers)))
        if self._observer is not None:
            known = [None] if source is None else event_ids(source, numbers)
            for event in known:
                self._observer.record("drop", topic, event=event, peer=peer, detail=reason)
