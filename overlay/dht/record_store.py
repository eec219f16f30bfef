"""The records that a node holds for the DHT: versioned, mortal, bounded.

Of two records under one key the one of higher version stays (of equal versions, the greater value), in
whatever order they come. A record dies when its time to live is over. Storing the same record
again never extends its life, for the remaining time travels with it and the shorter one counts: only a
higher version lives longer. A full store keeps the keys nearest to its node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kademlia.storage import ForgetfulStorage

from overlay.contact import ID_BYTES, Address, PeerId
from overlay.dht.messages import Record

SWEEP_INTERVAL = 1.0
"""Seconds between two looks for expired records; reading one never returns it expired."""


@dataclass(slots=True)
class _Held:
    version: int
    value: bytes
    expires: float
    heard: float
    source: Address | None


class RecordStore(ForgetfulStorage):  # type: ignore[misc]
    """Upstream's storage with a version and a time to live for each record."""

    data: OrderedDict[PeerId, _Held]

    def __init__(
        self,
        owner: PeerId,
        clock: Callable[[], float],
        *,
        capacity: int,
        capacity_a_source: int,
        longest_life: float,
    ) -> None:
        super().__init__(ttl=longest_life)
        self._owner = int.from_bytes(owner, "big")
        self._clock = clock
        self._capacity = capacity
        self._capacity_a_source = capacity_a_source
        self._by_source: dict[Address, int] = {}
        self._distances: list[int] = []
        self._next_sweep = clock() + SWEEP_INTERVAL

    def __len__(self) -> int:
        return len(self.data)

    def __setitem__(self, key: PeerId, record: Record) -> None:
        self.offer(key, record)

    def offer(self, key: PeerId, record: Record, source: Address | None = None) -> int | None:
        """Take a record of higher rank than the one held; the version held now, or None without room.

        Replaces storage.py:54-58, to which the last write is the newest and every write a new life.
        """
        self.cull()
        now = self._clock()
        expires = now + min(record.time_to_live, self.ttl)
        held = self._live(key, now)
        if held is not None and record.rank <= (held.version, held.value):
            if record.rank == (held.version, held.value):
                held.heard = now
                held.expires = min(held.expires, expires)
            return held.version
        if held is None and not self._make_room(key, source):
            return None
        if held is not None:
            source = held.source
        else:
            insort(self._distances, self._distance(key))
            if source is not None:
                self._by_source[source] = self._by_source.get(source, 0) + 1
        self.data[key] = _Held(record.version, record.value, expires, now, source)
        return record.version

    def __getitem__(self, key: PeerId) -> Record:
        held = self._live(key, self._clock())
        if held is None:
            raise KeyError(key)
        return self._record(held)

    def get(self, key: PeerId, default: Record | None = None) -> Record | None:
        """The record with the time it has left."""
        held = self._live(key, self._clock())
        return default if held is None else self._record(held)

    def cull(self) -> None:
        """Replaces storage.py:60-62, which knows one time to live for all."""
        now = self._clock()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_INTERVAL
        for key in [key for key, held in self.data.items() if held.expires <= now]:
            self._drop(key)

    def iter_older_than(self, seconds_old: float) -> list[tuple[PeerId, Record]]:
        """The records that nobody has stored here for that long.

        Replaces storage.py:78-82, whose ages begin anew with every write.
        """
        now = self._clock()
        return [
            (key, self._record(held))
            for key, held in self.data.items()
            if held.heard <= now - seconds_old and held.expires > now
        ]

    def mark_heard(self, key: PeerId) -> None:
        """The record was just published again by this node."""
        if key in self.data:
            self.data[key].heard = self._clock()

    def __iter__(self) -> Iterator[tuple[PeerId, Record]]:
        now = self._clock()
        return iter([(key, self._record(h)) for key, h in self.data.items() if h.expires > now])

    def _live(self, key: PeerId, now: float) -> _Held | None:
        held = self.data.get(key)
        return held if held is not None and held.expires > now else None

    def _record(self, held: _Held) -> Record:
        return Record(held.version, held.value, held.expires - self._clock())

    def _make_room(self, key: PeerId, source: Address | None) -> bool:
        if key in self.data:
            self._drop(key)
        if source is not None and self._by_source.get(source, 0) >= self._capacity_a_source:
            return False
        if len(self.data) < self._capacity:
            return True
        farthest = self._distances[-1]
        if self._distance(key) >= farthest:
            return False
        self._drop(PeerId((farthest ^ self._owner).to_bytes(ID_BYTES, "big")))
        return True

    def _drop(self, key: PeerId) -> None:
        source = self.data.pop(key).source
        del self._distances[bisect_left(self._distances, self._distance(key))]
        if source is not None:
            left = self._by_source[source] - 1
            if left:
                self._by_source[source] = left
            else:
                del self._by_source[source]

    def _distance(self, key: PeerId) -> int:
        return int.from_bytes(key, "big") ^ self._owner
