"""A store of append-only files: every batch is one write at the end of one file, and one sync.

A directory has the segments of one log, in order, and a mark. When a segment is full the next one begins with
a snapshot of everything but the events. Then the segments go of which less than half is left: the rest is
written again at the end of the log, and the file is removed. Where the events are is in memory, in the tables
of the SQL stores (`pubsub.archive.store.log_index`); reads of events go to the files.

Every record has a checksum (see `pubsub.archive.store.segment`). After a crash the last batch is there whole
or not at all; a bit that flipped anywhere costs one event, reported by `damage` and left out of reads. The
ids of a segment's events are in a file beside it too: so it is known which events were in a part that is
lost, or in a segment that is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import Change, Reserve, StoredEvent
from pubsub.archive.store.filesystem import FileSystem
from pubsub.archive.store.log_index import LogIndex, recover
from pubsub.archive.store.segment import (
    SUFFIX,
    EventPlace,
    Segment,
    SyncMark,
    ids_in,
    remove_lone_ids,
)
from pubsub.archive.store.store import Damage
from pubsub.reliable.numbers import Span

SEGMENT_BYTES = 64 * 1024 * 1024
MAX_BATCH = 65536
"""The most changes in a batch, and the numbers that are skipped after a torn one: it had no more."""


class AppendFileStore(LogIndex):
    """See `pubsub.archive.store.store` for what is promised."""

    def __init__(
        self, files: FileSystem, directory: str, *, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.sync_seconds: float = getattr(files, "sync_seconds", 0.0)
        self.blocking = not hasattr(files, "sync_seconds")
        self._directory = directory.rstrip("/") or "/"
        super().__init__(f"in {self._directory}")
        self._files = files
        self._segment_bytes = segment_bytes
        self._files_lock = threading.Lock()
        """Held while files are read, which so are not removed."""
        self._tail: list[Damage] = []
        self._state_damaged = False
        self._unsynced: list[tuple[Change, EventPlace | None]] = []
        self._number = 0
        """The number of the last batch."""
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
        recovery = recover(self, list(self._segments.values()), self._mark.batch)
        if self.damage():
            for sequence, check, id in ids_in(self._files, self._directory):
                self.name(recovery.topics.get(check, ""), sequence, id)
        else:
            remove_lone_ids(self._files, self._directory)
        self._number = recovery.last_batch
        self._state_damaged = recovery.state_damaged
        # A process that was killed may have left its last batch, or a new file's name, unsynced.
        self._files.sync_directory(self._directory)
        if not self._segments or not recovery.clean_end or self._active.size == 0:
            self._begin_segment()
        else:
            self._active.sync()
        if recovery.tail:
            self._skip_lost_numbers(recovery.tail)

    @property
    def _active(self) -> Segment:
        return self._segments[max(self._segments)]

    def _skip_lost_numbers(self, reason: str) -> None:
        """Never give a number again that the batch at the damaged end of the log may have used."""
        last = self.lasts()
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
            self._number += 1
            self._unsynced = self._active.append(self._number, changes)

    def sync(self) -> None:
        with self._failing("cannot be synced"):
            if not self._unsynced:
                return
            self._active.sync()
            self._mark.put(self._number)
            self.settle(self._unsynced)
            self._unsynced = []

    def close(self) -> None:
        if self._failure is None:
            super().close()
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
        if snapshot := self.snapshot():
            self._number += 1
            self._active.append(self._number, snapshot, snapshot=True)
            self._active.sync()
            self._mark.put(self._number)

    def _compact(self) -> None:
        """Write the rest of mostly empty segments again, and remove their files.

        Comes after a snapshot: without it, what their records removed elsewhere would be back."""
        for number, segment in list(self._segments.items()):
            if segment is self._active or segment.is_damaged:
                continue
            if 2 * self.live.get(number, 0) < segment.size:
                rest = self.survivors(segment)
                for start in range(0, len(rest), MAX_BATCH):
                    self._number += 1
                    placed = self._active.append(self._number, rest[start : start + MAX_BATCH])
                    self._active.sync()
                    self.settle(placed)
                with self._files_lock:
                    del self._segments[number]
                segment.close()
                segment.remove()
                self._files.sync_directory(self._directory)

    # -- reading --

    def _events(self, topic: str, span: Span, rest: str, *values: Any) -> list[StoredEvent]:
        with self._files_lock:
            return super()._events(topic, span, rest, *values)

    def _checked(self, topic: str, rows: list[tuple[Any, ...]]) -> list[StoredEvent]:
        events: list[StoredEvent] = []
        for row in rows:
            sequence, place = self._sequence(row[0]), EventPlace.unpack(row[-1])
            segment = self._segments[place.segment]
            with self._failing("cannot be read"):
                event = segment.event(sequence, place)
            if event is not None:
                events.append(event)
            else:
                segment.is_damaged = True
                self._spoil(topic, sequence)
        return events

    def damage(self) -> tuple[Damage, ...]:
        state = (Damage("", Span(0, 0), "corrupt"),) if self._state_damaged else ()
        return (*self._tail, *super().damage(), *state)
