"""Where the events of a topic are, in memory: about 80 bytes an event, whatever its size.

Numbers are mapped to numbers in 16 bytes an entry, for keys that mostly come in order (`NumberMap`), and
event ids to numbers in little memory, as ids count up behind a common beginning (`IdMap`). `IndexedReplicas`
says which number an event has at one other replica (figure 12).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from pubsub.archive.store.changes import StoredEvent
from pubsub.reliable.numbers import Numbers, Span


class NumberMap:
    """A sorted map of unsigned 64-bit numbers. Adding at the end is cheap; elsewhere the rest is moved."""

    __slots__ = ("_keys", "_values")

    def __init__(self) -> None:
        self._keys = array("Q")
        self._values = array("Q")

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, key: int, value: int) -> None:
        keys = self._keys
        if not keys or key > keys[-1]:
            keys.append(key)
            self._values.append(value)
            return
        place = bisect_left(keys, key)
        if keys[place] == key:
            self._values[place] = value
        else:
            keys.insert(place, key)
            self._values.insert(place, value)

    def get(self, key: int) -> int | None:
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            return self._values[place]
        return None

    def items(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The entries whose keys are from `first` to `last`, in order."""
        start, stop = bisect_left(self._keys, first), bisect_right(self._keys, last)
        return ((self._keys[place], self._values[place]) for place in range(start, stop))

    def first_with_value_above(self, value: int) -> tuple[int, int] | None:
        """The first entry whose value is above this one, where values grow with their keys."""
        place = bisect_right(self._values, value)
        return (self._keys[place], self._values[place]) if place < len(self._keys) else None

    def remove_first(self, count: int) -> None:
        del self._keys[:count], self._values[:count]

    def remove(self, key: int) -> None:
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            del self._keys[place], self._values[place]

    def first(self) -> tuple[int, int] | None:
        """The entry with the lowest key."""
        return (self._keys[0], self._values[0]) if self._keys else None


COUNTER_BYTES = 8
"""The last bytes of an id, in which publishers count."""


class IdMap:
    """The ids of one map have the same length, 8 bytes or more."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[bytes, NumberMap] = {}

    def put(self, id: bytes, number: int) -> None:
        run = self._runs.get(id[:-COUNTER_BYTES])
        if run is None:
            run = self._runs[id[:-COUNTER_BYTES]] = NumberMap()
        run.put(counter(id), number)

    def get(self, id: bytes) -> int | None:
        run = self._runs.get(id[:-COUNTER_BYTES])
        return None if run is None else run.get(counter(id))

    def remove(self, id: bytes) -> None:
        run = self._runs.get(id[:-COUNTER_BYTES])
        if run is not None:
            run.remove(counter(id))
            if not run:
                del self._runs[id[:-COUNTER_BYTES]]


def counter(id: bytes) -> int:
    """The part of an id that counts."""
    return int.from_bytes(id[-COUNTER_BYTES:], "big")


class EventPlace(NamedTuple):
    """Where a record is."""

    segment: int
    offset: int
    length: int


class EventIndex:
    """Finds events by sequence number, by id, and by publisher and catenation number."""

    def __init__(self) -> None:
        self.sequences = array("Q")
        self._segments = array("Q")
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._times = array("d")
        self._sizes = array("Q")
        self._audiences = array("L")
        self._runs = array("L")
        self._owners = array("L")
        self._counters = array("Q")
        self.size = 0
        self._interned = _Interned()
        self._by_id = IdMap()
        self._streams: dict[bytes, NumberMap] = {}

    def __len__(self) -> int:
        return len(self.sequences)

    def put(self, event: StoredEvent, place: EventPlace) -> None:
        """Add an event whose number is not there."""
        at = self.above(event.sequence)
        self.size += len(event.body)
        if at == len(self.sequences):
            self._append(event, place)
        else:
            for column, value in zip(self._columns(), self._row(event, place), strict=True):
                column.insert(at, value)
        self._by_id.put(event.id, event.sequence)
        stream = self._streams.get(event.publisher)
        if stream is None:
            stream = self._streams[event.publisher] = NumberMap()
        stream.put(event.catenation, event.sequence)

    def _append(self, event: StoredEvent, place: EventPlace) -> None:
        """Add a row at the end, which is where nearly all go."""
        self.sequences.append(event.sequence)
        self._segments.append(place.segment)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        self._times.append(event.time)
        self._sizes.append(len(event.body))
        self._audiences.append(self._intern(event.destinations))
        self._runs.append(self._intern(event.id[:-COUNTER_BYTES]))
        self._owners.append(self._intern(event.publisher))
        self._counters.append(counter(event.id))

    def above(self, sequence: int) -> int:
        """The row of the first event above a number."""
        sequences = self.sequences
        if not sequences or sequence >= sequences[-1]:
            return len(sequences)
        return bisect_right(sequences, sequence)

    def row_of(self, sequence: int) -> int | None:
        if not self.sequences or sequence > self.sequences[-1]:
            return None
        at = bisect_left(self.sequences, sequence)
        return at if at < len(self.sequences) and self.sequences[at] == sequence else None

    def place(self, row: int) -> EventPlace:
        return EventPlace(self._segments[row], self._offsets[row], self._lengths[row])

    def time(self, row: int) -> float:
        return self._times[row]

    def body_size(self, row: int) -> int:
        return self._sizes[row]

    def audience(self, row: int) -> tuple[str, ...]:
        names = self._interned.values[self._audiences[row]]
        assert isinstance(names, tuple)
        return names

    def id(self, row: int) -> bytes:
        run = self._interned.values[self._runs[row]]
        assert isinstance(run, bytes)
        return run + self._counters[row].to_bytes(COUNTER_BYTES, "big")

    def since(self, time: float) -> int | None:
        """The lowest number of an event of this time or a later one."""
        rows = zip(self.sequences, self._times, strict=True)
        return next((sequence for sequence, at in rows if at >= time), None)

    def sequence_of(self, id: bytes) -> int | None:
        return self._by_id.get(id)

    def stream(self, publisher: bytes, span: Span) -> Iterator[int]:
        """The numbers of a publisher's events whose catenation numbers are in the span, in their order."""
        stream = self._streams.get(publisher)
        for _, sequence in stream.items(*span) if stream is not None else ():
            if self.row_of(sequence) is not None:
                yield sequence

    def firsts_above(self, sequence: int) -> Iterator[tuple[bytes, int]]:
        """Each publisher of an event above a number, and the lowest catenation number of its events there."""
        for publisher, stream in self._streams.items():
            first = stream.first_with_value_above(sequence)
            while first is not None and self.row_of(first[1]) is None:
                first = stream.first_with_value_above(first[1])
            if first is not None:
                yield publisher, first[0]

    def firsts_beyond(self, marks: Mapping[bytes, int]) -> Iterator[int]:
        """The number of each publisher's first event above its mark."""
        for publisher in self._streams:
            span = Span(marks.get(publisher, 0) + 1, (1 << 64) - 1)
            yield from islice(self.stream(publisher, span), 1)

    def drop(self, spans: Iterable[Span]) -> dict[int, int]:
        """Remove spans; the bytes of records that this frees in each segment."""
        freed: dict[int, int] = {}
        owners: dict[object, None] = {}
        for span in spans:
            start, stop = bisect_left(self.sequences, span.first), self.above(span.last)
            for row in range(start, stop):
                segment, length = self._segments[row], self._lengths[row]
                freed[segment] = freed.get(segment, 0) + length
                owners[self._interned.values[self._owners[row]]] = None
            self._remove(start, stop)
        for publisher in owners:
            assert isinstance(publisher, bytes)
            self._prune_stream(publisher)
        return freed

    def held(self) -> Numbers:
        return Numbers.of(self.sequences)

    def _remove(self, start: int, stop: int) -> None:
        for row in range(start, stop):
            self.size -= self._sizes[row]
            id = self.id(row)
            if self._by_id.get(id) == self.sequences[row]:
                self._by_id.remove(id)
            for column in (self._audiences, self._runs, self._owners):
                self._interned.release(column[row])
        for column in self._columns():
            del column[start:stop]

    def _prune_stream(self, publisher: bytes) -> None:
        """Let go of the oldest entries of a stream whose events are gone."""
        stream = self._streams.get(publisher)
        if stream is None:
            return
        while (first := stream.first()) and self.row_of(first[1]) is None:
            stream.remove_first(1)
        if not stream:
            del self._streams[publisher]

    def _columns(self) -> tuple[array[Any], ...]:
        return (
            self.sequences,
            self._segments,
            self._offsets,
            self._lengths,
            self._times,
            self._sizes,
            self._audiences,
            self._runs,
            self._owners,
            self._counters,
        )

    def _row(self, event: StoredEvent, place: EventPlace) -> tuple[float, ...]:
        return (
            event.sequence,
            *place,
            event.time,
            len(event.body),
            self._intern(event.destinations),
            self._intern(event.id[:-COUNTER_BYTES]),
            self._intern(event.publisher),
            counter(event.id),
        )

    def _intern(self, value: object) -> int:
        return self._interned.take(value)


class _Interned:
    """Values that many rows have, each kept once and for as long as a row has it."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._places: dict[object, int] = {}
        self._counts = array("Q")
        self._free: list[int] = []

    def take(self, value: object) -> int:
        """The place of a value, for one more row."""
        place = self._places.get(value)
        if place is None:
            if self._free:
                place = self._free.pop()
                self.values[place] = value
            else:
                place = len(self.values)
                self.values.append(value)
                self._counts.append(0)
            self._places[value] = place
        self._counts[place] += 1
        return place

    def release(self, place: int) -> None:
        """A row that had the value is gone."""
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._places[self.values[place]]
            self.values[place] = None
            self._free.append(place)


_ALL = Span(0, (1 << 64) - 1)


class IndexedReplicas:
    """Both ways: from an event to its number at the replica, and back."""

    def __init__(self) -> None:
        self._numbers = IdMap()
        self._runs = NumberMap()
        self._counters = NumberMap()
        self._known_runs: dict[bytes, int] = {}

    def put(self, id: bytes, sequence: int) -> None:
        run = id[:-COUNTER_BYTES]
        self._numbers.put(id, sequence)
        self._runs.put(sequence, self._known_runs.setdefault(run, len(self._known_runs)))
        self._counters.put(sequence, counter(id))

    def sequence(self, id: bytes) -> int | None:
        return self._numbers.get(id)

    def ids(self, span: Span) -> Iterator[tuple[int, bytes]]:
        """The numbers of a span that are known, and their events."""
        runs = list(self._known_runs)
        counters = self._counters.items(*span)
        for (sequence, run), (_, count) in zip(self._runs.items(*span), counters, strict=True):
            yield sequence, runs[run] + count.to_bytes(COUNTER_BYTES, "big")

    def sequences(self) -> Numbers:
        """All numbers that are known."""
        return Numbers.of(sequence for sequence, _ in self._runs.items(*_ALL))

    def keep(self, sequences: Numbers) -> None:
        """Remove all numbers but these."""
        for sequence, id in list(self.ids(_ALL)):
            if sequence not in sequences:
                self.remove(id)

    def remove(self, id: bytes) -> None:
        sequence = self._numbers.get(id)
        if sequence is not None:
            self._numbers.remove(id)
            self._runs.remove(sequence)
            self._counters.remove(sequence)
