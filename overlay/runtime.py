"""Runs protocol cores over UDP, real or virtual: one endpoint, its channels, the failure detector, a clock.

    async with await Runtime.open(RuntimeConfig(EndpointConfig("127.0.0.1:0"))) as runtime:
        core = SomeProtocol(runtime.context("channel"))
        runtime.on(SomeMessage, core.receive)

Messages are those of `overlay.wire`; they reach the handler of their type by whichever way they came. What
cannot be decoded, or has no handler, is counted (`messages_dropped_in`) and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from overlay.channel import (
    ChannelConfig,
    Channels,
    ChannelState,
    MessageTooLarge,
    OnAck,
    TooManyChannels,
    Until,
)
from overlay.contact import Contact
from overlay.context import Context, Randomness
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.failure import FailureConfig, FailureDetector
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Buffer, FrameKind
from overlay.wire import WireError, code_in, code_of, decode, encode, is_message_type

_log = logging.getLogger(__name__)

MessageHandler = Callable[[Contact, Any], None]
Links = Literal["channel", "datagram"]


@dataclass(frozen=True)
class RuntimeConfig:
    """How a node listens, talks and watches."""

    endpoint: EndpointConfig
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    failure: FailureConfig = field(default_factory=FailureConfig)


class Runtime:
    """A running node without protocols; made by `open`, given back by `close`."""

    def __init__(self, endpoint: Endpoint, config: RuntimeConfig) -> None:
        self.contact: Contact = endpoint.contact
        self.endpoint = endpoint
        self.metrics: Metrics = endpoint.metrics
        self.turn = endpoint.turn
        """The end of this turn of the loop: `turn.before_flush(action)` gathers what leaves together."""
        self.channels = Channels(endpoint, config.channel)
        self.failure = FailureDetector(endpoint, self.channels, config.failure)
        self._loop = asyncio.get_running_loop()
        self._handlers: dict[tuple[type, str | None], MessageHandler] = {}
        """What takes messages of each type; of a type that is handled by topic, those of each topic."""
        self._by_topic: set[type] = set()
        """Types that are handled by topic, or were."""
        self._ended: set[type] = set()
        """Types of messages that had a handler before, and have none now."""
        self._services: dict[range, Callable[[], object]] = {}
        self.gate: Callable[[Contact, object, MessageHandler, int], None] | None = None
        """Decides whether, and when, a message is handed to its handler; None: at once."""
        self._timers: dict[RuntimeTimer, None] = {}
        self._closed = False
        self._last_encoded: tuple[object, bytes] = (None, b"")
        self._dropped_in = self.metrics.family(
            "messages_dropped_in", "reason", "Messages that arrived and reached no handler"
        )
        self._dropped_out = self.metrics.family(
            "messages_dropped_out", "reason", "Messages that were not sent"
        )
        self._timers_failed = self.metrics.counter(
            "timers_failed", "Timers of protocol cores whose action raised"
        )
        self._named_unsendable: set[str] = set()
        self.channels.on_message(self._receive)
        endpoint.on_views(FrameKind.DATAGRAM, self._receive)

    @classmethod
    async def open(
        cls,
        config: RuntimeConfig,
        identity: Identity | None = None,
        metrics: Metrics | None = None,
    ) -> Runtime:
        """Bind the socket and begin to receive; a new identity, and new metrics, unless given."""
        endpoint = await Endpoint.open(
            config.endpoint, identity or Identity.create(), metrics or Metrics()
        )
        return cls(endpoint, config)

    async def close(self) -> None:
        """Stop everything: no timer, task or socket of this node is left; more than once is fine."""
        self._closed = True
        self.failure.close()
        for timer in list(self._timers):
            timer.cancel()
        await self.channels.close()
        await self.endpoint.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Receiving.

    def on(self, message_type: type, handler: MessageHandler, topic: str | None = None) -> None:
        """Hand every message of this type to `handler(sender, message)`, however it came.

        With a topic: those whose field `topic` is it. A type is handled as a whole or by topic, not both."""
        if not is_message_type(message_type):
            raise UsageError(f"{message_type.__name__} is not a registered message")
        if self.handles(message_type) or (message_type, topic) in self._handlers:
            raise UsageError(f"messages of type {message_type.__name__} have a handler already")
        self._handlers[message_type, topic] = handler
        self._ended.discard(message_type)
        if topic is not None:
            self._by_topic.add(message_type)

    def handles(self, message_type: type) -> bool:
        """Whether messages of this type have a handler, whatever their topic."""
        return (message_type, None) in self._handlers

    def off(self, message_type: type, topic: str | None = None) -> None:
        """Hand messages of this type, or of this type and topic, to nobody; what comes is counted as late."""
        if self._handlers.pop((message_type, topic), None) is not None and topic is None:
            self._ended.add(message_type)

    def _receive(self, sender: Contact, data: Buffer) -> None:
        try:
            message = decode(data)
        except WireError as error:
            if error.reason == "unknown_type" and self._start_service(code_in(data)):
                self._receive(sender, data)
            else:
                self._dropped_in.add(error.reason)
                self.endpoint.useless(sender)
            return
        handler = self._handlers.get((type(message), None))
        if handler is not None and self.gate is None:
            handler(sender, message)
        else:
            self._dispatch(sender, message, handler, len(data))

    def _dispatch(
        self, sender: Contact, message: object, handler: MessageHandler | None, size: int
    ) -> None:
        """Hand a message to a handler behind the gate, or find the one of its topic, or start a service."""
        kind = type(message)
        if handler is None:
            handler = self._handlers.get((kind, getattr(message, "topic", None)))
            if handler is None and self._start_service(code_of(kind)):
                handler = self._handlers.get((kind, None))
        if handler is None:
            self._dropped_in.add(self._why_nobody_takes(kind))
        elif self.gate is not None:
            self.gate(sender, message, handler, size)
        else:
            handler(sender, message)

    def _why_nobody_takes(self, kind: type) -> str:
        if kind in self._by_topic:
            return "other_topic"
        if kind in self._ended:
            return "late"  # an answer to what asked and has been closed since
        # Those who knew a node before it restarted speak to it while it joins; they ask again.
        return "no_handler" if self._handlers else "starting"

    def start_on(self, codes: range, start: Callable[[], object]) -> None:
        """Call `start` once, when the first message with one of these codes comes that nobody handles.

        It imports a service and registers its handlers, so that a node that never uses the service does not
        load it; the message then goes to the service."""
        self._services[codes] = start

    def _start_service(self, code: int | None) -> bool:
        for codes in self._services:
            if code in codes:
                self._services.pop(codes)()
                return True
        return False

    # Sending.

    def send(
        self,
        to: Contact,
        message: object,
        on_ack: OnAck | None = None,
        until: Until | None = None,
    ) -> bool:
        """Send over the channel to a peer; False, and counted, when it is full or there can be none.

        `on_ack` is called exactly once if the result is True, with whether the peer has the message. The
        message does not leave after `until.at`, see `Channel.try_send`. Raises `MessageTooLarge`, or
        `UsageError` for what is not a message.
        """
        return self.send_encoded(to, self._encoded(message), on_ack, until)

    def send_encoded(
        self,
        to: Contact,
        data: bytes,
        on_ack: OnAck | None = None,
        until: Until | None = None,
    ) -> bool:
        """As `send`, for a message that `wire.encode` has encoded: many peers are sent the same bytes."""
        if to.id == self.contact.id:
            self._deliver_here_soon(data, on_ack)
            return True
        try:
            accepted = self.channels.to(to).try_send(data, on_ack, until)
        except TooManyChannels:
            self._dropped_out.add("too_many_channels")
            return False
        except ClosedError:
            self._dropped_out.add("closed")
            return False
        if not accepted:
            self._dropped_out.add("channel_full")
        return accepted

    def send_datagram(self, to: Contact, message: object) -> bool:
        """Send without acknowledgement: it may be lost, repeated or overtaken.

        False, and counted, for what is larger than a datagram: it never leaves."""
        return self.send_encoded_datagram(to, self._encoded(message))

    def send_encoded_datagram(self, to: Contact, data: bytes) -> bool:
        """As `send_datagram`, for a message that `wire.encode` has encoded."""
        if to.id == self.contact.id:
            self._deliver_here_soon(data, None)
        elif len(data) > self.endpoint.max_body:
            self._dropped_out.add("too_large")
            return False
        else:
            self.endpoint.send(to, FrameKind.DATAGRAM, data)
        return True

    async def writable(self, contacts: Iterable[Contact]) -> None:
        """Wait until the channel to each of these peers is writable.

        Closed channels are not waited for: their peers do not answer, and may never again.
        """
        for contact in contacts:
            channel = self.channels.to(contact)
            while not channel.is_writable and channel.state is not ChannelState.CLOSED:
                await channel.change()

    def count_dropped(self, reason: str) -> None:
        """Count a message that a context could not send."""
        self._dropped_out.add(reason)

    def drop_unsendable(self, message: object, reason: str, error: Exception) -> None:
        """Count a message that no peer could ever be sent, and log the first one of each type."""
        self._dropped_out.add(reason)
        name = type(message).__name__
        if name not in self._named_unsendable:
            self._named_unsendable.add(name)
            _log.error(
                "a %s cannot be sent and is dropped (logged once for each type): %s", name, error
            )

    def _encoded(self, message: object) -> bytes:
        """The message as bytes; one that goes to many peers in turn is encoded once."""
        last, data = self._last_encoded
        if message is not last:
            data = encode(message)
            self._last_encoded = (message, data)
        return data

    def _deliver_here_soon(self, data: bytes, on_ack: OnAck | None) -> None:
        self.turn.call_soon(self._deliver_here, data, on_ack)

    def _deliver_here(self, data: bytes, on_ack: OnAck | None) -> None:
        if not self._closed:
            self._receive(self.contact, data)
        if on_ack is not None:
            on_ack(not self._closed)

    # Cores.

    def context(self, links: Links) -> Context:
        """The world of one protocol core that sends over channels, or by plain datagrams."""
        if links not in ("channel", "datagram"):
            raise UsageError(f"links={links!r} is neither 'channel' nor 'datagram'")
        return RuntimeContext(self, links)

    def call_later(self, delay: float, action: Callable[[], None]) -> RuntimeTimer:
        """Run `action` once, unless the runtime is closed before."""
        timer = RuntimeTimer(self, action)
        if not self._closed:
            timer.start(self.turn.call_at(self.turn.now() + delay, timer.fire))
        return timer

    def timer_failed(self, action: Callable[[], None], error: Exception) -> None:
        """Count an exception of a timer's action; the loop's exception handler is given it and logs it."""
        self._timers_failed.add()
        name = getattr(action, "__qualname__", repr(action))
        self._loop.call_exception_handler(
            {"message": f"the timer {name} of {self.contact} failed", "exception": error}
        )


class RuntimeTimer:
    """A timer that its runtime knows of until it fires or is cancelled.

    An exception of its action is counted (`timers_failed`) and logged, and ends nothing else."""

    __slots__ = ("_action", "_handle", "_running", "_runtime")

    def __init__(self, runtime: Runtime, action: Callable[[], None]) -> None:
        self._action = action
        self._runtime = runtime
        self._running = runtime._timers
        self._handle: asyncio.TimerHandle | None = None

    def start(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle
        self._running[self] = None

    def fire(self) -> None:
        self._running.pop(self, None)
        self._handle = None  # which holds this timer
        try:
            self._action()
        except Exception as error:
            self._runtime.timer_failed(self._action, error)

    def cancel(self) -> None:
        if self._running.pop(self, self) is None and self._handle is not None:
            self._handle.cancel()


class RuntimeContext:
    """`overlay.context.Context` on a runtime.

    `send` never raises, whatever the message: what cannot be sent is counted in `messages_dropped_out`, and
    what could never be sent to anybody (too large, or not a message) is also logged, once for each type. A
    core that sends within a timer is so sure to reach its next line, where it sets the timer again."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = runtime
        self.now: Callable[[], float] = asyncio.get_running_loop().time
        self._send = runtime.send if links == "channel" else runtime.send_datagram
        self._random = random.Random(entropy().getrandbits(64))

    @property
    def contact(self) -> Contact:
        return self._runtime.contact

    @property
    def random(self) -> Randomness:
        return self._random

    def send(self, to: Contact, message: object) -> None:
        try:
            self._send(to, message)
        except MessageTooLarge as error:
            self._runtime.drop_unsendable(message, "too_large", error)
        except UsageError as error:
            self._runtime.drop_unsendable(message, "cannot_be_encoded", error)

    def call_later(self, delay: float, action: Callable[[], None]) -> RuntimeTimer:
        return self._runtime.call_later(delay, action)
