"""Names that were removed: remembered for a while, so that a replica that was away does not bring them back.

A name may be registered and removed at different replicas, some of which do not hear of it for long. The
later of the two counts, by the clocks of the archives that did it. Tombstones are told to every replica
together with the registered names, and forgotten after `DurableConfig.tombstones` seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Change, Note

GONE = "gone/"
"""Notes of the times at which names were removed."""

MOST_TOMBSTONES = 100_000
"""Beyond, those that came first are forgotten."""

AFTERWARDS = 1e-3
"""Seconds after its removal that a name is registered again at the earliest, whatever the clock says."""

_TIME = struct.Struct(">d")


class Tombstones:
    """The names that were removed from one managed topic, with the times of their removal."""

    def __init__(self, world: ArchiveWorld) -> None:
        self._world = world
        notes = world.store.notes(world.topic, GONE)
        times = {key.removeprefix(GONE): unpack_time(note) for key, note in notes.items()}
        self._times = dict(sorted(times.items(), key=lambda one: one[1]))

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self._times.items())

    def is_removed(self, name: str, registered: float) -> bool:
        """Whether a name that was registered at this time has been removed since."""
        time = self._times.get(name)
        return time is not None and registered <= time

    def time(self, name: str) -> float:
        return self._times[name]

    def after(self, name: str, now: float) -> float:
        """The time at which a name is registered now: after its last removal, though clocks may differ."""
        time = self._times.get(name)
        return now if time is None else max(now, time + AFTERWARDS)

    def put(self, name: str, time: float) -> list[Change]:
        """A name was removed at this time; the changes that make it stay so."""
        time = max(time, self._times.pop(name, time))
        self._times[name] = time
        changes: list[Change] = [Note(self._world.topic, GONE + name, _TIME.pack(time))]
        if len(self._times) > MOST_TOMBSTONES:
            changes.append(self._forget(next(iter(self._times))))
        return changes

    def expire(self) -> None:
        """Forget those that are old enough; called now and then."""
        before = self._world.clock() - self._world.config.tombstones
        changes: list[Change] = []
        while self._times and self._times[oldest := next(iter(self._times))] < before:
            changes.append(self._forget(oldest))
        if changes:
            self._world.commit(changes, lambda: None)

    def _forget(self, name: str) -> Note:
        del self._times[name]
        return Note(self._world.topic, GONE + name, None)


def pack_times(*times: float) -> bytes:
    return b"".join(map(_TIME.pack, times))


def unpack_time(note: bytes, place: int = 0) -> float:
    """One of the times in a note; 0 where there is none."""
    if len(note) < (place + 1) * _TIME.size:
        return 0.0
    (time,) = _TIME.unpack_from(note, place * _TIME.size)
    return float(time)
