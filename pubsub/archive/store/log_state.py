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
from typing import Any

from pubsub.archive.store.changes import (
    Change,
    Drop,
    Held,
    ReplicaStored,
    StoredEvent,
)
from pubsub.archive.store.registry import Registry
from pubsub.archive.store.segment import (
    EVENT,
    SNAPSHOT,
    EventPlace,
    FoundRecord,
    Segment,
    change_in,
    topic_check,
)
from pubsub.archive.store.sql_tables import MAX_SEQUENCE, SEQUENCE_BITS, Names, SqlBatch
from pubsub.archive.store.sqlite import SqliteConnection, make_tables
from pubsub.reliable.numbers import Numbers, Span


class LogState:
    """The registry, an index of the events and of the replicas' tables, and what is damaged.

    The index has the tables of the SQL stores, in memory, with each event's place in the files: about 150
    bytes an event, whatever its size."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.names = Names()
        self.connection = SqliteConnection(":memory:", ("PRAGMA journal_mode=OFF",))
        make_tables(self.connection)
        self.live: dict[int, int] = {}
        """Bytes of each segment's records of events that are in the index."""
        self.damaged: dict[str, Numbers] = {}
        """Numbers of events that were stored and cannot be read."""
        self.named: dict[str, dict[int, bytes]] = {}
        """The ids of damaged events that are in no index, as far as they are known."""

    def settle(self, batch: Iterable[tuple[Change, EventPlace | None]]) -> None:
        """Take a synced batch in."""
        written = SqlBatch(
            self.connection, self.registry, self.names, keeps_registry=False, freed=self._free
        )
        self.connection.begin()
        for change, place in batch:
            if place is None:
                written.add(change)
            else:
                written.add(change, place.packed())
                self.live[place.segment] = self.live.get(place.segment, 0) + place.length
        written.finish()
        self.connection.commit()
        written.settle()
        if self.damaged:
            for topic, span in written.mended:
                self._mend(topic, span)

    def _free(self, packed: bytes) -> None:
        place = EventPlace.unpack(packed)
        self.live[place.segment] -= place.length

    def sequences(self, topic: str, span: Span) -> list[int]:
        """The numbers of a span whose events are in the index."""
        return [place & MAX_SEQUENCE for (place,) in self._ask("place", topic, span)]

    def places(self, topic: str, span: Span) -> dict[int, EventPlace]:
        """Where the events of a span are, by their numbers."""
        rows = self._ask("place, body", topic, span)
        return {place & MAX_SEQUENCE: EventPlace.unpack(body) for place, body in rows}

    def _ask(self, columns: str, topic: str, span: Span) -> list[tuple[Any, ...]]:
        number = self.names.topics.get(topic, -1) << SEQUENCE_BITS
        return self.connection.query(
            f"SELECT {columns} FROM events WHERE place BETWEEN ? AND ? ORDER BY place",
            (number | min(span.first, MAX_SEQUENCE), number | min(span.last, MAX_SEQUENCE)),
        )

    def told(self, topic: str) -> dict[bytes, Numbers]:
        """By replica: its numbers of the events in its table."""
        found: dict[bytes, Numbers] = {}
        for replica, sequence in self.connection.query(
            "SELECT replica, sequence FROM replica_events WHERE topic = ? ORDER BY sequence",
            (self.names.topics.get(topic, -1),),
        ):
            found.setdefault(replica, Numbers(most=None)).add(sequence)
        return found

    def is_told(self, topic: str, replica: bytes, id: bytes, sequence: int) -> bool:
        """Whether this is a line of a replica's table."""
        row = "SELECT 1 FROM replica_events WHERE topic = ? AND replica = ? AND sequence = ? AND id = ?"
        number = self.names.topics.get(topic, -1)
        return bool(self.connection.query(row, (number, replica, sequence, id)))

    # -- damage --

    def spoil(self, topic: str, span: Span) -> None:
        """The events of a span cannot be read, as far as they are not in the index."""
        spoilt = self.damaged.setdefault(topic, Numbers(most=None))
        spoilt.add_span(*span)
        for sequence in self.sequences(topic, span):
            spoilt.remove(sequence)
        if not spoilt:
            del self.damaged[topic]

    def name(self, topic: str, sequence: int, id: bytes) -> None:
        """The damaged event of this number had this id."""
        if sequence in self.damaged.get(topic, Numbers()):
            self.named.setdefault(topic, {})[sequence] = id

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
            Held(
                topic, self._held(topic), tuple((r, n.spans()) for r, n in self.told(topic).items())
            )
            for topic in sorted({*self.registry, *self.names.topics})
        ]
        return [*self.registry.changes(), *held]

    def _held(self, topic: str) -> tuple[Span, ...]:
        """What is there, and what is not there and should be."""
        held = Numbers.of(self.sequences(topic, _EVERYTHING))
        for span in self.damaged.get(topic, Numbers(most=None)).spans():
            held.add_span(*span)
        return held.spans()

    def restore(self, snapshot: Iterable[Change]) -> None:
        """Begin again with a snapshot that is whole: what it does not hold has been removed before it."""
        held: dict[str, Held] = {}
        changes: list[tuple[Change, EventPlace | None]] = []
        for change in snapshot:
            if isinstance(change, Held):
                held[change.topic] = change
            else:
                changes.append((change, None))
        for topic in list(self.names.topics):
            self._keep(topic, held.get(topic, Held(topic, (), ())))
        self.registry = Registry()
        self.settle(changes)
        self.damaged.clear()
        for topic, one in held.items():
            for span in one.spans:
                self.spoil(topic, span)

    def _keep(self, topic: str, held: Held) -> None:
        spans = Numbers(most=None, spans=held.spans)
        gone = Numbers.of(one for one in self.sequences(topic, _EVERYTHING) if one not in spans)
        self.settle([(Drop(topic, gone.spans()), None)])
        lines = dict(held.lines)
        for replica, told in self.told(topic).items():
            for span in told.without(Numbers(most=None, spans=lines.get(replica, ()))).spans():
                self.connection.execute(
                    "DELETE FROM replica_events"
                    " WHERE topic = ? AND replica = ? AND sequence BETWEEN ? AND ?",
                    (self.names.topics[topic], replica, *span),
                )


_EVERYTHING = Span(0, MAX_SEQUENCE)


def survivors(log: LogState, segment: Segment) -> list[Change]:
    """The events of a segment that are still there, and the lines of replicas' tables that still hold.

    All other changes are in the snapshot of a later segment."""
    changes = [(one.offset, change_in(one)) for one in segment.scan() if one.body is not None]
    numbers: dict[str, list[int]] = {}
    for _, change in changes:
        if isinstance(change, StoredEvent):
            numbers.setdefault(change.topic, []).append(change.sequence)
    places = {t: log.places(t, Span(min(some), max(some))) for t, some in numbers.items()}
    rest: list[Change] = []
    for offset, change in changes:
        if isinstance(change, StoredEvent):
            place = places[change.topic].get(change.sequence)
            if place is not None and place[:2] == (segment.number, offset):
                rest.append(change)
        elif isinstance(change, ReplicaStored):
            topic, replica = change.topic, change.replica
            lines = tuple(line for line in change.stored if log.is_told(topic, replica, *line))
            if lines:
                rest.append(ReplicaStored(topic, replica, lines))
    return rest


TOGETHER = 4096
"""Changes that are taken in together when a log is read back."""


@dataclass
class Recovery:
    """What was found in a log when it was opened."""

    state: LogState
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
    holes: list[dict[str, int]] = field(default_factory=list)
    """For each stretch of bytes whose headers are gone: `last_seen` before it, as far as not closed yet."""
    unsettled: list[tuple[Change, EventPlace | None]] = field(default_factory=list)
    """Changes that the state has not taken in yet: many batches are taken in together."""

    def settle(self) -> None:
        changes, self.unsettled = self.unsettled, []
        if changes:
            self.state.settle(changes)


def recover(state: LogState, segments: list[Segment], synced_batch: int) -> Recovery:
    """Read the segments, oldest first, cut a torn batch off the last one, and put the rest together."""
    recovery = Recovery(state)
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
            if one.body is not None:
                change = change_in(one)
                recovery.topics[topic_check(change.topic)] = change.topic
    for segment, scan in zip(segments, scans, strict=True):
        if segment is segments[-1] and cut_from is not None:
            scan = _cut(recovery, segment, scan, cut_from)
        _replay(recovery, segment, scan)
    recovery.settle()
    _close_holes(recovery)
    return recovery


def _is_whole(records: list[FoundRecord]) -> bool:
    """Whether all records of a batch can be read."""
    indexes = [one.header.index for one in records if one.header]
    return (
        all(one.is_whole for one in records)
        and indexes == list(range(len(records)))
        and _has_end(records)
    )


def _has_end(records: list[FoundRecord]) -> bool:
    last = records[-1].header if records else None
    return last is None or (last.index == last.count - 1 and records[-1].is_uncut)


def _cut(
    recovery: Recovery, segment: Segment, scan: list[FoundRecord], cut_from: int
) -> list[FoundRecord]:
    """Cut a torn batch off the end: its records, and bytes behind the last record that counts."""
    keep = [place for place, one in enumerate(scan) if one.header and one.header.batch < cut_from]
    kept = keep[-1] + 1 if keep else 0
    if kept == len(scan):
        recovery.clean_end = not scan or scan[-1].is_whole
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
    if any(one.body is None for one in pieces):
        segment.is_damaged = True
    changes = [(change_in(one), _place(segment, one)) for one in pieces if one.body is not None]
    if pieces and whole and all(one.header and one.header.kind == SNAPSHOT for one in pieces):
        recovery.settle()
        recovery.state.restore([change for change, _ in changes])
        recovery.state_damaged = False
        recovery.holes = []  # the snapshot tells what is missing
        return
    recovery.unsettled += [one for one in changes if not isinstance(one[0], Held)]
    if len(recovery.unsettled) >= TOGETHER or recovery.holes or len(changes) < len(pieces):
        recovery.settle()
    for one in pieces:
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
            registry = recovery.state.registry
            last = max(registry.last(topic), one.header.sequence)  # not to be given again
            registry.put(topic, "last", "", last)
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
        for topic in recovery.state.registry:
            if hole.get(topic, 0) >= 0:
                last = recovery.state.registry.last(topic)
                _spoil_between(recovery, topic, hole.get(topic, 0), last + 1)


def _spoil_between(recovery: Recovery, topic: str, before: int, after: int) -> None:
    if before + 1 < after:
        recovery.state.spoil(topic, Span(before + 1, after - 1))
