"""Records for a new neighbour: those that it should hold, from the few nodes whose turn it is to hand
them on.

A key is handed to a new node that belongs to the k closest, by the closest of the nodes that were there
before, as far as these know. One worker hands over to one new node after the other, a few records at a
time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

from overlay.contact import PeerId
from overlay.dht.messages import Record
from overlay.dht.peer import Peer, Target
from overlay.dht.protocol import DhtProtocol
from overlay.dht.routing_table import ExactRoutingTable
from overlay.errors import ClosedError

GIVERS = 3
"""Nodes whose turn it is to hand a key on: the closest to it, as far as each of them knows. Not all of
them may
have met the new node, whose own neighbours need not be the key's."""

WAITING = 256
"""New nodes in the queue; what one more misses comes with the next republishing."""

AT_ONCE = 16
"""Stores in flight."""

KEYS_A_TURN = 64
"""Keys that are looked at before others get a turn."""

DYING = 5.0
"""Seconds: a record with less to live is not handed on, nor published again."""


def is_due(router: ExactRoutingTable, key: PeerId, new: Peer) -> bool:
    """Whether this node is to hand `key` to the new node.

    Replaces kademlia/protocol.py:102-111, which hashes the key, itself a hash, again.
    """
    goal = Target(key)
    before = sorted([*router.find_neighbors(goal, exclude=new), router.node], key=goal.distance_to)
    closest = before[: router.ksize]
    belongs = len(closest) < router.ksize or new.distance_to(goal) < closest[-1].distance_to(goal)
    return belongs and router.node in closest[:GIVERS]


class HandOff:
    """The queue of new nodes and the worker that serves it."""

    def __init__(self, protocol: DhtProtocol) -> None:
        self._protocol = protocol
        self._queue: deque[Peer] = deque()
        self._worker: asyncio.Task[None] | None = None

    def welcome(self, new: Peer) -> None:
        if len(self._protocol.storage) == 0 or len(self._queue) >= WAITING:
            return
        self._queue.append(new)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._hand_over(self._queue.popleft())
        except ClosedError:
            self._queue.clear()
        finally:
            self._worker = None

    async def _hand_over(self, new: Peer) -> None:
        records = iter(self._protocol.storage)
        due: list[tuple[PeerId, Record]] = []
        while some := list(islice(records, KEYS_A_TURN)):
            due += [pair for pair in some if is_due(self._protocol.router, pair[0], new)]
            await asyncio.sleep(0)
        for start in range(0, len(due), AT_ONCE):
            calls = [
                self._protocol.call_store(new, key, held)
                for key, _ in due[start : start + AT_ONCE]
                if (held := self._protocol.storage.get(key)) and held.time_to_live > DYING
            ]
            for call in calls:
                taken, _ = await call
                if not taken:
                    return
