"""What the records of an append-only log add up to, in memory.

`survivors` says what must be written again before a segment can be removed.

`recover` reads a log back after a stop, a crash, or worse. Batches are written one after the other, each
synced before the next begins. So only the last batch of the log can be torn; whatever is wrong before it
has been synced once and has changed since. The last batch was synced too if the mark beside the log says
so. From this:

- A torn batch is dropped whole, as if it had never been written: none of it had been acknowledged.
- Of a synced batch everything that can be read counts, and the rest is reported as damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pubsub.archive.store.changes import (
    Change,
    Drop,
    ForgetReplica,
    ForgetTopic,
    Held,
    ReplicaStored,
    StoredEvent,
)
from pubsub.archive.store.event_index import EventIndex, EventPlace, IndexedReplicas
from pubsub.archive.store.registry import Pending, Registry
from pubsub.archive.store.segment import (
    EVENT,
    FOOTER,
    HEADER,
    SNAPSHOT,
    FoundRecord,
    Segment,
    change_in,
    topic_check,
)
from pubsub.reliable.numbers import Numbers, Span


class LogState:
    """The registry, the places of events, the replicas' tables, and what is damaged."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.indexes: dict[str, EventIndex] = {}
        self.tables: dict[str, dict[bytes, IndexedReplicas]] = {}
        self.live: dict[int, int] = {}
        """Bytes of each segment's records of events that are in the index."""
        self.damaged: dict[str, Numbers] = {}
        """Numbers of events that were stored and are in no index."""
        self.named: dict[str, dict[int, bytes]] = {}
        """The ids of damaged events, as far as they are known."""

    def index(self, topic: str) -> EventIndex:
        return self.indexes.get(topic) or _EMPTY

    def settle(self, batch: Iterable[tuple[Change, EventPlace | None]]) -> None:
        """Take a synced batch in."""
        pending = Pending(self.registry)
        for change, place in batch:
            pending.apply(change)
            self._apply(change, place)
        self.registry.settle(pending)

    def _apply(self, change: Change, place: EventPlace | None) -> None:
        match change:
            case StoredEvent() as event:
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
                table = tables.setdefault(replica, IndexedReplicas())
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

    def snapshot(self) -> list[Change]:
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

    def restore(self, snapshot: Iterable[Change]) -> None:
        """Begin again with a snapshot that is whole: what it does not hold has been removed before it."""
        self.registry = Registry()
        held: dict[str, Held] = {}
        changes: list[tuple[Change, EventPlace | None]] = []
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
        if isinstance(change, StoredEvent):
            index = log.index(change.topic)
            row = index.row_of(change.sequence)
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


@dataclass
class Recovery:
    """What was found in a log when it was opened."""

    state: LogState = field(default_factory=LogState)
    last_batch: int = 0
    """The highest number of a batch that was, or may have been, synced."""
    tail: str = ""
    """What is wrong with the end of the log: `torn`, `corrupt`, or nothing."""
    state_damaged: bool = False
    """A change other than an event was lost, and no later snapshot makes up for it."""
    clean_end: bool = True
    """Nothing but whole records before the end of the last segment."""
    last_seen: dict[str, int] = field(default_factory=dict)
    """The number of each topic's latest event so far."""
    topics: dict[int, str] = field(default_factory=dict)
    """The topics that any record names, by their checksums."""
    salvaged: list[StoredEvent] = field(default_factory=list)
    """Events to be written again: they were read though their headers cannot be."""
    holes: list[dict[str, int]] = field(default_factory=list)
    """For each stretch of bytes whose headers are gone: `last_seen` before it, as far as not closed yet."""


def recover(segments: list[Segment], synced_batch: int) -> Recovery:
    """Read the segments, oldest first, cut a torn batch off the last one, and put the rest together."""
    recovery = Recovery()
    scans = [segment.scan() for segment in segments]
    last = max((one.header.batch for scan in scans for one in scan if one.header), default=0)
    if scans and all(one.header is None for one in scans[-1]):
        synced_batch = max(synced_batch, last)  # or the last segment would not have been begun
    of_last = [one for scan in scans for one in scan if one.header and one.header.batch == last]
    cut_from: int | None = last + 1
    if not _is_whole(of_last) and last > synced_batch:
        cut_from = last
    elif synced_batch > last or not _has_end(of_last):
        cut_from, recovery.tail, recovery.clean_end = None, "corrupt", False
    recovery.last_batch = max(last, synced_batch)
    for scan in scans:
        for one in scan:
            if one.body is not None and not _is_footer(one):
                change = change_in(one)
                recovery.topics[topic_check(change.topic)] = change.topic
    for segment, scan in zip(segments, scans, strict=True):
        if segment is segments[-1] and cut_from is not None:
            scan = _cut(recovery, segment, scan, cut_from)
        _replay(recovery, segment, scan)
    _close_holes(recovery)
    return recovery


def _is_whole(records: list[FoundRecord]) -> bool:
    """Whether all records of a batch can be read; of its footer it is enough that it is there, uncut."""
    return (
        all(one.body is not None or _is_footer(one) for one in records)
        and [one.header.index for one in records if one.header] == list(range(len(records)))
        and _has_end(records)
    )


def _has_end(records: list[FoundRecord]) -> bool:
    return not records or _is_footer(records[-1])


def _is_footer(found: FoundRecord) -> bool:
    header = found.header
    is_uncut = header is not None and found.end - found.offset == HEADER + header.length
    return header is not None and header.kind == FOOTER and is_uncut


def _cut(
    recovery: Recovery, segment: Segment, scan: list[FoundRecord], cut_from: int
) -> list[FoundRecord]:
    """Cut a torn batch off the end: its records, and bytes behind the last record that counts."""
    keep = [place for place, one in enumerate(scan) if one.header and one.header.batch < cut_from]
    kept = keep[-1] + 1 if keep else 0
    if kept == len(scan):
        recovery.clean_end = not scan or scan[-1].body is not None
        return scan
    recovery.tail = "torn"
    segment.truncate(scan[kept].offset)
    return scan[:kept]


def _replay(recovery: Recovery, segment: Segment, scan: list[FoundRecord]) -> None:
    """Take a segment's records in, batch by batch."""
    start = 0
    for place, one in enumerate(scan):
        following = scan[place + 1].header if place + 1 < len(scan) else None
        if one.header is None or following is None or following.batch != one.header.batch:
            _take(recovery, segment, scan[start : place + 1])
            start = place + 1


def _take(recovery: Recovery, segment: Segment, pieces: Sequence[FoundRecord]) -> None:
    whole = _is_whole(list(pieces))
    if any(one.body is None or one.is_restored for one in pieces):
        segment.is_damaged = True
    pieces = [one for one in pieces if not _is_footer(one)]
    changes = [(change_in(one), _place(segment, one)) for one in pieces if one.body is not None]
    if pieces and whole and all(one.header and one.header.kind == SNAPSHOT for one in pieces):
        recovery.state.restore([change for change, _ in changes])
        recovery.state_damaged = False
        recovery.holes = []  # the snapshot tells what is missing
        return
    recovery.state.settle(
        [(change, place) for change, place in changes if not isinstance(change, Held)]
    )
    for one in pieces:
        change = change_in(one) if one.is_restored and one.body is not None else None
        if isinstance(change, StoredEvent):
            recovery.salvaged.append(change)
        _note(recovery, segment, one)
    if any(one.header and one.header.kind == SNAPSHOT for one in pieces):
        recovery.state_damaged = True


def _place(segment: Segment, found: FoundRecord) -> EventPlace | None:
    is_event = found.header is not None and found.header.kind == EVENT
    return EventPlace(segment.number, found.offset, found.end - found.offset) if is_event else None


def _note(recovery: Recovery, segment: Segment, one: FoundRecord) -> None:
    """Keep track of damage, and of the numbers on both sides of it."""
    if one.header is None:
        recovery.state_damaged = True
        recovery.holes.append(dict(recovery.last_seen))
        return
    topic = recovery.topics.get(one.header.topic_check, "")
    if one.body is None:
        if one.header.kind == EVENT:
            last = recovery.state.registry.last
            last[topic] = max(last.get(topic, 0), one.header.sequence)  # not to be given again
            recovery.state.spoil(topic, Span(one.header.sequence, one.header.sequence))
            recovery.state.name(topic, one.header.sequence, one.header.id)
        else:
            recovery.state_damaged = True
    if one.header.kind == EVENT:
        for hole in recovery.holes:
            if topic not in hole or hole[topic] >= 0:
                _spoil_between(recovery, topic, hole.get(topic, 0), one.header.sequence)
                hole[topic] = -1
        recovery.last_seen[topic] = one.header.sequence


def _close_holes(recovery: Recovery) -> None:
    """Holes that no later event of a topic has closed reach to the highest number."""
    for hole in recovery.holes:
        for topic, last in recovery.state.registry.last.items():
            if hole.get(topic, 0) >= 0:
                _spoil_between(recovery, topic, hole.get(topic, 0), last + 1)


def _spoil_between(recovery: Recovery, topic: str, before: int, after: int) -> None:
    if before + 1 < after:
        recovery.state.spoil(topic, Span(before + 1, after - 1))
