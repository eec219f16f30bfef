"""A store of append-only files: every batch is one write at the end of one file, and one sync.

A directory has the segments of one log, in order, and a mark. When a segment is full the next one begins with
a snapshot of everything but the events. Then the segments go of which less than half is left: the rest is
written again at the end of the log, and the file is removed. Reads of events go to the files; where they are
is in memory, about 100 bytes an event.

Every record has a checksum (see `pubsub.archive.store.segment`). After a crash the last batch is there whole
or not at all; a bit that flipped anywhere costs one event, reported by `damage` and left out of reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from pubsub.archive.store.changes import Change, Reserve, StoredEvent
from pubsub.archive.store.event_index import EventPlace
from pubsub.archive.store.filesystem import FileSystem
from pubsub.archive.store.interface import Damage, Holding, StoreError
from pubsub.archive.store.log_state import recover, survivors
from pubsub.archive.store.registry import RegistryReads
from pubsub.archive.store.segment import SUFFIX, Segment, SyncMark
from pubsub.reliable.numbers import Span

SEGMENT_BYTES = 64 * 1024 * 1024
MAX_BATCH = 65536
"""The most changes in a batch, and the numbers that are skipped after a torn one: it had no more."""


class AppendFileStore(RegistryReads):
    """See `pubsub.archive.store.interface.Store` for what is promised."""

    def __init__(
        self, files: FileSystem, directory: str, *, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.sync_seconds: float = getattr(files, "sync_seconds", 0.0)
        self.blocking = not hasattr(files, "sync_seconds")
        self._files = files
        self._directory = directory.rstrip("/") or "/"
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        """Held for a moment, while what is in memory is read or changed."""
        self._reading_lock = threading.Lock()
        """Held while files are read, which so are not removed."""
        self._failure: str | None = None
        self._tail: list[Damage] = []
        self._state_damaged = False
        self._unsynced: list[tuple[Change, EventPlace | None]] = []
        self._batch = 0
        with self._failing("cannot be opened"):
            files.make_directory(self._directory)
            files.lock(self._directory)
            try:
                self._open()
            except BaseException:
                files.unlock(self._directory)
                raise

    def _open(self) -> None:
        self._mark = SyncMark(self._files, self._directory)
        names = [name for name in self._files.names(self._directory) if name.endswith(SUFFIX)]
        self._segments = {
            segment.number: segment
            for segment in (Segment(self._files, self._directory, name) for name in names)
        }
        recovery = recover(list(self._segments.values()), self._mark.batch)
        self._log = recovery.state
        self._registry = self._log.registry
        self._batch = recovery.last_batch
        self._state_damaged = recovery.state_damaged
        # A process that was killed may have left its last batch, or a new file's name, unsynced.
        self._files.sync_directory(self._directory)
        if not self._segments or not recovery.clean_end or self._active.size == 0:
            self._begin_segment()
        else:
            self._active.sync()
        if recovery.tail:
            self._skip_lost_numbers(recovery.tail)
        indexes = {topic: self._log.index(topic) for topic in self._log.indexes}
        self._commit(
            [
                change
                for change in recovery.salvaged
                if indexes[change.topic].row_of(change.sequence) is not None
            ]
        )

    @property
    def _active(self) -> Segment:
        return self._segments[max(self._segments)]

    def _skip_lost_numbers(self, reason: str) -> None:
        """Never give a number again that the batch at the damaged end of the log may have used."""
        last = dict(self._registry.last)
        self._tail = [Damage(t, Span(n + 1, n + MAX_BATCH), reason) for t, n in last.items()]
        self._commit([Reserve(topic, number + MAX_BATCH) for topic, number in last.items()])

    # -- changing --

    def write(self, changes: Sequence[Change]) -> None:
        with self._failing("cannot be written"):
            if self._unsynced:
                raise StoreError("a batch was written before the one before it was synced")
            if len(changes) > MAX_BATCH:
                raise StoreError(f"a batch has {len(changes)} changes, and {MAX_BATCH} is the most")
            if not changes:
                return
            if self._active.size >= self._segment_bytes:
                self._begin_segment()
                self._compact()
            self._batch += 1
            self._unsynced = self._active.append(self._batch, changes)

    def sync(self) -> None:
        with self._failing("cannot be synced"):
            if not self._unsynced:
                return
            self._active.sync()
            self._mark.put(self._batch)
            with self._lock:
                self._log.settle(self._unsynced)
                self._unsynced = []

    def close(self) -> None:
        if self._failure is None:
            self._failure = f"the store in {self._directory} is closed"
            for segment in self._segments.values():
                segment.close()
            self._mark.close()
            self._files.unlock(self._directory)

    def _commit(self, changes: Sequence[Change]) -> None:
        if changes:
            self.write(changes)
            self.sync()

    def _begin_segment(self) -> None:
        """Begin a file with a snapshot; an empty one is used if it is there."""
        if not self._segments or self._active.size:
            number = max(self._segments, default=0) + 1
            segment = Segment.create(self._files, self._directory, number)
            self._files.sync_directory(self._directory)
            self._segments[number] = segment
        snapshot = self._log.snapshot()
        if snapshot:
            self._batch += 1
            self._active.append(self._batch, snapshot, snapshot=True)
            self._active.sync()
            self._mark.put(self._batch)

    def _compact(self) -> None:
        """Write the rest of mostly empty segments again, and remove their files.

        Comes after a snapshot: without it, what their records removed elsewhere would be back."""
        for number, segment in list(self._segments.items()):
            if segment is self._active or segment.is_damaged:
                continue
            if 2 * self._log.live.get(number, 0) < segment.size:
                rest = survivors(self._log, segment)
                for start in range(0, len(rest), MAX_BATCH):
                    self._batch += 1
                    placed = self._active.append(self._batch, rest[start : start + MAX_BATCH])
                    self._active.sync()
                    with self._lock:
                        self._log.settle(placed)
                with self._reading_lock, self._lock:
                    del self._segments[number]
                segment.close()
                self._files.remove(segment.path)
                self._files.sync_directory(self._directory)

    # -- the inventory --

    def first_sequence(self, topic: str) -> int:
        with self._reading():
            sequences = self._log.index(topic).sequences
            return sequences[0] if sequences else self._registry.last.get(topic, 0) + 1

    def count(self, topic: str) -> int:
        with self._reading():
            return len(self._log.index(topic))

    def size(self, topic: str) -> int:
        with self._reading():
            return self._log.index(topic).size

    def events(
        self, topic: str, after: int, limit: int, max_bytes: int | None = None
    ) -> list[StoredEvent]:
        with self._reading():
            index = self._log.index(topic)
            start = index.above(after)
            wanted: list[int] = []
            size = 0
            for row in range(start, min(start + limit, len(index))):
                size += index.body_size(row)
                if wanted and max_bytes is not None and size > max_bytes:
                    break
                wanted.append(index.sequences[row])
        return self._read(topic, wanted)

    def read(self, topic: str, sequences: Iterable[int]) -> list[StoredEvent]:
        return self._read(topic, sorted(set(sequences)))

    def sequences(self, topic: str, ids: Iterable[bytes]) -> dict[bytes, int]:
        with self._reading():
            index = self._log.index(topic)
            return {id: found for id in ids if (found := index.sequence_of(id)) is not None}

    def by_catenation(
        self, topic: str, publisher: bytes, span: Span, limit: int | None = None
    ) -> list[StoredEvent]:
        with self._reading():
            wanted = list(islice(self._log.index(topic).stream(publisher, span), limit))
        return sorted(self._read(topic, wanted), key=lambda event: event.catenation)

    def firsts_above(self, topic: str, sequence: int) -> dict[bytes, int]:
        with self._reading():
            return dict(self._log.index(topic).firsts_above(sequence))

    def first_beyond(self, topic: str, marks: Mapping[bytes, int]) -> int:
        with self._reading():
            beyond = self._log.index(topic).firsts_beyond(marks)
            return min(beyond, default=self._registry.last.get(topic, 0) + 1)

    def since(self, topic: str, time: float) -> int:
        with self._reading():
            found = self._log.index(topic).since(time)
            return self._registry.last.get(topic, 0) + 1 if found is None else found

    def _read(self, topic: str, sequences: Iterable[int]) -> list[StoredEvent]:
        """Read events; those that turn out to be damaged leave the index."""
        events: list[StoredEvent] = []
        with self._reading_lock:
            with self._reading():
                index = self._log.index(topic)
                rows = ((sequence, index.row_of(sequence)) for sequence in sequences)
                places = [(sequence, index.place(row)) for sequence, row in rows if row is not None]
            for sequence, place in places:
                segment = self._segments[place.segment]
                with self._failing("cannot be read"):
                    event = segment.event(sequence, place)
                if event is not None:
                    events.append(event)
                    continue
                with self._reading():
                    segment.is_damaged = True
                    row = index.row_of(sequence)
                    if row is not None and index.place(row) == place:  # not repaired meanwhile
                        self._log.lose(topic, sequence)
        return events

    # -- the dissemination table --

    def holdings(self, topic: str, after: int, limit: int) -> list[Holding]:
        with self._reading():
            index = self._log.index(topic)
            start = index.above(after)
            return [
                Holding(
                    index.sequences[row],
                    index.time(row),
                    index.body_size(row),
                    self._registry.waiting(topic, index.sequences[row], index.audience(row)),
                )
                for row in range(start, min(start + limit, len(index)))
            ]

    # -- tables of other replicas --

    def replica_ids(self, topic: str, replica: bytes, span: Span) -> dict[int, bytes]:
        with self._reading():
            table = self._log.tables.get(topic, {}).get(replica)
            return {} if table is None else dict(table.ids(span))

    # -- damage --

    def damage(self) -> tuple[Damage, ...]:
        with self._reading():
            found = [
                Damage(topic, span, "corrupt")
                for topic, spoilt in self._log.damaged.items()
                for span in spoilt.spans()
            ]
            if self._state_damaged:
                found.append(Damage("", Span(0, 0), "corrupt"))
            return (*self._tail, *found)

    def damaged_ids(self, topic: str) -> dict[int, tuple[bytes, ...]]:
        with self._reading():
            named = self._log.named.get(topic, {})
            return {number: (id,) for number, id in sorted(named.items())}

    def verify(self) -> tuple[Damage, ...]:
        for topic in self.topics():
            after = 0
            while page := self.holdings(topic, after, 1000):
                self.read(topic, [holding.sequence for holding in page])
                after = page[-1].sequence
        return self.damage()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._failing("cannot be read"), self._lock:
            yield

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn a failing disk into a `StoreError`, now and for all later calls."""
        if self._failure is not None:
            raise StoreError(self._failure)
        try:
            yield
        except OSError as error:
            self._failure = f"the store in {self._directory} {what}: {error}"
            raise StoreError(self._failure) from None
