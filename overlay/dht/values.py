"""Values: the records that a node holds for the DHT, and how they are put, got, and handed on.

Of two records under one key the one of higher version stays (of equal versions, the greater value), in
whatever order they come. A record dies when its time to live is over. Storing the same record again
never extends its life, for the remaining time travels with it and the shorter one counts: only a
higher version lives longer. A full store keeps the keys nearest to its node, and of no block of addresses
more than of others.

A key is handed to a new node that belongs to the k closest, by the closest of the nodes that were there
before, as far as these know: to one new node after the other, a few records at a time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.context import Context
from overlay.dht.exchange import Call
from overlay.dht.lookup import Lookup, Surroundings
from overlay.dht.messages import FindValue, FoundNodes, FoundValue, Stored, StoredValue
from overlay.dht.routing import RoutingTable
from overlay.dht.upstream import RoutedPeer, Target, peer_of
from overlay.steps import Steps, answer_to, pause, together
from overlay.transport.address import block_of

SWEEP_INTERVAL = 1.0
"""Seconds between two looks for expired records; reading one never returns it expired."""

GIVERS = 3
"""Nodes whose turn it is to hand a key on: the closest to it, as far as each of them knows. Not all of them
may have met the new node, whose own neighbours need not be the key's."""

WAITING = 256
"""New nodes in the queue; what one more misses comes with the next republishing."""

STORES_AT_ONCE = 16
"""Stores of one hand-over in flight."""

KEYS_A_TURN = 64
"""Keys that are looked at before others get a turn."""

DYING = 5.0
"""Seconds: a record with less to live is not handed on, nor published again."""

StoreAt = Callable[[RoutedPeer, PeerId, StoredValue, Callable[[Call], None] | None], Call]
"""`store_at(peer, key, record, on_end)` asks a peer to hold a record."""


@dataclass(frozen=True)
class PutOutcome:
    """What became of a value that was put."""

    replicas: int
    """Nodes that hold it now, this one included."""

    newest: int
    """The highest version that any of the nodes asked holds: above the one put, it was outdated."""


@dataclass(slots=True)
class _Held:
    version: int
    value: bytes
    expires: float
    heard: float
    source: Address | None


class RecordStore:
    """What one node holds. Upstream's storage has one time to live for all, and the last write is the
    newest."""

    def __init__(
        self,
        owner: PeerId,
        clock: Callable[[], float],
        *,
        capacity: int,
        capacity_a_source: int,
        longest_life: float,
    ) -> None:
        self._held: dict[PeerId, _Held] = {}
        self._longest_life = longest_life
        self._owner = int.from_bytes(owner, "big")
        self._clock = clock
        self._capacity = capacity
        self._capacity_a_source = capacity_a_source
        self._by_source: dict[Address, int] = {}
        self._distances: dict[str, list[int]] = {}
        """Of the keys from each block of addresses, sorted; this node's own are from none."""
        self._next_sweep = clock() + SWEEP_INTERVAL

    def __len__(self) -> int:
        return len(self._held)

    def offer(self, key: PeerId, record: StoredValue, source: Address | None = None) -> int | None:
        """Take a record of higher rank than the one held; the version held now, or None without room."""
        self.cull()
        now = self._clock()
        expires = now + min(record.time_to_live, self._longest_life)
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
            insort(self._distances.setdefault(_block(source), []), self._distance(key))
            if source is not None:
                self._by_source[source] = self._by_source.get(source, 0) + 1
        self._held[key] = _Held(record.version, record.value, expires, now, source)
        return record.version

    def get(self, key: PeerId) -> StoredValue | None:
        """The record with the time it has left."""
        held = self._live(key, self._clock())
        return None if held is None else self._record(held)

    def cull(self) -> None:
        """Forget what is past its life, once in a while."""
        now = self._clock()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_INTERVAL
        for key in [key for key, held in self._held.items() if held.expires <= now]:
            self._drop(key)

    def unheard(self, seconds: float) -> list[tuple[PeerId, StoredValue]]:
        """The records that nobody has stored here for that long."""
        now = self._clock()
        return [
            (key, self._record(held))
            for key, held in self._held.items()
            if held.heard <= now - seconds and held.expires > now
        ]

    def mark_heard(self, key: PeerId) -> None:
        """The record was just published again by this node."""
        if key in self._held:
            self._held[key].heard = self._clock()

    def __iter__(self) -> Iterator[tuple[PeerId, StoredValue]]:
        now = self._clock()
        return iter([(key, self._record(h)) for key, h in self._held.items() if h.expires > now])

    def _live(self, key: PeerId, now: float) -> _Held | None:
        held = self._held.get(key)
        return held if held is not None and held.expires > now else None

    def _record(self, held: _Held) -> StoredValue:
        return StoredValue(held.version, held.value, held.expires - self._clock())

    def _make_room(self, key: PeerId, source: Address | None) -> bool:
        if key in self._held:
            self._drop(key)
        if source is not None and self._by_source.get(source, 0) >= self._capacity_a_source:
            return False
        if len(self._held) < self._capacity:
            return True
        farthest = self._to_make_way(self._distance(key), _block(source))
        if farthest is None:
            return False
        self._drop(PeerId((farthest ^ self._owner).to_bytes(ID_BYTES, "big")))
        return True

    def _to_make_way(self, distance: int, block: str) -> int | None:
        """The farthest key of the block with the most, for another block; or of all, for one that is nearer.
        Who stores many could else have none but its own here, all of them next to this node."""
        others = (distances for name, distances in self._distances.items() if name)
        most = max(others, key=len, default=[])
        if len(self._distances.get(block, ())) + 1 < len(most):
            return most[-1]
        farthest = max(distances[-1] for distances in self._distances.values())
        return farthest if distance < farthest else None

    def _drop(self, key: PeerId) -> None:
        source = self._held.pop(key).source
        distances = self._distances[_block(source)]
        del distances[bisect_left(distances, self._distance(key))]
        if not distances:
            del self._distances[_block(source)]
        if source is not None:
            left = self._by_source[source] - 1
            if left:
                self._by_source[source] = left
            else:
                del self._by_source[source]

    def _distance(self, key: PeerId) -> int:
        return int.from_bytes(key, "big") ^ self._owner


def _block(source: Address | None) -> str:
    return "" if source is None else block_of(source.host)


class ValueLookup(Lookup[StoredValue | None]):
    """The newest record under a key, or None.

    It is over when `read_quorum` peers have sent a record, or the k closest nodes have been asked. The
    newest is then stored at those who sent an older one, and at those who have none although they are
    closer to the key than somebody who has; and nowhere else, for copies off the k closest nodes would grow
    stale unseen. Upstream (crawling.py:83-125) takes the first value that comes, or the most frequent one.
    """

    def __init__(
        self,
        parts: Surroundings,
        key: Target,
        store: RecordStore,
        store_at: StoreAt,
        done: Callable[[StoredValue | None], None],
    ) -> None:
        super().__init__(parts, key, parts.config.k, done)
        self._store = store
        self._store_at = store_at
        self._now = parts.context.now
        self._quorum = parts.config.read_quorum
        self._records: dict[RoutedPeer, tuple[StoredValue, float] | None] = {}
        self._holders = 0

    def _question(self, count: int) -> tuple[object, tuple[type, ...]]:
        return FindValue(self._target.id, count), (FoundValue, FoundNodes)

    def _read(self, peer: RoutedPeer, reply: object) -> bytes | None:
        if isinstance(reply, FoundValue):
            self._holders += self._records.get(peer) is None
            self._records[peer] = (reply.record, self._now())
            return reply.contacts
        if isinstance(reply, FoundNodes):
            self._records[peer] = None
        return super()._read(peer, reply)

    def _is_finished(self) -> bool:
        return self._holders >= self._quorum or self.shortlist.is_finished

    def _result(self) -> StoredValue | None:
        now = self._now()
        own = self._store.get(self._target.id)
        held = [own] if own is not None else []
        held += [aged for found in self._records.values() if (aged := _aged(found, now))]
        if not held:
            return None
        newest = max(held, key=lambda record: record.rank)
        self._repair(newest)
        return newest

    def _repair(self, newest: StoredValue) -> None:
        key = self._target
        holders = [peer for peer, found in self._records.items() if found is not None]
        farthest = max((peer.distance_to(key) for peer in holders), default=0)
        for peer, found in self._records.items():
            lacks_it = found is None and peer.distance_to(key) < farthest
            is_behind = found is not None and found[0].rank < newest.rank
            if lacks_it or is_behind:
                self._store_at(peer, key.id, newest, None)


def _aged(found: tuple[StoredValue, float] | None, now: float) -> StoredValue | None:
    """The record with what is left of its life, or None."""
    if found is None:
        return None
    record, arrived = found
    left = record.time_to_live - (now - arrived)
    return replace(record, time_to_live=left) if left > 0 else None


async def store_at_all(
    nodes: list[Contact],
    own: Contact,
    store: RecordStore,
    store_at: StoreAt,
    key: PeerId,
    record: StoredValue,
) -> PutOutcome:
    """Store a record at these nodes, this one included where it is among them.

    Upstream (network.py:166-188) raises when no neighbour is left alive.
    """

    async def version_at(contact: Contact) -> int | None:
        if contact == own:
            return store.offer(key, record)
        peer = peer_of(contact)
        call = await answer_to(partial(store_at, peer, key, record))
        return call.reply.newest if isinstance(call.reply, Stored) else None

    newest = await together([version_at(contact) for contact in nodes])
    versions = [version for version in newest if version is not None]
    return PutOutcome(versions.count(record.version), max(versions, default=record.version))


def is_due(table: RoutingTable, key: PeerId, new: RoutedPeer) -> bool:
    """Whether this node is to hand `key` to the new node.

    Upstream (protocol.py:102-111) hashes the key, itself a hash, again.
    """
    goal = Target(key)
    before = sorted([*table.closest(goal, table.k, exclude=new), table.own], key=goal.distance_to)
    closest = before[: table.k]
    belongs = len(closest) < table.k or new.distance_to(goal) < closest[-1].distance_to(goal)
    return belongs and table.own in closest[:GIVERS]


class HandOff:
    """The queue of new nodes, and the steps that serve it."""

    def __init__(
        self, context: Context, table: RoutingTable, store: RecordStore, store_at: StoreAt
    ) -> None:
        self._context = context
        self._table = table
        self._store = store
        self._store_at = store_at
        self._queue: deque[RoutedPeer] = deque()
        self._work: Steps[None] | None = None

    @property
    def is_working(self) -> bool:
        return self._work is not None and not self._work.is_over

    def welcome(self, new: RoutedPeer) -> None:
        if len(self._store) == 0 or len(self._queue) >= WAITING:
            return
        self._queue.append(new)
        if not self.is_working:
            self._work = Steps(self._serve())

    def close(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _serve(self) -> None:
        while self._queue:
            await self._hand_over(self._queue.popleft())

    async def _hand_over(self, new: RoutedPeer) -> None:
        records = iter(self._store)
        due: list[PeerId] = []
        while some := list(islice(records, KEYS_A_TURN)):
            due += [key for key, _ in some if is_due(self._table, key, new)]
            await pause(self._context, 0.0)
        for start in range(0, len(due), STORES_AT_ONCE):
            taken = await together(
                [self._give(new, key) for key in due[start : start + STORES_AT_ONCE]]
            )
            if not all(taken):
                return

    async def _give(self, new: RoutedPeer, key: PeerId) -> bool:
        """Store one record at the new node; False if it does not answer."""
        held = self._store.get(key)
        if held is None or held.time_to_live <= DYING:
            return True
        call: Call = await answer_to(partial(self._store_at, new, key, held))
        return call.is_answered
