"""What the records of an append-only log add up to, in memory.

`survivors` says what must be written again before a segment can be removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubsub.archive.store.change_codec import Held
from pubsub.archive.store.changes import (
    Append,
    Change,
    Drop,
    ForgetReplica,
    ForgetTopic,
    ReplicaStored,
)
from pubsub.archive.store.event_index import EventIndex, Place, ReplicaTable
from pubsub.archive.store.registry import Pending, Registry
from pubsub.archive.store.segment import FOOTER, Segment, change_in
from pubsub.reliable.numbers import Numbers, Span


class LogState:
    """The registry, the places of events, the replicas' tables, and what is damaged."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.indexes: dict[str, EventIndex] = {}
        self.tables: dict[str, dict[bytes, ReplicaTable]] = {}
        self.live: dict[int, int] = {}
        """Bytes of each segment's records of events that are in the index."""
        self.damaged: dict[str, Numbers] = {}
        """Numbers of events that were stored and are in no index."""
        self.named: dict[str, dict[int, bytes]] = {}
        """The ids of damaged events, as far as they are known."""

    def index(self, topic: str) -> EventIndex:
        return self.indexes.get(topic) or _EMPTY

    def settle(self, batch: Iterable[tuple[Change, Place | None]]) -> None:
        """Take a synced batch in."""
        pending = Pending(self.registry)
        for change, place in batch:
            pending.apply(change)
            self._apply(change, place)
        self.registry.settle(pending)

    def _apply(self, change: Change, place: Place | None) -> None:
        match change:
            case Append(event):
                assert place is not None
                index = self.indexes.get(event.topic)
                if index is None:
                    index = self.indexes[event.topic] = EventIndex()
                if index.row_of(event.sequence) is not None:
                    self._free(index.drop([Span(event.sequence, event.sequence)]))
                index.put(event, place)
                self.live[place.segment] = self.live.get(place.segment, 0) + place.length
                if self.damaged:
                    self._mend(event.topic, Span(event.sequence, event.sequence))
            case Drop(topic, spans, _):
                self._drop(topic, spans)
            case ReplicaStored(topic, replica, stored):
                tables = self.tables.setdefault(topic, {})
                table = tables.setdefault(replica, ReplicaTable())
                for id, sequence in stored:
                    table.put(id, sequence)
            case ForgetReplica(topic, replica):
                self.tables.get(topic, {}).pop(replica, None)
            case ForgetTopic(topic):
                self._drop(topic, (_EVERYTHING,))
                self.indexes.pop(topic, None)
                self.tables.pop(topic, None)

    def _drop(self, topic: str, spans: Iterable[Span]) -> None:
        """Remove events, the replicas' numbers for them, and whatever was damaged among them."""
        index, tables = self.index(topic), self.tables.get(topic, {})
        for span in spans:
            for row in range(index.above(span.first - 1), index.above(span.last)):
                for table in tables.values():
                    table.remove(index.id(row))
            self._mend(topic, span)
        self._free(index.drop(spans))

    def _free(self, freed: dict[int, int]) -> None:
        for segment, size in freed.items():
            self.live[segment] -= size

    # -- damage --

    def spoil(self, topic: str, span: Span) -> None:
        """The events of a span cannot be read, as far as they are in no index."""
        spoilt = self.damaged.setdefault(topic, Numbers(most=None))
        spoilt.add_span(*span)
        index = self.index(topic)
        for row in range(index.above(span.first - 1), index.above(span.last)):
            spoilt.remove(index.sequences[row])
        if not spoilt:
            del self.damaged[topic]

    def name(self, topic: str, sequence: int, id: bytes) -> None:
        """The damaged event of this number had this id."""
        if sequence in self.damaged.get(topic, Numbers()):
            self.named.setdefault(topic, {})[sequence] = id

    def lose(self, topic: str, sequence: int) -> None:
        """An event that is in the index cannot be read any more."""
        index = self.index(topic)
        row = index.row_of(sequence)
        id = b"" if row is None else index.id(row)
        self._free(index.drop([Span(sequence, sequence)]))
        self.spoil(topic, Span(sequence, sequence))
        self.name(topic, sequence, id)

    def _mend(self, topic: str, span: Span) -> None:
        if topic not in self.damaged:
            return
        self.damaged[topic].remove(*span)
        named = self.named.get(topic, {})
        for sequence in [one for one in named if span.first <= one <= span.last]:
            del named[sequence]
        if not self.damaged[topic]:
            del self.damaged[topic]
            self.named.pop(topic, None)

    # -- snapshots --

    def snapshot(self) -> list[Change | Held]:
        """Everything but the events themselves and the lines of replicas' tables."""
        held = [
            Held(topic, self._held(topic), self._lines(topic))
            for topic in sorted({**self.registry.last, **self.indexes, **self.tables})
        ]
        return [*self.registry.changes(), *held]

    def _held(self, topic: str) -> tuple[Span, ...]:
        """What is there, and what is not there and should be."""
        held = self.index(topic).held()
        for span in self.damaged.get(topic, Numbers(most=None)).spans():
            held.add_span(*span)
        return held.spans()

    def _lines(self, topic: str) -> tuple[tuple[bytes, tuple[Span, ...]], ...]:
        tables = self.tables.get(topic, {})
        return tuple((replica, table.sequences().spans()) for replica, table in tables.items())

    def restore(self, snapshot: Iterable[Change | Held]) -> None:
        """Begin again with a snapshot that is whole: what it does not hold has been removed before it."""
        self.registry = Registry()
        held: dict[str, Held] = {}
        changes: list[tuple[Change, Place | None]] = []
        for change in snapshot:
            if isinstance(change, Held):
                held[change.topic] = change
            else:
                changes.append((change, None))
        self.settle(changes)
        for topic in {**self.indexes, **self.tables}:
            self._keep(topic, held.get(topic, Held(topic, (), ())))
        self.damaged = {}
        for topic, one in held.items():
            for span in one.spans:
                self.spoil(topic, span)

    def _keep(self, topic: str, held: Held) -> None:
        spans = Numbers(most=None, spans=held.spans)
        gone = Numbers.of(s for s in self.index(topic).sequences if s not in spans)
        self._free(self.index(topic).drop(gone.spans()))
        lines = dict(held.lines)
        for replica, table in list(self.tables.get(topic, {}).items()):
            if replica in lines:
                table.keep(Numbers(most=None, spans=lines[replica]))
            else:
                del self.tables[topic][replica]


_EMPTY = EventIndex()
_EVERYTHING = Span(0, (1 << 64) - 1)


def survivors(log: LogState, segment: Segment) -> list[Change]:
    """The events of a segment that are still there, and the lines of replicas' tables that still hold.

    All other changes are in the snapshot of a later segment."""
    rest: list[Change] = []
    for found in segment.scan():
        if found.body is None or found.header is None or found.header.kind == FOOTER:
            continue
        change = change_in(found)
        if isinstance(change, Append):
            index = log.index(change.event.topic)
            row = index.row_of(change.event.sequence)
            if row is not None and index.place(row)[:2] == (segment.number, found.offset):
                rest.append(change)
        elif isinstance(change, ReplicaStored):
            table = log.tables.get(change.topic, {}).get(change.replica)
            lines = tuple(
                line
                for line in change.stored
                if table is not None and table.sequence(line[0]) == line[1]
            )
            if lines:
                rest.append(ReplicaStored(change.topic, change.replica, lines))
    return rest
