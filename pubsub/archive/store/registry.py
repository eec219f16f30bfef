"""The small state of a store, in memory: rows of four kinds in every topic.

    kind         key                  value
    last         (none)               the highest sequence number that was used
    entity       its name             an `Entity`
    catenation   a stream's name      its highest catenation number
    note         its key              a few bytes of the archive's own

Every store keeps the rows here and writes them down in its own way. A batch is first applied to a `Pending`,
which sees the registry through its own changes; `settle` makes them the registry's once they are synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from pubsub.archive.store.changes import (
    AdvanceSync,
    Catenate,
    Change,
    Deregister,
    Drop,
    ForgetStreams,
    ForgetTopic,
    GapsTold,
    Note,
    PutEntity,
    Reserve,
    StoredEvent,
)
from pubsub.archive.store.gaps import EntityGap, with_gap

Kind = Literal["last", "entity", "catenation", "note"]
Key = str | bytes
Row = tuple[str, Kind, Key]
"""The topic, the kind and the key of a row."""


class Entity(NamedTuple):
    """A registered entity of a topic."""

    name: str
    done: int
    """It is done with everything for it up to this number."""
    sync: int
    """It has acknowledged everything for it up to this number."""
    state: bytes
    """What the archive itself keeps of it."""
    gaps: tuple[EntityGap, ...]
    """What was removed before it had it, and it has not been told of."""


class Registry:
    """What has been synced."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[Kind, dict[Key, Any]]] = {}

    def __iter__(self) -> Iterator[str]:
        """The topics of which anything is kept."""
        return iter(self._topics)

    def rows(self, topic: str, kind: Kind) -> dict[Any, Any]:
        """The values of one kind, by their keys."""
        kinds = self._topics.get(topic)
        return {} if kinds is None else kinds[kind]

    def get(self, topic: str, kind: Kind, key: Key = "") -> Any:
        """A value; None where there is none."""
        return self.rows(topic, kind).get(key)

    def put(self, topic: str, kind: Kind, key: Key, value: Any) -> None:
        kinds = self._topics.get(topic)
        if kinds is None:
            kinds = self._topics[topic] = {one: {} for one in get_args(Kind)}
        if value is None:
            kinds[kind].pop(key, None)
        else:
            kinds[kind][key] = value

    def last(self, topic: str) -> int:
        """The highest number that was used; 0 where none was."""
        return self.get(topic, "last") or 0

    def waiting(self, topic: str, sequence: int, audience: Iterable[str]) -> tuple[str, ...]:
        """The names in an event's audience that are still registered and have not had the event."""
        entities = self.rows(topic, "entity")
        return tuple(
            name for name in audience if name in entities and sequence > entities[name].done
        )

    def settle(self, pending: Pending) -> None:
        for topic in pending.forgotten:
            self._topics.pop(topic, None)
        for row, value in pending.changed.items():
            self.put(*row, value)

    def changes(self) -> Iterator[Change]:
        """Changes that make an empty registry equal to this one."""
        for topic in self:
            yield Reserve(topic, self.last(topic))
            for entity in self.rows(topic, "entity").values():
                yield from _entity_changes(topic, entity)
            for publisher, catenation in self.rows(topic, "catenation").items():
                yield Catenate(topic, publisher, catenation)
            for key, value in self.rows(topic, "note").items():
                yield Note(topic, key, value)


class Pending:
    """What a batch makes of a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.forgotten: dict[str, None] = {}
        """Topics whose former rows go before anything below is put."""
        self.changed: dict[Row, Any] = {}
        """The rows that are other ones now; None for those that are removed."""

    def get(self, topic: str, kind: Kind, key: Key = "") -> Any:
        if (topic, kind, key) in self.changed:
            return self.changed[topic, kind, key]
        return None if topic in self.forgotten else self._registry.get(topic, kind, key)

    def apply(self, change: Change) -> None:
        """Take a change into account; those of the inventory leave no trace here."""
        match change:
            case StoredEvent(topic, sequence, _, publisher, catenation):
                self.appended(topic, sequence, {publisher: catenation})
            case Reserve(topic, last):
                self._raise(topic, "last", "", last)
            case Catenate(topic, publisher, catenation):
                self._raise(topic, "last", "", 0)
                self._raise(topic, "catenation", publisher, catenation)
            case ForgetStreams(topic, publishers):
                self._raise(topic, "last", "", 0)
                for publisher in publishers:
                    self.changed[topic, "catenation", publisher] = None
            case Note(topic, key, value):
                self._raise(topic, "last", "", 0)
                self.changed[topic, "note", key] = value
            case ForgetTopic(topic):
                self.forgotten[topic] = None
                self.changed = {row: one for row, one in self.changed.items() if row[0] != topic}
            case _:
                self._apply_to_entity(change)

    def appended(self, topic: str, last: int, marks: Mapping[bytes, int]) -> None:
        """Events were stored: the highest number among them, and the highest of each publisher."""
        self._raise(topic, "last", "", last)
        for publisher, catenation in marks.items():
            self._raise(topic, "catenation", publisher, catenation)

    def _apply_to_entity(self, change: Change) -> None:
        match change:
            case PutEntity(topic, name, done, state):
                self._raise(topic, "last", "", 0)
                known = self.get(topic, "entity", name) or Entity(name, done, done, b"", ())
                self.changed[topic, "entity", name] = known._replace(state=state)
            case Deregister(topic, name):
                self.changed[topic, "entity", name] = None
            case AdvanceSync(topic, name, done, sync):
                self._change(topic, name, partial(_advanced, done, sync))
            case Drop(topic, _, gaps):
                for gap in gaps:
                    self._change(topic, gap.entity, partial(_with_gap, gap))
            case GapsTold(topic, name):
                self._change(topic, name, lambda one: one._replace(gaps=()))

    def _change(self, topic: str, name: str, change: Callable[[Entity], Entity]) -> None:
        """Change an entity; one that is not registered stays so."""
        entity = self.get(topic, "entity", name)
        if entity is not None:
            self.changed[topic, "entity", name] = change(entity)

    def _raise(self, topic: str, kind: Kind, key: Key, number: int) -> None:
        """A number never goes back."""
        row = (topic, kind, key)
        before = self.changed.get(row)
        if before is None:
            before = self.get(*row) or 0
            self.changed[row] = before
        if number > before:
            self.changed[row] = number


def _advanced(done: int, sync: int, entity: Entity) -> Entity:
    done = max(done, entity.done)
    return entity._replace(done=done, sync=max(done, sync, entity.sync))


def _with_gap(gap: EntityGap, entity: Entity) -> Entity:
    return entity._replace(gaps=tuple(with_gap(list(entity.gaps), gap)))


def _entity_changes(topic: str, entity: Entity) -> Iterator[Change]:
    yield PutEntity(topic, entity.name, entity.done, entity.state)
    yield AdvanceSync(topic, entity.name, entity.done, entity.sync)
    if entity.gaps:
        yield Drop(topic, (), entity.gaps)
