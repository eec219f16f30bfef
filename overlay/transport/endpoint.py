"""One endpoint for everything a node says and hears.

The DHT, plain datagrams and channels share one transport; a frame's kind tells them apart. Frames to one
address that are sent within one turn of the event loop leave together, in one datagram as far as they fit.

Nothing is promised about arrival: a datagram may be lost, repeated (unless sealed) or overtaken. What is
promised: whatever arrives from outside, `Endpoint` neither raises nor stops, and its work in a turn of the
loop is bounded; what it drops it counts. In a network with a key, frames travel in sessions: the sender's id
is proven, and a frame for a peer is not sent to another one at the same address (see `overlay.session`).

    dropped_in    unknown_version, unknown_flags, truncated, oversized, empty: not a datagram of this protocol
                  too_many_frames: more than any node puts into a datagram
                  no_sender: no id, nor a packet of a channel that tells it
                  sealed, unsealed: the sender has a key and this node does not, or the other way round
                  not_authentic: wrong key or altered bytes;  replayed: seen before
                  unknown_session: of a session that ended, or of another node;  crossed: both opened at once
                  too_many_openings: the sender's block of addresses opens more sessions than its share
                  from_self: this node's own id;  bad_source: an address that cannot be answered
                  unknown_kind, no_handler: a frame that nobody here takes
    dropped_out   queue_full, bad_address (not numeric, port 0, multicast, other family), closed
                  no_session: nobody answered, or too much waited;  another_peer: not the one that was meant
                  too_many_openings: sessions with too many addresses are being opened
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from overlay.contact import Address, Contact
from overlay.entropy import entropy
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.address import block_of, socket_address
from overlay.transport.config import EndpointConfig
from overlay.transport.frame import (
    FRAME_HEAD_BYTES,
    UNNAMED_PACKETS,
    Buffer,
    Destination,
    Dropped,
    Envelope,
    FrameBatch,
    FrameKind,
    Outbox,
    PlainEnvelope,
    SessionEnd,
    frame_head,
    split_frames,
    split_train,
)
from overlay.transport.guard import QUESTION, RUBBISH, FloodGuard, Friend, Refusal
from overlay.transport.udp import open_udp
from overlay.turn import Turn

if TYPE_CHECKING:
    from overlay.session.sessions import Sessions
    from overlay.transport.interface import OpenTransport, Transport

Handler = Callable[[Contact, bytes], None]
ViewHandler = Callable[[Contact, Buffer], None]

SENDS_A_TURN = 32
"""Datagrams, or trains of them: the most that leave before other callbacks and tasks get a turn."""

WORK_A_TURN = 1024
"""Datagrams and frames that are handled before other callbacks and tasks get a turn."""

STRANGERS_MAY_SEND = frozenset((FrameKind.DHT, FrameKind.PROBE))
"""Frames that ask something of anybody, and of which honest peers send few."""

LITTLE_WORK = WORK_A_TURN // 2
"""A turn is brought to its end for the sake of this work only when less than this is left of it."""

HANDSHAKE_WORK = 32
"""What a message of a handshake counts for in `WORK_A_TURN`."""

WITHOUT_A_KEY = (
    "secrecy: anybody on the path can read everything",
    "authenticity: anybody who reaches the port can forge, alter and repeat datagrams",
    "identity: a sender's id is what the sender says",
)
"""What a network without a key lacks."""


_log = logging.getLogger(__name__)


class EarlyQuestions(Protocol):
    """Questions of one kind that anybody may ask and that change nothing: asked before there is a session."""

    def is_one(self, body: bytes, /) -> bool:
        """Whether the body of a frame is such a question."""
        ...

    def answer(self, sender: Contact, body: bytes, /) -> bytes:
        """The body of the answer; the sender has not proven to be one."""
        ...


class Endpoint:
    """A node's one door to the network; made by `open`, given back by `close`."""

    contact: Contact
    """This node as others know it: its id, and the host and port it is bound to or advertises."""

    transport: Transport
    _is_ipv6: bool

    def __init__(self, config: EndpointConfig, identity: Identity, metrics: Metrics) -> None:
        self.config = config
        self.identity = identity
        self.metrics = metrics
        self.turn = Turn()
        """Where all layers of the node gather what leaves in one turn of the loop."""
        self.now = self.turn.now
        self.sessions: Sessions | None = None
        """None in a network without a key, which need not load them."""
        if config.keys:
            from overlay.session.sessions import Sessions

            self.sessions = Sessions(
                config.keys, identity, config.session, self, entropy(), metrics
            )
        self._envelope: Envelope = self.sessions or PlainEnvelope(identity.id)
        room = config.datagram_size - self._envelope.overhead
        unnamed_room = config.datagram_size - self._envelope.unnamed_overhead
        self.max_body: int = room - FRAME_HEAD_BYTES
        """Bytes: the largest body that fits one datagram."""
        self.max_packet: int = unnamed_room - FRAME_HEAD_BYTES
        """The same for packets of a channel that tell their sender (`UNNAMED_PACKETS`)."""
        self._outbox = Outbox(room, unnamed_room, config.socket.outgoing_limit)
        self._half_full = config.socket.outgoing_limit // 2
        self._handlers: dict[int, ViewHandler] = {}
        self._early: dict[int, EarlyQuestions] = {}
        self._waiting: deque[tuple[bytes, tuple[Any, ...]]] = deque()
        """Datagrams that arrived when the work of a turn was done."""
        self._work_left = WORK_A_TURN
        self._sends_left = SENDS_A_TURN
        self._guard = FloodGuard(config.socket.flood_limit, self, metrics)
        self.channel_peers: Callable[[], Iterable[Contact]] = lambda: ()
        """The peers that this node has a channel with; set by the channels."""
        self.on_heard: Callable[[Contact], None] = lambda peer: None
        """Told the sender of every frame but those of channels; set by the channels."""
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
        self._offloaded_out = metrics.counter(
            "datagrams_sent_in_trains", "Datagrams that the kernel took several of in one call"
        )
        self._offloaded_in = metrics.counter(
            "datagrams_received_in_trains", "Datagrams that the kernel gave several of in one call"
        )
        self._overflows = metrics.counter(
            "receive_queue_overflows", "Datagrams dropped because too many waited to be handled"
        )
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
    async def open(
        cls,
        config: EndpointConfig,
        identity: Identity,
        metrics: Metrics,
        open_transport: OpenTransport = open_udp,
    ) -> Endpoint:
        """Bind a transport and begin to receive; `ListenError` when the address is not to be had."""
        self = cls(config, identity, metrics)
        self.transport = await open_transport(
            config.listen_address,
            config.datagram_size,
            self.receive,
            self.turn.schedule,
            metrics,
            config.socket.offload,
        )
        bound = self.transport.address
        self._is_ipv6 = ":" in bound.host
        known_as = config.advertised_address or bound
        self.contact = Contact(identity.id, known_as.host, known_as.port or bound.port)
        return self

    def on(self, kind: FrameKind, handler: Handler) -> None:
        """Hand frames of this kind to `handler(sender, body)`: the sender's id and source address."""
        self.on_views(kind, lambda sender, body: handler(sender, bytes(body)))

    def on_views(self, kind: FrameKind, handler: ViewHandler) -> None:
        """The same for a handler that takes bodies as views of their datagram, which are not copied."""
        if kind in self._handlers:
            raise UsageError(f"frames of kind {kind.name} have a handler already")
        self._handlers[kind] = handler

    def on_early(self, kind: FrameKind, questions: EarlyQuestions) -> None:
        """Let questions of this kind be asked in the openings of sessions."""
        self._early[kind] = questions

    def know(self, sessions: Mapping[int, SessionEnd]) -> None:
        """These are, and will be, the channels of this node by the number of their session."""
        self._envelope.channel_sessions = sessions

    def rekey(self, keys: tuple[bytes, ...]) -> None:
        """Replace the ring of network keys of an endpoint that was opened with one."""
        if self.sessions is None:
            raise UsageError("this endpoint was opened without a key and cannot be given one later")
        self.sessions.rekey(keys)

    def send(self, to: Destination, kind: FrameKind, body: bytes) -> None:
        """Queue a frame; it leaves within this turn of the loop, unless too much waits already.

        In a network with a key, a frame for a contact is read by the contact's id alone, and waits for the
        first round trip with it; a frame for an address is read by the peer that is there.

        Never blocks, and never raises for reasons of the network; a body over `max_body` is the
        caller's error.
        """
        if len(body) > self.max_body:
            raise UsageError(f"a body of {len(body)} bytes exceeds max_body, {self.max_body}")
        if self._closed:
            self._dropped_out.add("closed")
        elif self._outbox.put(to, kind, (body,)):
            self.turn.schedule()
        else:
            self._dropped_out.add("queue_full")

    def send_all(
        self, to: Destination, kind: FrameKind, bodies: Sequence[Sequence[Buffer]]
    ) -> None:
        """As `send`, for frames with bodies in pieces, each at most `max_body`, or `max_packet`, in all."""
        if self._closed:
            self._dropped_out.add("closed", len(bodies))
            return
        put = self._outbox.put
        for body in bodies:
            if not put(to, kind, body):
                self._dropped_out.add("queue_full")
        self.turn.schedule()

    def send_at_once(
        self, to: Contact, kind: FrameKind, bodies: Sequence[Sequence[Buffer]]
    ) -> None:
        """As `send_all`, at the end of a turn: nothing more will join these frames in it.

        They leave now, as far as the turn's share of sends allows."""
        transport = self.transport
        if (
            len(bodies) == 1
            and not self._outbox.waiting
            and self._sends_left
            and transport.can_send
            and not self._closed
        ):
            destination = socket_address(to.host, to.port, self._is_ipv6)
            wrap = self._envelope.everyone or self._envelope.towards(to)
            if wrap is not None and destination is not None:
                body = bodies[0]
                frames = (frame_head(kind, sum(map(len, body))), *body)
                data = wrap(frames, kind is _CHANNEL and body[0][0] in UNNAMED_PACKETS)
                self._sends_left -= 1
                transport.send(data, destination)
                self._datagrams_out.value += 1
                self._bytes_out.value += len(data)
                self._frames_out.value += 1
                return
        self.send_all(to, kind, bodies)
        self.send_waiting()

    async def drained(self) -> None:
        """Wait while more than half of `outgoing_limit` waits to leave; a closed endpoint holds nobody up."""
        if self._outbox.size > self._half_full and not self._closed:
            self._has_space.clear()
            await self._has_space.wait()

    def send_waiting(self) -> None:
        """Send what waits now, and not at the end of the turn, as far as the turn's share allows."""
        waiting = self._outbox.waiting
        while waiting and self._sends_left and self.transport.can_send:
            self._sends_left -= 1
            self._send_next()

    def _flush(self) -> bool:
        """Send the next few datagrams; whether there are more. Or wait until the transport can send again."""
        outbox = self._outbox
        if outbox.waiting:
            self.send_waiting()
        self._sends_left = SENDS_A_TURN
        self._work_left = WORK_A_TURN
        if self._waiting:
            self.turn.before_flush(self._go_on)
        if outbox.size <= self._half_full and not self._has_space.is_set():
            self._has_space.set()
        return bool(outbox.waiting) and self.transport.can_send

    def _send_next(self) -> None:
        to, batches = self._outbox.take(self.transport.train)
        datagrams = len(batches)
        frames = batches[0].frames if datagrams == 1 else sum([batch.frames for batch in batches])
        destination = socket_address(to.host, to.port, self._is_ipv6)
        if destination is None:
            self._dropped_out.add("bad_address", frames)
            return
        wrap = self._envelope.towards(to)
        if wrap is None:
            self._envelope.hold(to, batches)
            return
        if datagrams == 1:
            data = wrap(batches[0].parts, batches[0].is_unnamed)
        else:
            data = b"".join([wrap(batch.parts, batch.is_unnamed) for batch in batches])
        self.transport.send(data, destination)
        if datagrams > 1:
            self._offloaded_out.value += datagrams
        self._datagrams_out.value += datagrams
        self._bytes_out.value += len(data)
        self._frames_out.value += frames
        self._coalesced.value += frames - datagrams

    # What sessions need.

    def call_at(self, when: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self.turn.call_at(when, action)

    def transmit(self, datagram: bytes, to: Address) -> None:
        """Send a datagram as it is, ahead of what waits; lost when the transport cannot send."""
        destination = socket_address(to.host, to.port, self._is_ipv6)
        if destination is not None and self.transport.can_send:
            self._datagrams_out.value += 1
            self._bytes_out.value += len(datagram)
            self.transport.send(datagram, destination)

    def release(self, to: Destination, batches: list[FrameBatch]) -> None:
        self._outbox.give_back(to, batches)
        self.turn.schedule()

    def drop(self, reason: str, frames: int) -> None:
        self._dropped_out.add(reason, frames)

    def is_flooding(self, host: str) -> bool:
        return bool(self._guard.floods) and block_of(host) in self._guard.floods

    def early_question(self, batch: FrameBatch) -> bytes:
        if batch.frames != 1:
            return b""
        frame = b"".join(batch.parts)
        questions = self._early.get(frame[0])
        return frame if questions and questions.is_one(frame[FRAME_HEAD_BYTES:]) else b""

    def answer_early(self, sender: Contact, frame: bytes) -> bytes:
        try:
            ((kind, body),) = split_frames(frame, 0)
        except (Dropped, ValueError):
            return b""
        questions = self._early.get(kind)
        if questions is None or not questions.is_one(bytes(body)):
            return b""
        answer = questions.answer(sender, bytes(body))
        return frame_head(kind, len(answer)) + answer

    # What the guard against floods needs.

    def friends(self) -> Iterable[Friend]:
        if self.sessions is not None:
            return self.sessions.friends()
        return (Friend(peer.host, peer.port, None) for peer in self.channel_peers())

    def refuse(self, refusal: Refusal | None) -> bool:
        return self.transport.refuse(refusal)

    def useless(self, sender: Contact, weight: int = RUBBISH) -> None:
        """A frame of this sender was refused by the layer that it was for."""
        self._guard.count((sender.host, sender.port), weight, is_proven=True)

    # Receiving.

    def receive(self, data: bytes, source: tuple[Any, ...]) -> None:
        """Take a datagram, or a train, from the address `source`; whatever it is, this does not raise."""
        if self._guard.floods and self._guard.drops(data, source):
            return
        is_one = len(data) > 3 and data[2] << 8 | data[3] == len(data)
        if is_one and self._work_left > 0 and not self._waiting:
            self._take(data, source)
        else:
            self._receive_train(split_train(data), source)
        if self._work_left < LITTLE_WORK:
            self.turn.schedule()

    def _receive_train(self, datagrams: Sequence[bytes], source: tuple[Any, ...]) -> None:
        """Take what this turn has time for, and keep the rest for the next."""
        if len(datagrams) > 1:
            self._offloaded_in.value += len(datagrams)
        for datagram in datagrams:
            if self._work_left > 0 and not self._waiting:
                self._take(datagram, source)
            elif len(self._waiting) < self.config.socket.incoming_limit:
                self._waiting.append((datagram, source))
                self._guard.is_behind = True
            else:
                self._overflows.value += 1

    def _go_on(self) -> None:
        """Go on with what waits since an earlier turn."""
        waiting = self._waiting
        while waiting and self._work_left > 0:
            self._take(*waiting.popleft())

    def _take(self, datagram: bytes, source: tuple[Any, ...]) -> None:
        self._datagrams_in.value += 1
        self._bytes_in.value += len(datagram)
        self._work_left -= 1
        try:
            opened = self._envelope.unwrap(datagram, source)
            if opened is None:
                self._work_left -= HANDSHAKE_WORK
                self._guard.count(source, RUBBISH)
                return
            contact, buffer, start = opened
            frames = split_frames(memoryview(buffer), start)
        except Dropped as drop:
            self._dropped_in.add(drop.reason)
            self._guard.count(source, RUBBISH)
            return
        self._work_left -= len(frames)
        if frames[0][0] in STRANGERS_MAY_SEND:
            self._guard.count(source, QUESTION, is_proven=True)
        for kind, body in frames:
            handler = self._handlers.get(kind)
            if handler is None:
                self._dropped_in.add("no_handler" if kind in _KINDS else "unknown_kind")
                self.useless(contact)
                continue
            if kind != _CHANNEL:
                self.on_heard(contact)
            try:
                handler(contact, body)
            except Exception:
                self._handler_failed(kind)
        self._frames_in.value += len(frames)

    def _handler_failed(self, kind: int) -> None:
        """Count an exception of a handler; log it at the 1st, 2nd, 4th, 8th... time of its kind."""
        name = _KINDS[kind]
        self._handler_errors.add(name)
        count = self._handler_errors[name]
        if count & (count - 1) == 0:
            _log.exception("the handler of %s frames failed, %d times so far", name, count)

    def protection(self) -> dict[str, Any]:
        """What protects this node's traffic, as a JSON object: its sessions, or what it lacks."""
        sessions = self.sessions
        return {
            "sealed": sessions is not None,
            "public_key": self.identity.public_key.hex(),
            "sessions": [] if sessions is None else sorted(map(str, sessions.peers)),
            "lacks": [] if sessions is not None else list(WITHOUT_A_KEY),
        }

    async def close(self) -> None:
        """Send what waits as far as the transport takes it, and let go of everything; twice is fine too."""
        if not self._closed:
            self._closed = True
            while self._outbox.waiting and self.transport.can_send:
                self._send_next()
            self._has_space.set()
            self._envelope.close()
            self._guard.close()
        self._waiting.clear()
        await self.transport.close()


_KINDS = {int(kind): kind.name for kind in FrameKind}
_CHANNEL = FrameKind.CHANNEL
