"""Runs a node of the DHT on an endpoint, and answers coroutines; keeps its contacts in a file.

The file is for the next start: msgpack, `{"format": 1, "contacts": [packed, ...]}`. One that is damaged, too
large or of another format counts as empty, and says so in the log.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from overlay.contact import Address, Contact, PeerId
from overlay.context import Randomness, Timer
from overlay.dht.config import DhtConfig
from overlay.dht.exchange import BESIDE_A_MESSAGE
from overlay.dht.lookup import LookupReport
from overlay.dht.messages import (
    MAX_CONTACTS,
    MAX_VALUE_BYTES,
    Letter,
    StoredValue,
    ValueTooLarge,
    unpack_letter,
)
from overlay.dht.node import DhtNode
from overlay.dht.values import PutOutcome
from overlay.entropy import entropy
from overlay.errors import UsageError
from overlay.futures import Futures
from overlay.limited_msgpack import pack, unpack
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Buffer, FrameKind
from overlay.wire import WireError

BESIDE_A_VALUE = 80
"""Bytes that travel with a value in one message."""

FORMAT = 1
MOST_CONTACTS = 1024
MOST_BYTES = 64 * 1024

_log = logging.getLogger(__name__)


class DhtContext:
    """`overlay.context.Context` on an endpoint's frames of kind DHT; its messages are `Letter`s.

    Its randomness is the system's own: who sees some numbers of requests and tokens must not guess others.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._send = endpoint.send
        self._call_at = endpoint.turn.call_at
        self.contact = endpoint.contact
        self.random: Randomness = entropy()
        self.now: Callable[[], float] = endpoint.turn.now

    def send(self, to: Contact, message: object) -> None:
        assert isinstance(message, Letter)
        self._send(to, FrameKind.DHT, message.packed())

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        """An exception of the action goes to the loop's exception handler."""
        return self._call_at(self.now() + delay, action)


class Dht:
    """One node's part of the DHT, on an endpoint that it shares with other layers.

    No method raises for what peers do or fail to do, except `join`. After `close`, and for calls that it
    interrupts, `ClosedError`.
    """

    def __init__(self, endpoint: Endpoint, config: DhtConfig) -> None:
        """Take over the endpoint's DHT frames. The endpoint stays the caller's, who closes it afterwards."""
        if endpoint.sessions is not None:
            config = replace(config, verify_ids=False)  # every session has proven its peer's id
        self._config = config
        self.max_message: int = endpoint.max_body - BESIDE_A_MESSAGE
        """Bytes: the largest request or reply that `ask` and `serve` carry."""
        self.max_value: int = min(MAX_VALUE_BYTES, self.max_message - BESIDE_A_VALUE)
        """Bytes: the largest value that `put` takes; 1,024 unless the endpoint's datagrams are small."""
        self.node = DhtNode(
            DhtContext(endpoint),
            config,
            endpoint.identity,
            endpoint.metrics,
            self.max_message,
            self._save,
            are_addresses_proven=endpoint.sessions is not None,
        )
        self._futures = Futures("the DHT is closed: start a new one")
        endpoint.on_views(FrameKind.DHT, self.receive)
        endpoint.on_early(FrameKind.DHT, self.node.exchange)
        self.node.start()

    def receive(self, sender: Contact, body: Buffer) -> None:
        """Take a frame of kind DHT; whatever it holds, this does not raise."""
        try:
            letter = unpack_letter(bytes(body))
        except WireError as error:
            self.node.exchange.count_dropped(error.reason)
            return
        self.node.exchange.receive(sender, letter)

    async def join(self, bootstrap: Sequence[Address]) -> None:
        """Become part of the network of the bootstrap nodes, or of contacts saved by an earlier run.

        The first node of a network passes none. A bootstrap node that is still joining itself is not proof
        of a network: nodes that start together and name each other form one network, which the one of
        the smallest id founds (see `upkeep`). Tries again with back-off, with a warning in the log each
        time; `NoBootstrapAnswer` when nobody answered.
        """
        self._futures.check_open()
        file = self._config.contacts_file
        known = [] if file is None else load_contacts(file)
        error = await self._futures.answer(partial(self.node.join, bootstrap, known))
        if error is not None:
            raise error

    async def closest(self, key: PeerId, count: int = 20) -> list[Contact]:
        """The live nodes closest to `key`, nearest first; this one among them if it serves and is close."""
        if not 1 <= count <= MAX_CONTACTS:
            raise UsageError(f"count={count} is not within 1..{MAX_CONTACTS}")
        return await self._futures.answer(partial(self.node.closest, PeerId(key), count))

    async def ask(self, to: Contact, request: object) -> object | None:
        """The typed reply to a registered request, or None if `to` did not answer."""
        return await self._futures.answer(partial(self.node.ask, to, request))

    def serve(self, request_type: type, handler: Callable[[Contact, Any], object | None]) -> None:
        """Answer requests of that type with what `handler(sender, request)` returns; None stays silent."""
        self.node.serve(request_type, handler)

    async def put(self, key: PeerId, value: bytes, version: int, time_to_live: float) -> PutOutcome:
        """Store a value at the k closest nodes for `time_to_live` seconds, unless they hold a newer version.

        Equal versions: the greater value stays. To make a value live longer, put it with a higher version.
        """
        self._futures.check_open()
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
        record = StoredValue(version, value, time_to_live)
        return await self._futures.answer(partial(self.node.put, PeerId(key), record))

    async def get(self, key: PeerId) -> StoredValue | None:
        """The newest version that a few holders have, with the time it has left; None if there is none."""
        return await self._futures.answer(partial(self.node.get, PeerId(key)))

    @property
    def contact(self) -> Contact:
        return self.node.context.contact

    @property
    def last_lookup(self) -> LookupReport:
        """What the lookup that ended last did cost."""
        return self.node.last_lookup

    def known_contacts(self) -> list[Contact]:
        """All contacts of the routing table."""
        return [peer.contact for peer in self.node.contacts.table]

    def close(self) -> None:
        """Stop everything that runs, save the known contacts; more than once is fine."""
        if not self._futures.is_closed:
            self._futures.close()
            self.node.close()

    def _save(self, contacts: list[Contact]) -> None:
        if self._config.contacts_file is not None:
            save_contacts(self._config.contacts_file, contacts)


def save_contacts(path: Path, contacts: Iterable[Contact]) -> None:
    """Replace the file by one with these contacts, at once or not at all; an error is logged."""
    packed = [contact.packed() for contact in contacts][:MOST_CONTACTS]
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(pack({"format": FORMAT, "contacts": packed}))
        os.replace(temporary, path)
    except OSError as error:
        _log.warning("known contacts could not be saved to %s: %s", path, error.strerror)
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def load_contacts(path: Path) -> list[Contact]:
    """The contacts saved last; none when there is no file, or no usable one."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        _log.warning("known contacts could not be read from %s: %s", path, error.strerror)
        return []
    try:
        if len(data) > MOST_BYTES:
            raise UsageError("it is too large")
        saved = unpack(data)
        if type(saved) is not dict or saved.get("format") != FORMAT:
            raise UsageError("it is of another format")
        return [Contact.unpack(packed) for packed in saved["contacts"]]
    except (UsageError, WireError, KeyError, TypeError, ValueError) as error:
        _log.warning("known contacts in %s are ignored: %s", path, error)
        return []
