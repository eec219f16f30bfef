"""The front door of the DHT."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from overlay.contact import Address, Contact, PeerId
from overlay.dht.call import Outcome
from overlay.dht.config import DhtConfig
from overlay.dht.errors import ValueTooLarge
from overlay.dht.joining import explore, find_first_contacts
from overlay.dht.lookup import LookupReport
from overlay.dht.messages import MAX_CONTACTS, MAX_VALUE_BYTES, Record
from overlay.dht.peer import Target
from overlay.dht.server import DhtServer, PutOutcome
from overlay.dht.upkeep import Upkeep
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.transport.endpoint import Endpoint

BESIDE_A_VALUE = 80
"""Bytes that travel with a value in one message."""


class Dht:
    """One node's part of the DHT, on an endpoint that it shares with other layers.

    No method raises for what peers do or fail to do, except `join`. After `close`, and for calls that it
    interrupts, `ClosedError`.
    """

    def __init__(self, server: DhtServer, config: DhtConfig) -> None:
        self._server = server
        self._config = config
        self._draw = entropy()
        self._upkeep = Upkeep(server, config, self._draw)
        self._asks = asyncio.Semaphore(config.asks_at_once)
        self._closed = False
        self.max_message: int = server.protocol.exchange.room
        """Bytes: the largest request or reply that `ask` and `serve` carry."""
        self.max_value: int = min(MAX_VALUE_BYTES, self.max_message - BESIDE_A_VALUE)
        """Bytes: the largest value that `put` takes; 1,024 unless the endpoint's datagrams are small."""

    @classmethod
    async def start(cls, endpoint: Endpoint, config: DhtConfig) -> Dht:
        """Take over the endpoint's DHT frames. The endpoint stays the caller's, who closes it afterwards."""
        server = DhtServer(endpoint, config)
        server.listen()
        self = cls(server, config)
        self._upkeep.start()
        return self

    async def join(self, bootstrap: Sequence[Address]) -> None:
        """Become part of the network of the bootstrap nodes, or of contacts saved by an earlier run.

        The first node of a network passes none. A bootstrap node that is still joining itself is not proof
        of a network: nodes that start together and name each other form one network, which the one of
        the smallest id founds (see `joining`). Tries again with back-off, with a warning in the log each
        time; `NoBootstrapAnswer` when nobody answered.
        """
        self._check_open()
        self._upkeep.bootstrap = tuple(bootstrap)
        file = self._config.contacts_file
        known = [] if file is None else self._server.load_state(file)
        protocol = self._server.protocol
        protocol.is_joining = bool(bootstrap)
        try:
            await find_first_contacts(self._server, self._config, bootstrap, known, self._draw)
            await explore(self._server, self._config, self._draw)
        finally:
            protocol.is_joining = False

    async def closest(self, key: PeerId, count: int = 20) -> list[Contact]:
        """The live nodes closest to `key`, nearest first; this one among them if it serves and is close."""
        self._check_open()
        if not 1 <= count <= MAX_CONTACTS:
            raise UsageError(f"count={count} is not within 1..{MAX_CONTACTS}")
        return await self._server.closest(PeerId(key), count)

    async def around(self, key: PeerId, exact: int, wide: int) -> list[Contact]:
        """The `exact` live nodes closest to `key`, nearest first, then others near it, up to `wide` in all.

        The others were named by those who were asked and were not asked themselves: that costs no more than
        `closest` with `exact`, and some of them may be gone.
        """
        self._check_open()
        if not 1 <= exact <= wide <= MAX_CONTACTS:
            raise UsageError(f"exact={exact}, wide={wide}: 1 <= exact <= wide <= {MAX_CONTACTS}")
        return await self._server.around(PeerId(key), exact, wide)

    def token(self, contact: Contact) -> bytes:
        """The last token that `contact` gave to this node, empty if none.

        Every node that `closest` returned has just given one. A request that leaves something behind
        carries it, and its handler checks it with `accepts_token`.
        """
        return self._server.protocol.token_from(contact)

    def accepts_token(self, sender: Contact, token: bytes) -> bool:
        """Whether this node gave `token` to `sender`, at its address, within the last token lifetime."""
        return self._server.protocol.accepts_token(sender, token)

    def give_token(self, to: Contact) -> bytes:
        """A token for `to`, which it presents with a later request."""
        return self._server.protocol.give_token(to)

    def ask_alive(self, contact: Contact, answered: Callable[[bool], None]) -> None:
        """Ask a node for a sign of life; `answered` is called once, unless this node is closed before."""
        if contact == self.contact:
            answered(True)
        else:
            self._server.protocol.call_ping(
                contact, lambda call: answered(call.outcome is not Outcome.GIVEN_UP)
            )

    async def ask(self, to: Contact, request: object) -> object | None:
        """The typed reply to a registered request, or None if `to` did not answer.

        The request may arrive more than once. A `Refused` is a reply too. The reply's type is the
        caller's to check.
        """
        self._check_open()
        if to.id == self.contact.id:
            return self._server.protocol.answer_self(request)
        async with self._asks:
            answered, reply = await self._server.protocol.exchange.call(to, request)
        return reply if answered else None

    def serve(self, request_type: type, handler: Callable[[Contact, Any], object | None]) -> None:
        """Answer requests of that type with what `handler(sender, request)` returns; None stays silent.

        The sender's address may be forged, unless the request carries a token that `accepts_token`.
        """
        self._server.protocol.serve(request_type, handler)

    async def put(self, key: PeerId, value: bytes, version: int, time_to_live: float) -> PutOutcome:
        """Store a value at the k closest nodes for so many seconds, unless they hold a newer version.

        Equal versions: the greater value stays. To make a value live longer, put it with a higher version.
        """
        self._check_open()
        if not isinstance(value, bytes):
            raise UsageError(f"a value is bytes, not {type(value).__name__}: pack it first")
        if len(value) > self.max_value:
            raise ValueTooLarge(
                f"a value of {len(value)} bytes exceeds {self.max_value}, the most that fits a datagram:"
                " store where it can be fetched instead"
            )
        if time_to_live > self._config.max_time_to_live:
            raise UsageError(
                f"time_to_live={time_to_live} exceeds max_time_to_live={self._config.max_time_to_live} s"
            )
        return await self._server.set_digest(PeerId(key), Record(version, value, time_to_live))

    async def get(self, key: PeerId) -> Record | None:
        """The newest version that a few holders have, with the time it has left; None if there is none."""
        self._check_open()
        return await self._server.get(PeerId(key))

    @property
    def contact(self) -> Contact:
        return self._server.node.contact

    @property
    def last_lookup(self) -> LookupReport:
        """What the lookup that ended last did cost."""
        return self._server.last_report

    def on_rejoined(self, action: Callable[[], None]) -> None:
        """Call `action` whenever nodes that were lost are back: the network had been cut in two."""
        self._upkeep.on_rejoined = action

    def neighbours(self) -> list[Contact]:
        """The closest nodes that this one knows, nearest first, without asking anybody."""
        protocol = self._server.protocol
        return [peer.contact for peer in protocol.router.find_neighbors(self._server.node)]

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        """The nodes closest to `key` that this one knows, itself included if it serves; asks nobody."""
        goal = Target(key)
        found = self._server.protocol.router.find_neighbors(goal, count)
        if self._config.serve:
            found = sorted([*found, self._server.node], key=goal.distance_to)[:count]
        return tuple(peer.contact for peer in found)

    def known_contacts(self) -> list[Contact]:
        """All contacts of the routing table."""
        return [peer.contact for peer in self._server.protocol.router]

    async def close(self) -> None:
        """Stop everything that runs, save the known contacts; more than once is fine."""
        if not self._closed:
            self._closed = True
            await self._upkeep.close()
            await self._server.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the DHT is closed: start a new one")
