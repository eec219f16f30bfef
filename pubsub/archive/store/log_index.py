"""What the records of an append-only log add up to, in memory.

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
from itertools import chain

from pubsub.archive.store.changes import Change, Drop, Held, StoredEvent
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
from pubsub.archive.store.sql_tables import SqlBatch
from pubsub.archive.store.sqlite import SqliteConnection, make_tables
from pubsub.archive.store.store import EVERYTHING, Store
from pubsub.reliable.numbers import Numbers, Span


class LogIndex(Store):
    """A store without its files: the registry, an index of the events, and what is damaged.

    The index has the tables of the SQL stores, in memory, with each event's place in the files: about 150
    bytes an event, whatever its size."""

    def __init__(self, name: str) -> None:
        connection = SqliteConnection(":memory:", ("PRAGMA journal_mode=OFF",))
        make_tables(connection)
        super().__init__(name, connection, connection, (OSError,))
        self.live: dict[int, int] = {}
        """Bytes of each segment's records of events that are in the index."""
        self._named: dict[str, dict[int, bytes]] = {}
        """The ids of damaged events that are in no index, as far as they are known."""

    def settle(self, batch: Iterable[tuple[Change, EventPlace | None]]) -> None:
        """Take a synced batch in."""
        with self._reading_lock, self._lock:
            written = SqlBatch(
                self._writer, self._registry, self._names, keeps_registry=False, freed=self._free
            )
            self._writer.begin()
            for change, place in batch:
                if place is None:
                    written.add(change)
                else:
                    written.add(change, place.packed())
                    self.live[place.segment] = self.live.get(place.segment, 0) + place.length
            written.finish()
            self._writer.commit()
            written.settle()
            for topic, span in written.mended:
                self._mend(topic, span)

    def _free(self, packed: bytes) -> None:
        place = EventPlace.unpack(packed)
        self.live[place.segment] -= place.length

    def _numbers(self, topic: str, span: Span) -> list[int]:
        """The numbers of a span whose events are in the index."""
        rows = self._ask("SELECT place FROM events WHERE place BETWEEN ? AND ?", topic, span)
        return sorted(self._sequence(place) for (place,) in rows)

    # -- damage --

    def spoil(self, topic: str, span: Span) -> None:
        """The events of a span cannot be read, as far as they are not in the index."""
        spoilt = self._damaged.setdefault(topic, Numbers(most=None))
        spoilt.add_span(*span)
        for sequence in self._numbers(topic, span):
            spoilt.remove(sequence)
        if not spoilt:
            del self._damaged[topic]

    def name(self, topic: str, sequence: int, id: bytes) -> None:
        """An event had this id; of use if it is damaged."""
        if sequence in self._damaged.get(topic, ()):
            self._named.setdefault(topic, {})[sequence] = id

    def note_used(self, topic: str, sequence: int) -> None:
        """A number must not be given again, though nothing that can be read has it."""
        last = max(self._registry.last(topic), sequence)
        self._registry.put(topic, "last", "", last)

    def lasts(self) -> dict[str, int]:
        """The highest number that was used, by topic."""
        return {topic: self._registry.last(topic) for topic in self._registry}

    def _mend(self, topic: str, span: Span) -> None:
        super()._mend(topic, span)
        named = self._named.get(topic, {})
        for sequence in [one for one in named if span.first <= one <= span.last]:
            del named[sequence]

    def damaged_ids(self, topic: str, spans: Iterable[Span]) -> dict[int, tuple[bytes, ...]]:
        asked = list(spans)
        found, numbers = super().damaged_ids(topic, asked), Numbers(most=None, spans=asked)
        with self._lock:
            named = sorted(self._named.get(topic, {}).items())
        return found | {number: (id,) for number, id in named if number in numbers}

    # -- snapshots --

    def snapshot(self) -> list[Change]:
        """Everything but the events themselves."""
        topics = sorted({*self._registry, *self._names.topics})
        held = [Held(topic, self._held(topic)) for topic in topics]
        return [*self._registry.changes(), *held]

    def _held(self, topic: str) -> tuple[Span, ...]:
        """What is there, and what is not there and should be."""
        held = Numbers.of(self._numbers(topic, EVERYTHING))
        for span in self._damaged.get(topic, Numbers()).spans():
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
        for topic in list(self._names.topics):
            self._keep(topic, held.get(topic, Held(topic, ())))
        self._registry = Registry()
        self.settle(changes)
        self._damaged.clear()
        for topic, one in held.items():
            for span in one.spans:
                self.spoil(topic, span)

    def _keep(self, topic: str, held: Held) -> None:
        spans = Numbers(most=None, spans=held.spans)
        gone = Numbers.of(one for one in self._numbers(topic, EVERYTHING) if one not in spans)
        self.settle([(Drop(topic, gone.spans()), None)])

    def survivors(self, segment: Segment) -> list[Change]:
        """The events of a segment that are still there.

        All other changes are in the snapshot of a later segment."""
        rest: list[Change] = []
        for one in segment.scan():
            if one.body is None:
                continue
            change = change_in(one)
            if isinstance(change, StoredEvent):
                span = Span(change.sequence, change.sequence)
                place = "SELECT body FROM events WHERE place BETWEEN ? AND ?"
                for (packed,) in self._ask(place, change.topic, span):
                    if EventPlace.unpack(packed)[:2] == (segment.number, one.offset):
                        rest.append(change)
        return rest


TOGETHER = 4096
"""Changes that are taken in together when a log is read back."""


@dataclass
class Recovery:
    """What was found in a log when it was opened."""

    index: LogIndex
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
    """Changes that the index has not taken in yet: many batches are taken in together."""

    def settle(self) -> None:
        changes, self.unsettled = self.unsettled, []
        if changes:
            self.index.settle(changes)


def recover(index: LogIndex, segments: list[Segment], synced_batch: int) -> Recovery:
    """Read the segments, oldest first, cut a torn batch off the last one, and put the rest together."""
    recovery = Recovery(index)
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
    for one in chain(*scans):
        if one.body is None and one.header is not None and one.header.kind == EVENT:
            topic = recovery.topics.get(one.header.topic_check, "")
            index.name(topic, one.header.sequence, one.header.id)
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
        recovery.index.restore([change for change, _ in changes])
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
            sequence = one.header.sequence
            recovery.index.note_used(topic, sequence)
            recovery.index.spoil(topic, Span(sequence, sequence))
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
        for topic, last in recovery.index.lasts().items():
            if hole.get(topic, 0) >= 0:
                _spoil_between(recovery, topic, hole.get(topic, 0), last + 1)


def _spoil_between(recovery: Recovery, topic: str, before: int, after: int) -> None:
    if before + 1 < after:
        recovery.index.spoil(topic, Span(before + 1, after - 1))
