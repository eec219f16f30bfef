"""When streams are forgotten: so that what archives know does not grow with every run there ever was.

A stream is *settled* at a replica when none of its events is kept there, nothing has been added to it for
`DurableConfig.forget_runs` seconds, and every other replica has exactly as much of it. Streams bear the time
at which they began (see `pubsub.archive.protocol.frontier`), and each replica tells the others the time
before which all of its streams are settled. It has promised by then, on stable storage, to take nothing more
of those from publishers, who are told to begin another stream; what other replicas have of them it takes.

The *floor* is the least of what all replicas say. Streams that began before it are forgotten: nobody keeps
an event of them, nobody will get one, so nothing can be delivered again, and one number stands for them
all. The floor is kept on stable storage, and subscribers are told it, who forget those streams too.

A replica that has not been heard of for `DurableConfig.tombstones` seconds is not waited for. Should it come
back with events that only it had, of streams that began before the floor, then it alone serves those.

Names that were removed are remembered for a while as *tombstones*, so that a replica that was away does not
bring them back. A name may be registered and removed at different replicas, some of which do not hear of it
for long. The later of the two counts, by the clocks of the archives that did it. Tombstones are told to
every replica together with the registered names, and forgotten after `DurableConfig.tombstones` seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from overlay.context import OneTimer
from pubsub.archive.protocol.frontier import ComparedFrontier, begin_of
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Change, ForgetStreams, Note
from pubsub.archive.store.store import Store

if TYPE_CHECKING:
    from pubsub.archive.protocol.replica_table import ReplicaPeer, ReplicaTable

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
        changes: list[Change] = [Note(self._world.topic, GONE + name, pack_time(time))]
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


def pack_time(time: float) -> bytes:
    return _TIME.pack(time)


def unpack_time(note: bytes) -> float:
    """The time in a note; 0 where there is none."""
    (time,) = _TIME.unpack(note) if note else (0.0,)
    return float(time)


PROMISED = "promised"
FLOOR = "floor"
"""Notes of the two times."""

ROUNDS = 16
"""How often within `forget_runs` seconds it is looked whether anything is settled."""

AHEAD = 86_400
"""Seconds by which a stream may have begun in the future, by this archive's clock; others are not taken."""


class Forgetting:
    """Forgets old streams, for one replica of one topic; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        here: ComparedFrontier,
        table: ReplicaTable,
        on_floor: Callable[[int], list[Change]],
    ) -> None:
        """`on_floor`: forget every stream that began before this time; the changes that this takes."""
        self._world = world
        self._here = here
        self._table = table
        self._on_floor = on_floor
        notes = {
            **world.store.notes(world.topic, PROMISED),
            **world.store.notes(world.topic, FLOOR),
        }
        self.promised = int(notes.get(PROMISED, b"0"))
        """Nothing of streams that began before this time is taken from publishers."""
        self.floor = int(notes.get(FLOOR, b"0"))
        """Streams that began before this time are forgotten."""
        self.settled = self.floor
        """What this replica tells the others."""
        self._started_at = world.context.now()
        self._active: dict[bytes, float] = {}
        """When something was last added to a stream, since this archive was started."""
        self._timer = OneTimer(world.context.call_later, self._look)

    def start(self) -> None:
        self._here.forget(self.floor)
        self._wait()

    def close(self) -> None:
        self._timer.close()

    def refuses(self, stream: bytes) -> bool:
        """Whether nothing of a stream is taken from its publisher: it began long ago, or in the future."""
        begin = begin_of(stream)
        return begin < self.promised or begin > self._world.clock() + AHEAD

    def touched(self, stream: bytes) -> None:
        """Something has been added to a stream."""
        self._active[stream] = self._world.context.now()

    # What is settled here.

    def _wait(self) -> None:
        config = self._world.config
        self._timer.set(max(config.forget_runs / ROUNDS, config.heartbeat))

    def _look(self) -> None:
        self._wait()
        if not len(self._here):
            return  # nothing is to be forgotten, and one that has met nobody yet knows of no streams
        topic, before = self._world.topic, self._latest()
        if self._world.damaged():
            self._settle(self.floor)  # what is damaged may be kept, and may come again
            return
        if not any(begin_of(stream) < before for stream, _ in self._here):
            self._settle(before)
            return

        def kept(store: Store) -> dict[bytes, int]:
            return store.firsts_above(topic, 0)

        self._world.read(kept, lambda kept: self._settle(self._settled(before, kept)))

    def _latest(self) -> int:
        """Streams that began later cannot have been quiet for long enough."""
        return max(int(self._world.clock() - self._world.config.forget_runs), 0)

    def _settled(self, before: int, kept: dict[bytes, int]) -> int:
        quiet = self._world.context.now() - self._world.config.forget_runs
        peers = [peer.frontier for peer in self._waited_for()]
        for stream, mark in self._here:
            if begin_of(stream) < before and (
                stream in kept
                or self._active.get(stream, self._started_at) > quiet
                or any(
                    peer.get(stream) != mark and begin_of(stream) >= peer.floor for peer in peers
                )
            ):
                before = begin_of(stream)
        for peer in peers:  # of what only they have, something is lacking here
            for stream, _ in peer:
                if begin_of(stream) < before and not self._here.get(stream):
                    before = begin_of(stream)
        return before

    def _waited_for(self) -> list[ReplicaPeer]:
        """Every replica but those that have been away for very long."""
        now, patience = self._world.context.now(), self._world.config.tombstones
        return [
            peer
            for peer in self._table.peers.values()
            if now - (self._started_at if peer.heard_at is None else peer.heard_at) < patience
        ]

    def _settle(self, before: int) -> None:
        """Tell the others, once the promise is safe."""
        if before <= self.promised:
            self.settled = max(before, self.floor)
            self.advance()
            return
        self.promised = before

        def safe() -> None:
            self.settled = max(before, self.settled)
            self.advance()

        note = Note(self._world.topic, PROMISED, str(before).encode())
        self._world.commit([note], safe)

    # What is settled everywhere.

    def advance(self) -> None:
        """Another replica, or this one, has settled more: forget what all have."""
        floor = min([self.settled, *(peer.settled for peer in self._waited_for())])
        if floor <= self.floor:
            return
        self.floor = floor
        gone = self._here.forget(floor)
        changes = [
            Note(self._world.topic, FLOOR, str(floor).encode()),
            *([ForgetStreams(self._world.topic, tuple(gone))] if gone else []),
            *self._on_floor(floor),
        ]
        for stream in [one for one in self._active if begin_of(one) < floor]:
            del self._active[stream]
        self._world.commit(changes, lambda: None)
