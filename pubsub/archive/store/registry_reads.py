"""The reads of a store that its registry answers, from memory."""

from __future__ import annotations

import threading

from pubsub.archive.store.interface import Entity
from pubsub.archive.store.registry import Registry


class RegistryReads:
    """Part of every store: entities, publishers, notes, highest numbers."""

    _registry: Registry
    _lock: threading.Lock

    def topics(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._registry.last))

    def last_sequence(self, topic: str) -> int:
        with self._lock:
            return self._registry.last.get(topic, 0)

    def entity(self, topic: str, name: str) -> Entity | None:
        with self._lock:
            return self._registry.entity(topic, name)

    def entities(self, topic: str) -> tuple[Entity, ...]:
        with self._lock:
            return tuple(self._registry.entities.get(topic, {}).values())

    def catenation(self, topic: str, publisher: bytes) -> int:
        with self._lock:
            return self._registry.catenations.get(topic, {}).get(publisher, 0)

    def catenations(self, topic: str) -> dict[bytes, int]:
        with self._lock:
            return dict(self._registry.catenations.get(topic, {}))

    def notes(self, topic: str, prefix: str = "") -> dict[str, bytes]:
        with self._lock:
            notes = self._registry.notes.get(topic, {})
            return {key: notes[key] for key in sorted(notes) if key.startswith(prefix)}
