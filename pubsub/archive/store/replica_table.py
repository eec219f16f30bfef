"""The table of one other replica in memory: which number an event has there (figure 12)."""

from __future__ import annotations

from collections.abc import Iterator

from pubsub.archive.store.id_map import COUNTER_BYTES, IdMap, counter
from pubsub.archive.store.number_map import NumberMap
from pubsub.reliable.numbers import Numbers, Span

_ALL = Span(0, (1 << 64) - 1)


class ReplicaTable:
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
