"""Maps from event ids to numbers, in little memory when ids count up behind a common beginning."""

from __future__ import annotations

from pubsub.archive.store.number_map import NumberMap

COUNTER_BYTES = 8
"""At the end of an id, where publishers count."""


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
