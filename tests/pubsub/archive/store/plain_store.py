"""A store that is obviously right and keeps nothing: the reference for the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pubsub.archive.store import (
    Change,
    Drop,
    ForgetTopic,
    Holding,
    StoredEvent,
)
from pubsub.archive.store.registry import Pending, Registry
from pubsub.reliable.numbers import Span


class PlainStore:
    """Lists and dicts; every answer is looked for in all events."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.all: dict[str, dict[int, StoredEvent]] = {}

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            pending = Pending(self.registry)
            pending.apply(change)
            self.registry.settle(pending)
            match change:
                case StoredEvent() as event:
                    self.all.setdefault(event.topic, {})[event.sequence] = event
                case Drop(topic, spans, _):
                    self._drop(topic, spans)
                case ForgetTopic(topic):
                    self.all.pop(topic, None)

    def _drop(self, topic: str, spans: Iterable[Span]) -> None:
        for first, last in spans:
            for event in [e for e in self.inventory(topic) if first <= e.sequence <= last]:
                del self.all[topic][event.sequence]

    def inventory(self, topic: str) -> list[StoredEvent]:
        return [event for _, event in sorted(self.all.get(topic, {}).items())]

    def holdings(self, topic: str) -> list[Holding]:
        return [
            Holding(e.sequence, e.time, len(e.body), self.waiting(topic, e), e.id, e.publisher)
            for e in self.inventory(topic)
        ]

    def waiting(self, topic: str, event: StoredEvent) -> tuple[str, ...]:
        return tuple(
            name
            for name in event.destinations
            if (entity := self.registry.get(topic, "entity", name)) and event.sequence > entity.done
        )
