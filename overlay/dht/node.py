"""One node of the DHT: what it answers, whom it asks, and its parts put together.

A core: it acts through its context, which carries `Letter`s by plain datagrams, and answers through
callbacks. `driver.Dht` runs it on an endpoint.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from overlay.contact import Address, Contact, PeerId
from overlay.context import Context
from overlay.dht.config import DhtConfig
from overlay.dht.disjoint import DisjointLookup
from overlay.dht.exchange import Call, Exchange, Exchanges, ReplyOutcome
from overlay.dht.lookup import LookupReport, NodeLookup, Surroundings
from overlay.dht.messages import (
    BAD_TOKEN,
    LARGEST_ENTRY,
    NO_ROOM,
    NOT_SERVED,
    FindNode,
    FindValue,
    FoundNodes,
    FoundValue,
    Leaving,
    Letter,
    Ping,
    Pong,
    Stored,
    StoredValue,
    StoreRefused,
    StoreValue,
)
from overlay.dht.routing import Contacts
from overlay.dht.strangers import Strangers
from overlay.dht.trust import AddressTokens, IdProofs
from overlay.dht.upkeep import DhtUpkeep, NoBootstrapAnswer, explore, find_first_contacts
from overlay.dht.upstream import RoutedPeer, Target, peer_of
from overlay.dht.values import DYING, HandOff, PutOutcome, RecordStore, ValueLookup, store_at_all
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.steps import AtOnce, Steps, Work, answer_to

T = TypeVar("T")

Handler = Callable[[Contact, Any], object | None]
"""`handler(sender, request)` gives the reply, or None to stay silent."""

TOKENS = 4096
"""Peers whose last token is remembered."""

_NO_TOKEN = (b"", float("-inf"))

FRESH_PART = 0.9
"""Of a token's lifetime: older ones may be refused when they arrive."""

TOLD_GOODBYE = 40
"""Peers that a node which closes tells so, those nearest to it: they are the ones that name it in lookups."""

BESIDE_CONTACTS = 64
"""Bytes, at most, of a reply without its value and its contacts."""


class DhtNode:
    """One node's part of the DHT. Nothing here raises for what peers do or fail to do."""

    def __init__(
        self,
        context: Context,
        config: DhtConfig,
        identity: Identity,
        metrics: Metrics,
        room: int,
        save: Callable[[list[Contact]], None] = lambda contacts: None,
        *,
        are_addresses_proven: bool = True,
    ) -> None:
        """`room`: bytes of the largest message. `save(contacts)` keeps known contacts for the next start.

        `are_addresses_proven`: nobody can make up the address that it sends from, as there are sessions.
        """
        self.context = context
        self.config = config
        self.is_joining = False
        """This node looks for a network, and tells those who ask for a sign of life so."""
        self._tokens = AddressTokens(context.random.randbytes, config.token_lifetime, context.now())
        self._tokens_held: OrderedDict[Contact, tuple[bytes, float]] = OrderedDict()
        """The last token of a peer, and when it came."""
        self.exchange = Exchange(
            context,
            Exchanges(self._answer, self._requested, self._call_ended),
            IdProofs(identity, context.contact, config.proof_lifetime),
            metrics,
            room,
            is_light=not config.serve,
            verifies=config.verify_ids,
            strangers=(
                None
                if are_addresses_proven
                else Strangers(self.accepts_token, config.token_lifetime)
            ),
            token_of=self._fresh_token,
        )
        self.contacts = Contacts(context, config, metrics, self.ping)
        self.store = RecordStore(
            context.contact.id,
            context.now,
            capacity=config.max_records,
            capacity_a_source=max(1, config.max_records // 4),
            longest_life=config.max_time_to_live,
        )
        self.hand_off = HandOff(context, self.contacts.table, self.store, self.store_at)
        self.contacts.on_new = self.hand_off.welcome
        self.upkeep = DhtUpkeep(self, config, save)
        self._parts = Surroundings(
            context,
            config,
            self.contacts,
            self.exchange,
            AtOnce(config.lookups_at_once),
            self._lookup_ended,
        )
        self._asks = AtOnce(config.asks_at_once)
        self._running: dict[Steps[Any], None] = {}
        self.last_lookup = LookupReport(0, 0)
        """What the lookup that ended last did cost."""
        self._handlers: dict[type, Handler] = {Ping: self._pong, Leaving: self._left}
        if config.serve:
            self._handlers |= {FindNode: self._find_node, FindValue: self._find_value}
            self._handlers[StoreValue] = self._take_store
        self._lookups_made = metrics.counter("dht_lookups", "Lookups made")
        self._lookup_requests = metrics.counter("dht_lookup_requests", "Peers asked by lookups")
        self._refused = metrics.family("dht_refused", "reason", "DHT requests refused")

    # Its life.

    def start(self) -> None:
        self.upkeep.start()

    def join(
        self,
        bootstrap: Sequence[Address],
        known: Sequence[Contact],
        done: Callable[[NoBootstrapAnswer | None], None],
    ) -> Steps[NoBootstrapAnswer | None]:
        """Become part of the network of the bootstrap nodes, or of contacts known from an earlier run."""
        return self.run(self._join(bootstrap, known), done)

    def close(self) -> None:
        """Stop everything: no timer is left, and nobody is answered any more, here or elsewhere.

        Those who may know this node are told. Otherwise every lookup near it would wait for it until they
        notice: about a second for the command that comes next."""
        if self.config.serve:
            for peer in self.contacts.closest(self.contacts.own, TOLD_GOODBYE):
                self.exchange.say_goodbye(peer.contact)
        self.upkeep.close()
        self.hand_off.close()
        for steps in list(self._running):
            steps.cancel()
        self.exchange.close()

    def receive(self, sender: Contact, letter: Letter) -> None:
        self.exchange.receive(sender, letter)

    def run(self, work: Work[T], done: Callable[[T], None]) -> Steps[T]:
        """Run steps that end with the node."""
        return Steps(work, done, among=self._running)

    async def _join(
        self, bootstrap: Sequence[Address], known: Sequence[Contact]
    ) -> NoBootstrapAnswer | None:
        self.upkeep.bootstrap = tuple(bootstrap)
        self.is_joining = bool(bootstrap)
        try:
            await find_first_contacts(self, self.config, bootstrap, known)
            self.upkeep.to_meet = (await explore(self, self.config))[::-1]
        except NoBootstrapAnswer as error:
            return error
        finally:
            self.is_joining = False
        return None

    # Whom it asks.

    def closest(self, key: PeerId, count: int, done: Callable[[list[Contact]], None]) -> NodeLookup:
        """The live nodes closest to `key`, nearest first; this one among them if it serves and is close."""
        return self.around(key, count, count, done)

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> NodeLookup:
        """The `exact` live nodes closest to `key`, nearest first, then others near it, up to `wide` in all.

        The others were named by those who were asked and were not asked themselves: that costs no more than
        `closest` with `exact`, and some of them may be gone.
        """
        place = Target(key)
        self.contacts.table.used(place)
        lookup = NodeLookup(self._parts, place, exact, wide, done)
        lookup.start()
        return lookup

    def apart(
        self, key: PeerId, count: int, done: Callable[[list[list[Contact]]], None]
    ) -> DisjointLookup:
        """The `count` live nodes closest to `key` that each of several paths finds, which share no node."""
        place = Target(key)
        self.contacts.table.used(place)
        lookup = DisjointLookup(self._parts, place, count, done)
        lookup.start()
        return lookup

    def get(self, key: PeerId, done: Callable[[StoredValue | None], None]) -> ValueLookup:
        """The newest version that a few holders have, with the time it has left; None if there is none.

        Upstream (network.py:136-154) takes a value that is at hand for the newest.
        """
        lookup = ValueLookup(self._parts, Target(key), self.store, self.store_at, done)
        lookup.start()
        return lookup

    def put(
        self, key: PeerId, record: StoredValue, done: Callable[[PutOutcome], None]
    ) -> Steps[PutOutcome]:
        """Store a record at the k closest nodes, unless they hold a newer version."""
        return self.run(self._put(key, record), done)

    def ask(self, to: Contact, request: object, done: Callable[[object | None], None]) -> _Ask:
        """The typed reply to a registered request, or None if `to` did not answer.

        The request may arrive more than once. A `StoreRefused` is a reply too; the caller checks the
        reply's type.
        """
        ask = _Ask(self, self._asks, to, request, done)
        ask.start()
        return ask

    def ask_alive(self, contact: Contact, answered: Callable[[bool], None]) -> None:
        """Ask a node for a sign of life; `answered` is called once, unless this node is closed before."""
        if contact == self.context.contact:
            answered(True)
        else:
            self.ping(contact, lambda call: answered(call.outcome is not ReplyOutcome.GIVEN_UP))

    def ping(
        self,
        to: Contact | Address,
        on_end: Callable[[Call], None] | None = None,
        tries: int | None = None,
    ) -> Call:
        return self.exchange.call(to, Ping(), (Pong,), on_end, tries=tries)

    def meet(self, neighbour: Contact) -> None:
        """Make this node known to a neighbour, and the neighbour to this node, unless it does not answer.

        By a question with a long answer: a stranger that asks so has paid for several signs of life, of which
        some may be lost."""
        question = FindNode(self.context.contact.id, 1)
        self.exchange.call(neighbour, question, (FoundNodes,))

    def store_at(
        self,
        peer: RoutedPeer,
        key: PeerId,
        record: StoredValue,
        on_end: Callable[[Call], None] | None = None,
    ) -> Call:
        """The token is the last that `peer` gave; without one it will refuse."""
        store = StoreValue(key, record, self.token(peer.contact))
        return self.exchange.call(peer.contact, store, (Stored,), on_end)

    async def publish_again(self) -> None:
        """Store the records that nobody has stored for long at the k closest nodes again.

        Upstream (network.py:75-100) begins a new life of each record so, over anything newer.
        """
        self.store.cull()
        for key, record in self.store.unheard(self.config.republish_interval):
            self.store.mark_heard(key)
            if record.time_to_live > DYING:
                await self._put(key, record)

    async def _put(self, key: PeerId, record: StoredValue) -> PutOutcome:
        started = self.context.now()
        nodes = await answer_to(partial(self.closest, key, self.config.k))
        left = record.time_to_live - (self.context.now() - started)
        if left <= 0:
            return PutOutcome(0, record.version)
        record = StoredValue(record.version, record.value, left)
        own = self.context.contact
        return await store_at_all(nodes, own, self.store, self.store_at, key, record)

    # What it knows, without asking anybody.

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        """The nodes closest to `key` that this one knows, itself included if it serves."""
        goal = Target(key)
        found = self.contacts.closest(goal, count)
        if self.config.serve:
            insort(found, self.contacts.own, key=goal.distance_to)
            del found[count:]
        return tuple([peer.contact for peer in found])

    def neighbours(self, count: int) -> tuple[Contact, ...]:
        """The closest nodes to this one that it has met or was told of, nearest first."""
        own = self.contacts.own
        told = self.contacts.sound([peer_of(contact) for contact in self.upkeep.to_meet])
        near = {peer.id: peer for peer in [*told, *self.contacts.closest(own, count)]}
        nearest = sorted(near.values(), key=own.distance_to)
        return tuple([peer.contact for peer in nearest[:count]])

    def token(self, contact: Contact) -> bytes:
        """The last token that `contact` gave to this node, or an empty one; its own for itself.

        Every node that `closest` gives has just given one. A request that leaves something behind
        carries it, and its handler checks it with `accepts_token`.
        """
        if contact == self.context.contact:
            return self.give_token(contact)
        return self._tokens_held.get(contact, _NO_TOKEN)[0]

    def _fresh_token(self, contact: Contact) -> bytes:
        """The last token that `contact` gave, if it is good for some time still; else an empty one."""
        token, when = self._tokens_held.get(contact, _NO_TOKEN)
        is_fresh = self.context.now() - when < FRESH_PART * self.config.token_lifetime
        return token if is_fresh else b""

    def give_token(self, to: Contact) -> bytes:
        """A token for `to`, which it presents with a later request."""
        return self._tokens.token_for(to, self.context.now())

    def accepts_token(self, sender: Contact, token: bytes) -> bool:
        """Whether this node gave `token` to `sender`, at its address, within the last token lifetime."""
        return self._tokens.accepts(sender, token, self.context.now())

    # What it answers.

    def serve(self, request_type: type, handler: Handler) -> None:
        """Answer requests of that type with what `handler(sender, request)` returns; None stays silent.

        The sender's address may be forged, unless the request carries a token that `accepts_token`.
        """
        self._handlers[request_type] = handler

    def answer_self(self, request: Any) -> object | None:
        """The reply to a request of this node to itself, which needs no network."""
        return self._handle(self.context.contact, request)

    def _answer(self, sender: Contact, request: Any) -> object | None:
        reply = self._handle(sender, request)
        if isinstance(reply, StoreRefused):
            self._refused.add(reply.reason)
        return reply

    def _requested(self, sender: Contact, is_proven: bool) -> None:
        self.contacts.requested(peer_of(sender), is_proven)

    def _handle(self, sender: Contact, request: Any) -> object | None:
        handler = self._handlers.get(type(request))
        return NOT_SERVED if handler is None else handler(sender, request)

    def _pong(self, sender: Contact, request: Ping) -> Pong:
        """Upstream (protocol.py:34-37) enters whatever id the sender says it has."""
        return Pong(self.give_token(sender), self.is_joining)

    def _left(self, sender: Contact, request: Leaving) -> None:
        self.contacts.left(peer_of(sender))

    def _take_store(self, sender: Contact, request: StoreValue) -> object:
        """Upstream (protocol.py:39-46) stores anything from anybody, without a bound, over anything newer."""
        if not self.accepts_token(sender, request.token):
            return BAD_TOKEN
        newest = self.store.offer(request.key, request.record, sender.address)
        return NO_ROOM if newest is None else Stored(newest)

    def _find_node(self, sender: Contact, request: FindNode) -> FoundNodes:
        """Upstream's reply (protocol.py:48-54) is lost in silence when it does not fit a datagram."""
        room = self.exchange.room - BESIDE_CONTACTS
        named = self._closest_known(request.target, request.count, sender, room)
        return FoundNodes(self.give_token(sender), named)

    def _find_value(self, sender: Contact, request: FindValue) -> FoundNodes | FoundValue:
        """In upstream's reply (protocol.py:56-62) a value has neither version nor time to live."""
        record = self.store.get(request.key)
        if record is None:
            return self._find_node(sender, FindNode(request.key, request.count))
        room = self.exchange.room - len(record.value) - BESIDE_CONTACTS
        named = self._closest_known(request.key, request.count, sender, room)
        return FoundValue(self.give_token(sender), record, named)

    def _closest_known(self, key: PeerId, count: int, asker: Contact, room: int) -> bytes:
        """The list of the closest contacts, as many as `room` bytes hold."""
        found = self.contacts.closest(Target(key), count, exclude=peer_of(asker))
        entries = [peer.entry for peer in found]
        if len(entries) * LARGEST_ENTRY > room:
            ends = accumulate(map(len, entries))
            entries = [entry for entry, end in zip(entries, ends, strict=True) if end <= room]
        return b"".join(entries)

    # What it learns.

    def _call_ended(self, call: Call, outcome: ReplyOutcome) -> None:
        contact = call.contact
        if contact is None or contact.id == self.context.contact.id:
            return
        peer = peer_of(contact)
        if outcome is ReplyOutcome.OFFENDED:
            self.contacts.punish(peer)
        elif outcome is ReplyOutcome.ANSWERED:
            token = getattr(call.reply, "token", None)
            if isinstance(token, bytes):
                self._tokens_held[contact] = token, self.context.now()
                self._tokens_held.move_to_end(contact)
                if len(self._tokens_held) > TOKENS:
                    self._tokens_held.popitem(last=False)
            self.contacts.answered(call, peer, call.from_light)
        elif outcome is ReplyOutcome.CANCELLED:
            self.contacts.excused(call, peer)
        else:
            self.contacts.failed(call, peer)

    def _lookup_ended(self, report: LookupReport) -> None:
        self.last_lookup = report
        self._lookups_made.value += 1
        self._lookup_requests.value += report.requests


class _Ask:
    """One request of another layer, which may have to wait for its turn."""

    __slots__ = ("_call", "_done", "_is_over", "_node", "_request", "_to", "_turns")

    def __init__(
        self,
        node: DhtNode,
        turns: AtOnce,
        to: Contact,
        request: object,
        done: Callable[[object | None], None],
    ) -> None:
        self._node = node
        self._turns = turns
        self._to = to
        self._request = request
        self._done = done
        self._call: Call | None = None
        self._is_over = False

    def start(self) -> None:
        if self._to.id == self._node.context.contact.id:
            self._is_over = True
            self._done(self._node.answer_self(self._request))
        else:
            self._turns.enter(self._begin)

    def cancel(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self._call is not None:
                self._call.cancel()
                self._turns.leave()
            else:
                self._turns.give_up(self._begin)

    def _begin(self) -> None:
        self._call = self._node.exchange.call(self._to, self._request, on_end=self._ended)

    def _ended(self, call: Call) -> None:
        if not self._is_over:
            self._is_over = True
            self._turns.leave()
            if call.outcome is not ReplyOutcome.CLOSED:
                self._done(call.reply if call.is_answered else None)
