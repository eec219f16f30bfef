"""Lookups: the k nodes closest to an id, and the value under a key.

Upstream's crawlers ask in rounds, and one silent peer holds up each of them (crawling.py:37-63); every
round is a deeper recursion, as many as peers like to cause (crawling.py:106, 150); and what a peer
replies is used unseen (crawling.py:115, 183). Here the `Shortlist` says whom to ask, replies come
checked from the exchange, and a lookup is over within its budget of requests and its deadline, whatever
happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kademlia.crawling import NodeSpiderCrawl, SpiderCrawl, ValueSpiderCrawl

from overlay.contact import PeerId
from overlay.dht.call import Call, Outcome
from overlay.dht.config import DhtConfig
from overlay.dht.contact_list import contact_of, split_entries
from overlay.dht.messages import FindNode, FindValue, Found, FoundValue, Record
from overlay.dht.peer import Peer, Target, peer_of
from overlay.dht.protocol import DhtProtocol
from overlay.dht.shortlist import Shortlist
from overlay.errors import ClosedError
from overlay.wire import WireError

Ended: TypeAlias = Callable[[Call], None]
Request: TypeAlias = Callable[[Peer, Any, Ended, Ended], Call]
"""`request(peer, question, on_end, on_overdue)` asks one peer."""


@dataclass(frozen=True)
class LookupReport:
    """What a lookup cost."""

    hops: int
    """Peers that had to be asked one after the other until the closest node was known."""

    requests: int
    """Peers that were asked in all."""


class Lookup(SpiderCrawl):  # type: ignore[misc]
    """What both kinds share. `find` stays upstream's: it runs `_find` with the request to make."""

    protocol: DhtProtocol
    node: Target

    def __init__(
        self,
        protocol: DhtProtocol,
        target: Target,
        count: int,
        config: DhtConfig,
        reach: int = 0,
    ) -> None:
        """`reach`: contacts that every peer is asked for at least."""
        super().__init__(protocol, target, [], count, config.alpha)
        self._deadline = config.lookup_deadline
        self._loop = asyncio.get_running_loop()
        self._calls: dict[PeerId, Call] = {}
        self._over: asyncio.Future[None] = self._loop.create_future()
        budget = config.lookup_budget * max(count, config.k)
        alpha = min(config.alpha, count)
        self.shortlist = Shortlist(target.long_id, count, alpha, budget, reach)
        if config.serve:
            self.shortlist.add_self(protocol.source_node)
        self.shortlist.add(protocol.router.find_neighbors(target, config.k))

    def report(self) -> LookupReport:
        return LookupReport(self.shortlist.hops, self.shortlist.asked)

    async def _find(self, rpcmethod: Request) -> Any:
        """Replaces crawling.py:37-63. When cancelled, nothing of the lookup is left."""
        self._request = rpcmethod
        timer = self._loop.call_later(self._deadline, self._stop)
        try:
            self._proceed()
            await self._over
        finally:
            timer.cancel()
            for call in list(self._calls.values()):
                call.cancel()
        return self._result()

    def _result(self) -> Any:
        raise NotImplementedError

    def _read(self, peer: Peer, reply: object) -> bytes | None:
        """Take what the reply is good for; the list of contacts it names, or None if it is a refusal."""
        return reply.contacts if isinstance(reply, Found) else None

    def _is_finished(self) -> bool:
        return self.shortlist.is_finished

    def _proceed(self) -> None:
        if self._is_finished():
            self._stop()
            return
        for peer, count in self.shortlist.next_to_ask():
            question = self._question(self.node.id, count)
            self._calls[peer.id] = self._request(peer, question, self._ended, self._overdue)

    def _stop(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _ended(self, call: Call) -> None:
        contact = call.contact
        if self._over.done() or contact is None:
            return
        if call.outcome is Outcome.CLOSED:
            self._over.set_exception(ClosedError("the DHT was closed during a lookup"))
            return
        del self._calls[contact.id]
        peer = peer_of(contact)
        named = self._read(peer, call.reply) if call.outcome is Outcome.ANSWERED else None
        if named is None:
            self.shortlist.failed(peer)
        else:
            self._take_contacts(peer, named)
        self._proceed()

    def _overdue(self, call: Call) -> None:
        if call.contact is not None and not self._over.done():
            self.shortlist.overdue(peer_of(call.contact))
            self._proceed()

    def _take_contacts(self, introducer: Peer, named: bytes) -> None:
        """Take new candidates from the list of contacts that `introducer` replied with."""
        try:
            fresh = self.shortlist.unknown(split_entries(named), introducer)
            contacts = [contact_of(entry) for entry in fresh]
        except WireError:
            self.protocol.punish(introducer)
            self.shortlist.failed(introducer)
            return
        self.shortlist.answered(introducer)
        if not contacts:
            return
        own = self.protocol.source_node.id
        peers = [peer_of(contact) for contact in contacts if contact.id != own]
        possible = [peer for peer in peers if peer.can_exist]
        sound = self.protocol.sound(possible)
        if len(sound) < len(possible):
            dead = [peer for peer in possible if peer not in sound]
            self.shortlist.rule_out(dead, introducer)
        self.shortlist.add(sound, introduced_by=introducer)


class NodeLookup(Lookup, NodeSpiderCrawl):  # type: ignore[misc]
    """Replaces crawling.py:135-150. `find` gives the closest live nodes, nearest first, this one among them
    where it serves and is close."""

    _question = FindNode

    def _result(self) -> list[Peer]:
        return self.shortlist.result()


class ValueLookup(Lookup, ValueSpiderCrawl):  # type: ignore[misc]
    """Replaces crawling.py:83-125, which take the first value that comes, or the most frequent one.

    `find` gives the newest record, or None. It is over when `read_quorum` peers have sent a record, or the k
    closest nodes have been asked. The newest is then stored at those who sent an older one, and at
    those who have none although they are closer to the key than somebody who has; and nowhere else, for
    copies off the k closest nodes would grow stale unseen.
    """

    _question = FindValue

    def __init__(self, protocol: DhtProtocol, key: Target, config: DhtConfig) -> None:
        super().__init__(protocol, key, config.k, config)
        self._quorum = config.read_quorum
        self._records: dict[Peer, tuple[Record, float] | None] = {}
        self._holders = 0

    def _read(self, peer: Peer, reply: object) -> bytes | None:
        if isinstance(reply, FoundValue):
            self._holders += self._records.get(peer) is None
            self._records[peer] = (reply.record, self._loop.time())
            return reply.contacts
        if isinstance(reply, Found):
            self._records[peer] = None
        return super()._read(peer, reply)

    def _is_finished(self) -> bool:
        return self._holders >= self._quorum or self.shortlist.is_finished

    def _result(self) -> Record | None:
        now = self._loop.time()
        own = self.protocol.storage.get(self.node.id)
        held = [own] if own is not None else []
        held += [aged for found in self._records.values() if (aged := _aged(found, now))]
        if not held:
            return None
        newest = max(held, key=lambda record: record.rank)
        self._repair(newest)
        return newest

    def _repair(self, newest: Record) -> None:
        holders = [peer for peer, found in self._records.items() if found is not None]
        farthest = max((peer.distance_to(self.node) for peer in holders), default=0)
        for peer, found in self._records.items():
            lacks_it = found is None and peer.distance_to(self.node) < farthest
            is_behind = found is not None and found[0].rank < newest.rank
            if lacks_it or is_behind:
                self.protocol.call_store(peer, self.node.id, newest)


def _aged(found: tuple[Record, float] | None, now: float) -> Record | None:
    """The record with what is left of its life, or None."""
    if found is None:
        return None
    record, arrived = found
    left = record.time_to_live - (now - arrived)
    return replace(record, time_to_live=left) if left > 0 else None
