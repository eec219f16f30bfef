"""One UDP socket for everything a node says and hears.

The DHT, plain datagrams and channels share the socket; a frame's kind tells them apart. Frames to one
address that are sent within one turn of the event loop leave together, in one datagram as far as they fit.

Nothing is promised about arrival: a datagram may be lost, repeated (unless sealed) or overtaken. What is
promised: whatever arrives from outside, `Endpoint` neither raises nor stops; what it drops it counts.

    dropped_in    unknown_version, unknown_flags, truncated, oversized, empty: no datagram of this protocol
                  sealed, unsealed: the sender has a key and this node does not, or the other way round
                  not_authentic: wrong key, forged sender or altered bytes;  replayed, old_boot: seen before
                  from_self: this node's own id;  bad_source: an address that cannot be answered
                  unknown_kind, no_handler: a frame that nobody here takes
    dropped_out   queue_full, bad_address (not numeric, port 0, multicast, other family), closed
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from overlay.contact import Address, Contact
from overlay.datagram_socket import DatagramSocket
from overlay.endpoint_config import EndpointConfig
from overlay.entropy import entropy
from overlay.errors import UsageError
from overlay.frame import FRAME_HEAD_BYTES, Dropped, Envelope, Kind, PlainEnvelope, split_frames
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.outbox import Outbox
from overlay.seal import SealedEnvelope
from overlay.socket_address import sender_contact, socket_address
from overlay.turn import Turn

__all__ = ["Endpoint", "EndpointConfig", "Kind"]

Handler = Callable[[Contact, bytes], None]

SENDS_A_TURN = 32
"""Datagrams: the most that leave before other callbacks and tasks get a turn."""

_log = logging.getLogger(__name__)


class Endpoint:
    """A node's one socket; made by `open`, given back by `close`."""

    contact: Contact
    """This node as others know it: its id, and the host and port it is bound to or advertises."""

    _socket: DatagramSocket
    _is_ipv6: bool

    def __init__(self, config: EndpointConfig, identity: Identity, metrics: Metrics) -> None:
        self.config = config
        self.identity = identity
        self.metrics = metrics
        self._envelope: Envelope = (
            SealedEnvelope(config.keys, identity.id, boot_number())
            if config.keys
            else PlainEnvelope(identity.id)
        )
        room = config.datagram_size - self._envelope.overhead
        self.max_body: int = room - FRAME_HEAD_BYTES
        """Bytes: the largest body that fits one datagram."""
        self._outbox = Outbox(room, config.outgoing_limit)
        self._half_full = config.outgoing_limit // 2
        self._handlers: dict[int, Handler] = {}
        self.turn = Turn()
        """Where all layers of the node gather what leaves in one turn of the loop."""
        self.turn.then(self._flush)
        self._closed = False
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._make_counters()

    def _make_counters(self) -> None:
        metrics = self.metrics
        self._datagrams_out = metrics.counter("datagrams_sent", "Datagrams sent")
        self._bytes_out = metrics.counter("bytes_sent", "Bytes of UDP payload sent")
        self._frames_out = metrics.counter("frames_sent", "Frames sent")
        self._coalesced = metrics.counter(
            "frames_coalesced", "Frames that left in a datagram together with an earlier one"
        )
        self._dropped_out = metrics.family("dropped_out", "reason", "Frames that were not sent")
        self._datagrams_in = metrics.counter("datagrams_received", "Datagrams received")
        self._bytes_in = metrics.counter("bytes_received", "Bytes of UDP payload received")
        self._frames_in = metrics.counter("frames_received", "Frames received")
        self._dropped_in = metrics.family(
            "dropped_in", "reason", "Datagrams and frames that arrived and were not taken"
        )
        self._handler_errors = metrics.family(
            "handler_errors", "kind", "Exceptions of this node's own handlers"
        )

    @classmethod
    async def open(cls, config: EndpointConfig, identity: Identity, metrics: Metrics) -> Endpoint:
        """Bind the socket and begin to receive; `ListenError` when the address is not to be had."""
        self = cls(config, identity, metrics)
        self._socket = await DatagramSocket.open(
            config.listen_address, config.incoming_limit, metrics, self.turn.schedule
        )
        bound = self._socket.address
        self._is_ipv6 = ":" in bound.host
        known_as = config.advertised_address or bound
        self.contact = Contact(identity.id, known_as.host, known_as.port or bound.port)
        self._socket.start(self.receive)
        return self

    def on(self, kind: Kind, handler: Handler) -> None:
        """Hand frames of this kind to `handler(sender, body)`: the sender's id and source address."""
        if kind in self._handlers:
            raise UsageError(f"frames of kind {kind.name} have a handler already")
        self._handlers[kind] = handler

    def rekey(self, keys: tuple[bytes, ...]) -> None:
        """Replace the ring of network keys of an endpoint that was opened with one."""
        if not isinstance(self._envelope, SealedEnvelope):
            raise UsageError("this endpoint was opened without a key and cannot be given one later")
        self._envelope.rekey(keys)

    def send(self, to: Address, kind: Kind, body: bytes) -> None:
        """Queue a frame; it leaves within this turn of the loop, unless too much waits already.

        Never blocks, and never raises for reasons of the network; a body over `max_body` is the
        caller's error.
        """
        if len(body) > self.max_body:
            raise UsageError(f"a body of {len(body)} bytes exceeds max_body, {self.max_body}")
        if self._closed:
            self._dropped_out.add("closed")
        elif not self._outbox.put(to, kind, body):
            self._dropped_out.add("queue_full")
        else:
            self.turn.schedule()

    async def drained(self) -> None:
        """Wait while more than half of `outgoing_limit` waits to leave; a closed endpoint holds nobody up."""
        if self._outbox.size > self._half_full and not self._closed:
            self._has_space.clear()
            await self._has_space.wait()

    def _flush(self) -> bool:
        """Send the next few datagrams; whether there are more. Or wait until the socket can send again."""
        outbox = self._outbox
        for _ in range(min(len(outbox), SENDS_A_TURN)):
            if not self._socket.can_send:
                return False
            self._send_next()
        if outbox.size <= self._half_full:
            self._has_space.set()
        return bool(outbox)

    def _send_next(self) -> None:
        batch = self._outbox.take()
        destination = socket_address(batch.to, self._is_ipv6)
        if destination is None:
            self._dropped_out.add("bad_address", batch.frames)
            return
        datagram = self._envelope.wrap(batch.parts)
        self._socket.send(datagram, destination)
        self._datagrams_out.value += 1
        self._bytes_out.value += len(datagram)
        self._frames_out.value += batch.frames
        self._coalesced.value += batch.frames - 1

    def receive(self, datagram: bytes, source: tuple[Any, ...]) -> None:
        """Take one datagram from the socket address `source`; whatever it is, this does not raise."""
        self._datagrams_in.value += 1
        self._bytes_in.value += len(datagram)
        try:
            sender, buffer, start = self._envelope.unwrap(datagram)
            frames = split_frames(buffer, start)
            contact = self._sender(sender, source)
        except Dropped as drop:
            self._dropped_in.add(drop.reason)
            return
        for kind, body in frames:
            handler = self._handlers.get(kind)
            if handler is None:
                self._dropped_in.add("no_handler" if kind in _KINDS else "unknown_kind")
                continue
            try:
                handler(contact, body)
            except Exception:
                self._handler_failed(kind)
        self._frames_in.value += len(frames)

    def _sender(self, sender: bytes, source: tuple[Any, ...]) -> Contact:
        if sender == self.identity.id:
            raise Dropped("from_self")
        contact = sender_contact(sender, source)
        if contact is None:
            raise Dropped("bad_source")
        return contact

    def _handler_failed(self, kind: int) -> None:
        """Count an exception of a handler; log it at the 1st, 2nd, 4th, 8th... time of its kind."""
        name = _KINDS[kind]
        self._handler_errors.add(name)
        count = self._handler_errors[name]
        if count & (count - 1) == 0:
            _log.exception("the handler of %s frames failed, %d times so far", name, count)

    async def close(self) -> None:
        """Send what waits as far as the socket takes it, and let go of everything; more than once is fine."""
        if not self._closed:
            self._closed = True
            while self._outbox and self._socket.can_send:
                self._send_next()
            self._has_space.set()
        await self._socket.close()


def boot_number() -> int:
    """Greater than the boot numbers that this node drew before, as long as its clock does not go back.

    Milliseconds in the high 44 bits, chance in the low 20. A node whose clock was put back is not heard by
    those who remember it until its clock has caught up.
    """
    return int(time.time() * 1000) << 20 | entropy().getrandbits(20)


_KINDS = {int(kind): kind.name for kind in Kind}
