"""The small state of a store, in memory: entities, sync points, catenation numbers, notes, highest numbers.

Every store keeps it here and writes it down in its own way. A batch is first applied to a `Pending`, which
sees the registry through its own changes; `settle` makes them the registry's once they are synced.

`RegistryReads` has the reads of a store that its registry answers, from memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pubsub.archive.store.changes import (
    AdvanceSync,
    Catenate,
    Change,
    Deregister,
    Drop,
    EntityGap,
    ForgetStreams,
    ForgetTopic,
    GapsTold,
    Note,
    PutProfile,
    Register,
    Reserve,
    StoredEvent,
)
from pubsub.archive.store.interface import Entity
from pubsub.reliable.numbers import Span

MOST_GAPS = 64
"""Gaps that are kept for an entity that has not been told; beyond, the two oldest become one."""

K = TypeVar("K")
V = TypeVar("V")


class Registry:
    """What has been synced of topics, entities, catenation numbers and notes."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.entities: dict[str, dict[str, Entity]] = {}
        self.catenations: dict[str, dict[bytes, int]] = {}
        self.notes: dict[str, dict[str, bytes]] = {}

    def entity(self, topic: str, name: str) -> Entity | None:
        return self.entities.get(topic, {}).get(name)

    def waiting(self, topic: str, sequence: int, audience: Iterable[str]) -> tuple[str, ...]:
        """The names in an event's audience that are still registered and have not had the event."""
        entities = self.entities.get(topic, {})
        return tuple(
            name for name in audience if name in entities and sequence > entities[name].sync
        )

    def forget(self, topic: str) -> None:
        for part in (self.last, self.entities, self.catenations, self.notes):
            part.pop(topic, None)

    def settle(self, pending: Pending) -> None:
        for topic in pending.forgotten:
            self.forget(topic)
        self.last |= pending.last
        for (topic, name), entity in pending.entities.items():
            if (topic, name) in pending.registered:
                _put(self.entities, topic, name, None)
            _put(self.entities, topic, name, entity)
        for (topic, publisher), catenation in pending.catenations.items():
            _put(self.catenations, topic, publisher, catenation)
        for (topic, key), value in pending.notes.items():
            _put(self.notes, topic, key, value)

    def changes(self) -> Iterator[Change]:
        """Changes that make an empty registry equal to this one."""
        for topic, last in self.last.items():
            yield Reserve(topic, last)
        for topic, entities in self.entities.items():
            for entity in entities.values():
                yield from _entity_changes(topic, entity)
        for topic, catenations in self.catenations.items():
            for publisher, catenation in catenations.items():
                yield Catenate(topic, publisher, catenation)
        for topic, notes in self.notes.items():
            for key, value in notes.items():
                yield Note(topic, key, value)


class Pending:
    """What a batch makes of a registry: the values it changed, None for those it removed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.forgotten: dict[str, None] = {}
        """Topics whose former state goes before anything below is put."""
        self.last: dict[str, int] = {}
        self.entities: dict[tuple[str, str], Entity | None] = {}
        self.registered: dict[tuple[str, str], None] = {}
        """The entities among them that begin anew, behind all others."""
        self.catenations: dict[tuple[str, bytes], int | None] = {}
        self.notes: dict[tuple[str, str], bytes | None] = {}

    def apply(self, change: Change) -> None:
        """Take a change into account; those of the inventory and of replicas leave no trace here."""
        if type(change) is StoredEvent:  # first of all, for nearly all of them are
            self._append(change)
            return
        match change:
            case Reserve(topic, last):
                self._use(topic, last)
            case Catenate(topic, publisher, catenation):
                self._catenate(topic, publisher, catenation)
            case ForgetStreams(topic, publishers):
                self._use(topic, 0)
                self.catenations.update(((topic, publisher), None) for publisher in publishers)
            case Note(topic, key, value):
                self._use(topic, 0)
                self.notes[topic, key] = value
            case ForgetTopic(topic):
                self._forget(topic)
            case Drop(topic, _, gaps):
                for gap in gaps:
                    self._change(topic, gap.entity, partial(_with_gap, gap))
            case _:
                self._apply_to_entity(change)

    def _append(self, event: StoredEvent) -> None:
        last = self.last.get(event.topic)
        if last is None:
            self._use(event.topic, event.sequence)
        elif event.sequence > last:
            self.last[event.topic] = event.sequence
        before = self.catenations.get((event.topic, event.publisher))
        if before is None:
            self._catenate(event.topic, event.publisher, event.catenation)
        elif event.catenation > before:
            self.catenations[event.topic, event.publisher] = event.catenation

    def _apply_to_entity(self, change: Change) -> None:
        match change:
            case Register(topic, name, epoch):
                self._use(topic, epoch)
                if self._entity(topic, name) is None:
                    self.entities.pop((topic, name), None)
                    self.entities[topic, name] = Entity(name, epoch, epoch, {}, ())
                    self.registered[topic, name] = None
            case Deregister(topic, name):
                self.entities[topic, name] = None
            case PutProfile(topic, name, profile_name, sequence, profile):
                self._use(topic, sequence)
                self._change(topic, name, lambda one: _with_profile(one, profile_name, profile))
            case AdvanceSync(topic, name, sync):
                self._change(topic, name, lambda one: _advanced(one, sync))
            case GapsTold(topic, name, last):
                self._change(topic, name, lambda one: _told(one, last))

    def _entity(self, topic: str, name: str) -> Entity | None:
        if (topic, name) in self.entities:
            return self.entities[topic, name]
        return None if topic in self.forgotten else self._registry.entity(topic, name)

    def _change(self, topic: str, name: str, change: Callable[[Entity], Entity]) -> None:
        """Change an entity; one that is not registered stays so."""
        entity = self._entity(topic, name)
        if entity is not None:
            self.entities[topic, name] = change(entity)

    def _use(self, topic: str, sequence: int) -> None:
        kept = 0 if topic in self.forgotten else self._registry.last.get(topic, 0)
        self.last[topic] = max(self.last.get(topic, kept), sequence)

    def _catenate(self, topic: str, publisher: bytes, catenation: int) -> None:
        self._use(topic, 0)
        kept = 0
        if topic not in self.forgotten:
            kept = self._registry.catenations.get(topic, {}).get(publisher, 0)
        before = self.catenations.get((topic, publisher), kept) or 0
        self.catenations[topic, publisher] = max(before, catenation)

    def _forget(self, topic: str) -> None:
        self.forgotten[topic] = None
        self.last.pop(topic, None)
        _remove_topic(self.entities, topic)
        _remove_topic(self.catenations, topic)
        _remove_topic(self.notes, topic)


def _with_profile(entity: Entity, name: str, profile: bytes) -> Entity:
    others = {key: value for key, value in entity.profiles.items() if key != name}
    return replace(entity, profiles={**others, name: profile})


def _advanced(entity: Entity, sync: int) -> Entity:
    return replace(entity, sync=max(sync, entity.sync))


def _with_gap(gap: EntityGap, entity: Entity) -> Entity:
    gaps = (*entity.gaps, gap)
    if len(gaps) > MOST_GAPS:
        first, second, *rest = gaps
        span = Span(
            min(first.span.first, second.span.first), max(first.span.last, second.span.last)
        )
        gaps = (EntityGap(gap.entity, span, first.events + second.events), *rest)
    return replace(entity, gaps=gaps)


def _told(entity: Entity, last: int) -> Entity:
    return replace(entity, gaps=tuple(gap for gap in entity.gaps if gap.span.last > last))


def _entity_changes(topic: str, entity: Entity) -> Iterator[Change]:
    yield Register(topic, entity.name, entity.epoch)
    for name, profile in entity.profiles.items():
        yield PutProfile(topic, entity.name, name, 0, profile)
    yield AdvanceSync(topic, entity.name, entity.sync)
    if entity.gaps:
        yield Drop(topic, (), entity.gaps)


def _put(table: dict[str, dict[K, V]], topic: str, key: K, value: V | None) -> None:
    rows = table.setdefault(topic, {})
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def _remove_topic(table: dict[tuple[str, K], V], topic: str) -> None:
    for key in [key for key in table if key[0] == topic]:
        del table[key]


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

    def catenations(self, topic: str) -> dict[bytes, int]:
        with self._lock:
            return dict(self._registry.catenations.get(topic, {}))

    def notes(self, topic: str, prefix: str = "") -> dict[str, bytes]:
        with self._lock:
            notes = self._registry.notes.get(topic, {})
            return {key: notes[key] for key in sorted(notes) if key.startswith(prefix)}
