"""The DHT's protocol on one node: what it answers, whom it asks, and what it learns from both.

A contact enters the routing table only after it has answered a request of this node, at the address and
under the id that are entered: whoever sends a request from an address where it cannot be reached, or is
a light member, does not get in. A contact that failed to answer is doubted and at once asked again;
after repeated failures it is dead, leaves the table and is buried. A malformed reply costs a contact
its place at once.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar

from kademlia.protocol import KademliaProtocol

from overlay.contact import Address, Contact, PeerId
from overlay.dht.address_tokens import AddressTokens
from overlay.dht.call import Call, Outcome
from overlay.dht.config import DhtConfig
from overlay.dht.exchange import Exchange, Exchanges
from overlay.dht.failure_memory import FailureMemory
from overlay.dht.id_proof import IdProofs
from overlay.dht.messages import (
    BAD_TOKEN,
    LARGEST_ENTRY,
    NO_ROOM,
    NOT_SERVED,
    FindNode,
    FindValue,
    Found,
    FoundValue,
    Ping,
    Pong,
    Record,
    Refused,
    Store,
    Stored,
)
from overlay.dht.peer import Peer, Target, peer_of
from overlay.dht.record_store import RecordStore
from overlay.dht.routing_table import ExactRoutingTable
from overlay.transport.endpoint import Endpoint

Handler = Callable[[Contact, Any], object | None]
"""`handler(sender, request)` gives the reply, or None to stay silent."""

K = TypeVar("K")
V = TypeVar("V")

Ended = Callable[[Call], None]

FRESH = 60.0
"""Seconds: a contact heard that lately is taken to be alive."""

RECENT = 5.0
"""Seconds: a contact heard that lately is taken to be alive even where others have just died."""

CHECKS_A_DEATH = 8
"""Contacts that are checked when one was found dead."""

BURIED = 256
"""Dead contacts that are remembered, to be tried again now and then: the network may only have been cut."""

TOKENS = 4096
"""Peers whose last token is remembered."""

HEARD = 8192
"""Contacts of which is remembered when they were heard last."""

BESIDE_CONTACTS = 64
"""Bytes, at most, of a reply without its value and its contacts."""


class DhtProtocol(KademliaProtocol):  # type: ignore[misc]
    """Upstream's protocol on our endpoint. Lines are of kademlia/protocol.py where no file is named."""

    router: ExactRoutingTable
    storage: RecordStore
    source_node: Peer

    def __init__(
        self,
        endpoint: Endpoint,
        storage: RecordStore,
        config: DhtConfig,
        draw: random.Random,
    ) -> None:
        node = peer_of(endpoint.contact)
        super().__init__(node, storage, config.k)
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._config = config
        self._draw = draw
        self.on_new_peer: Callable[[Peer], None] = _ignore
        """Told of each contact that enters the table."""
        self.is_joining = False
        """This node looks for a network, and tells those who ask for a sign of life so."""
        self.on_return: Callable[[Peer], None] = _ignore
        """Told of each contact that was buried and answers again."""
        self.router = ExactRoutingTable(self, config.k, node, self._clock)
        self._tokens = AddressTokens(draw.randbytes, config.token_lifetime, self._clock())
        self.failures = FailureMemory(config.dead_for, config.distrusted_for)
        self.buried: OrderedDict[Contact, None] = OrderedDict()
        self._last_heard: OrderedDict[PeerId, float] = OrderedDict()
        self._probing: dict[Contact, Call] = {}
        self._tokens_held: OrderedDict[Contact, bytes] = OrderedDict()
        self._handlers: dict[type, Handler] = {Ping: self.rpc_ping}
        if config.serve:
            self._handlers[FindNode] = self.rpc_find_node
            self._handlers[FindValue] = self.rpc_find_value
            self._handlers[Store] = self.rpc_store
        self.exchange = Exchange(
            endpoint,
            Exchanges(self._answer, self._call_ended),
            draw,
            is_light=not config.serve,
            proofs=IdProofs(endpoint.identity, endpoint.contact, config.proof_lifetime),
            verifies=config.verify_ids,
        )
        self._refused = endpoint.metrics.family("dht_refused", "reason", "DHT requests refused")
        self._evicted = endpoint.metrics.family("dht_evicted", "reason", "Contacts removed")

    def __getattr__(self, name: str) -> Any:
        """Replaces rpcudp/protocol.py:99-146, to which any misspelt attribute is a remote procedure."""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def datagram_received(self, data: bytes, addr: Contact) -> None:
        """Replaces rpcudp/protocol.py:38-57: two tasks a datagram, held by nobody and without a bound."""
        self.exchange.receive(addr, data)

    def close(self) -> None:
        self.exchange.close()

    def serve(self, request_type: type, handler: Handler) -> None:
        self._handlers[request_type] = handler

    # What this node answers.

    def _answer(self, sender: Contact, from_light: bool, request: Any) -> object | None:
        if not from_light:
            self.welcome_if_new(peer_of(sender))
        reply = self._handle(sender, request)
        if isinstance(reply, Refused):
            self._refused.add(reply.reason)
        return reply

    def answer_self(self, request: Any) -> object | None:
        """The reply to a request of this node to itself, which needs no network."""
        return self._handle(self.source_node.contact, request)

    def _handle(self, sender: Contact, request: Any) -> object | None:
        handler = self._handlers.get(type(request))
        return NOT_SERVED if handler is None else handler(sender, request)

    def rpc_ping(self, sender: Contact, request: Ping) -> Pong:
        """Replaces lines 34-37, which enter whatever id the sender says it has."""
        return Pong(self._tokens.token_for(sender, self._clock()), self.is_joining)

    def rpc_store(self, sender: Contact, request: Store) -> object:
        """Replaces lines 39-46, which store anything from anybody, without a bound, over anything newer."""
        if not self.accepts_token(sender, request.token):
            return BAD_TOKEN
        newest = self.storage.offer(request.key, request.record, sender.address)
        return NO_ROOM if newest is None else Stored(newest)

    def rpc_find_node(self, sender: Contact, request: FindNode) -> Found:
        """Replaces lines 48-54, whose reply is lost in silence when it does not fit a datagram."""
        token = self._tokens.token_for(sender, self._clock())
        room = self.exchange.room - BESIDE_CONTACTS
        return Found(token, self._closest(request.target, request.count, sender, room))

    def rpc_find_value(self, sender: Contact, request: FindValue) -> Found | FoundValue:
        """Replaces lines 56-62, in whose reply a value has neither version nor time to live."""
        record = self.storage.get(request.key)
        if record is None:
            return self.rpc_find_node(sender, FindNode(request.key, request.count))
        token = self._tokens.token_for(sender, self._clock())
        room = self.exchange.room - len(record.value) - BESIDE_CONTACTS
        return FoundValue(token, record, self._closest(request.key, request.count, sender, room))

    def _closest(self, key: PeerId, count: int, asker: Contact, room: int) -> bytes:
        """The list of the closest contacts, as many as `room` bytes hold."""
        found = self.router.find_neighbors(Target(key), count, exclude=peer_of(asker))
        entries = [peer.entry for peer in found]
        if len(entries) * LARGEST_ENTRY > room:
            ends = accumulate(map(len, entries))
            entries = [entry for entry, end in zip(entries, ends, strict=True) if end <= room]
        return b"".join(entries)

    # Whom it asks.

    def call_ping(
        self, to: Contact | Address, on_end: Ended | None = None, tries: int | None = None
    ) -> Call:
        """Replaces lines 74-77."""
        return self.exchange.call(to, Ping(), (Pong,), on_end, tries=tries)

    def probe_buried(self) -> None:
        """Ask those who were lost last whether they are back, as many as may be asked at once."""
        for contact in list(self.buried)[-self._config.probes_at_once :]:
            self._probe(contact)

    def call_find_node(
        self,
        peer: Peer,
        find: FindNode,
        on_end: Ended | None = None,
        on_overdue: Ended | None = None,
    ) -> Call:
        """Replaces lines 64-67."""
        return self.exchange.call(peer.contact, find, (Found,), on_end, on_overdue)

    def call_find_value(
        self,
        peer: Peer,
        find: FindValue,
        on_end: Ended | None = None,
        on_overdue: Ended | None = None,
    ) -> Call:
        """Replaces lines 69-72."""
        return self.exchange.call(peer.contact, find, (FoundValue, Found), on_end, on_overdue)

    def call_store(
        self, peer: Peer, key: PeerId, record: Record, on_end: Ended | None = None
    ) -> Call:
        """Replaces lines 79-82. The token is the last that `peer` gave; without one it will refuse."""
        store = Store(key, record, self.token_from(peer.contact))
        return self.exchange.call(peer.contact, store, (Stored,), on_end)

    def token_from(self, contact: Contact) -> bytes:
        """The last token that `contact` gave to this node, or an empty one; its own for itself."""
        if contact == self.source_node.contact:
            return self._tokens.token_for(contact, self._clock())
        return self._tokens_held.get(contact, b"")

    def give_token(self, to: Contact) -> bytes:
        return self._tokens.token_for(to, self._clock())

    def accepts_token(self, sender: Contact, token: bytes) -> bool:
        """Whether this node gave `token` to `sender` lately."""
        return self._tokens.accepts(sender, token, self._clock())

    # What it learns.

    def _call_ended(self, call: Call, outcome: Outcome) -> None:
        contact = call.contact
        if contact is None or contact.id == self.source_node.id:
            return
        if self._probing and self._probing.get(contact) is call:
            del self._probing[contact]
        peer = peer_of(contact)
        if outcome is Outcome.OFFENDED:
            self.punish(peer)
            return
        token = getattr(call.reply, "token", None)
        if isinstance(token, bytes):
            _remember(self._tokens_held, contact, token, TOKENS)
        self.handle_call_response((outcome is Outcome.ANSWERED, call.reply), peer, call.from_light)

    def handle_call_response(
        self, result: tuple[bool, object], peer: Peer, from_light: bool = False
    ) -> tuple[bool, object]:
        """Replaces lines 113-126, which evict at the first time-out."""
        contact = peer.contact
        if result[0]:
            self.failures.heard(contact)
            if not from_light:
                self._enter(peer)
            elif self._knows(peer):
                self._remove(peer, "light")
            return result
        failures = self.failures.failed(contact, self._clock())
        if self._knows(peer):
            if failures < self._config.failures_to_evict:
                self._probe(contact)
            else:
                self._remove(peer, "dead")
                self._bury(contact)
                self._check_others()
        return result

    def punish(self, peer: Peer) -> None:
        """`peer` replied with nonsense: it loses its place and is not asked again for a while."""
        self.failures.offended(peer.contact, self._clock())
        self.buried.pop(peer.contact, None)
        if self._knows(peer):
            self._remove(peer, "malformed")

    def is_avoided(self, peer: Peer) -> bool:
        return self.failures.avoids(peer.contact, self._clock())

    def sound(self, peers: list[Peer]) -> list[Peer]:
        """Those of `peers` that are not avoided."""
        if not self.failures:
            return peers
        avoids, now = self.failures.avoids, self._clock()
        return [peer for peer in peers if not avoids(peer.contact, now)]

    def welcome_if_new(self, peer: Peer) -> None:
        """Replaces lines 84-112, to which a known contact's new address and sign of life mean nothing,
        and a spare contact is new every time; and which hash keys twice, so that they are handed to the
        wrong nodes.
        """
        if peer.id == self.source_node.id:
            return
        self.failures.heard(peer.contact)
        if not self._touch(peer) and not self.is_avoided(peer) and self.router.has_use_for(peer):
            self._probe(peer.contact)

    def check(self, peer: Peer) -> None:
        """Ask a contact that was not heard lately whether it is still there."""
        if self._clock() - self._last_heard.get(peer.id, -FRESH) >= FRESH:
            self._probe(peer.contact)

    def silent_contacts(self, count: int, silence: float = FRESH) -> list[Peer]:
        """Contacts of the table that were not heard for so long, the one heard longest ago first."""
        limit = self._clock() - silence
        silent = [p for p in self.router if self._last_heard.get(p.id, limit) <= limit]
        silent.sort(key=lambda peer: self._last_heard.get(peer.id, limit))
        return silent[:count]

    def get_refresh_ids(self) -> list[PeerId]:
        """Replaces lines 21-29, which draw from the global source of randomness."""
        return [
            PeerId(self._draw.randint(*bucket.range).to_bytes(20, "big"))
            for bucket in self.router.lonely_buckets(self._config.refresh_interval)
        ]

    def _knows(self, peer: Peer) -> bool:
        """Whether the table, or its spare part, holds `peer` at this very address."""
        known = self.router.bucket_of(peer).find(peer.id)
        return known is not None and known.contact == peer.contact

    def _touch(self, peer: Peer) -> bool:
        """If the table holds `peer` at this very address: now it is the one seen last."""
        bucket = self.router.bucket_of(peer)
        known = bucket.find(peer.id)
        if known is not peer and (known is None or known.contact != peer.contact):
            return False
        bucket.refresh(peer)
        _remember(self._last_heard, peer.id, self._clock(), HEARD)
        return True

    def _enter(self, peer: Peer) -> None:
        if self._touch(peer) or self.is_avoided(peer) or not peer.can_exist:
            return
        is_new = self.router.is_new_node(peer)
        self.router.add_contact(peer)
        _remember(self._last_heard, peer.id, self._clock(), HEARD)
        if is_new:
            self.on_new_peer(peer)
        if peer.contact in self.buried:
            del self.buried[peer.contact]
            self.on_return(peer)

    def _remove(self, peer: Peer, reason: str) -> None:
        self._evicted.add(reason)
        self.router.remove_contact(peer)
        self._last_heard.pop(peer.id, None)

    def _bury(self, contact: Contact) -> None:
        _remember(self.buried, contact, None, BURIED)

    def _check_others(self) -> None:
        """Where one is dead there may be more: check a few, each of which may lead to a few more.

        So when over an eighth of the contacts have died the whole table is checked within seconds, and
        when they die one at a time it comes to nothing.
        """
        for peer in self.silent_contacts(CHECKS_A_DEATH, silence=RECENT):
            self._probe(peer.contact)

    def _probe(self, contact: Contact) -> None:
        if contact not in self._probing and len(self._probing) < self._config.probes_at_once:
            self._probing[contact] = self.call_ping(contact)


def _ignore(peer: Peer) -> None: ...


def _remember(memory: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    """Put a pair at the end, and forget what has been there longest once there are too many."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > limit:
        memory.popitem(last=False)
