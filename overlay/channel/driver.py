"""Acknowledged channels over an endpoint, one per peer: runs the pure channels on the event loop."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TypeVar

from overlay.channel.buffer import OnAck, Until
from overlay.channel.config import WRITABLE_PART, ChannelConfig
from overlay.channel.core import ChannelCore
from overlay.channel.machine import ChannelState, PeerRestarted, Phase
from overlay.channel.packet import ChannelRefused, Parts
from overlay.channel.table import ChannelTable
from overlay.contact import Address, Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Buffer, FrameKind

E = TypeVar("E")
MessageHandler = Callable[[Contact, Buffer], None]
StateHandler = Callable[[Contact, ChannelState], None]
RestartHandler = Callable[[Contact, PeerRestarted], None]
WritableHandler = Callable[[Contact], None]
SendAll = Callable[[Contact, FrameKind, Sequence[Parts]], None]

_log = logging.getLogger(__name__)

_GONE, _CHANNEL = Phase.GONE, FrameKind.CHANNEL
"""Asked for every packet: a name of this module is found sooner than a member of an enumeration."""

SENDS_A_TURN = 256
"""Messages that `send` may buffer, one after another, before other tasks get a turn."""


class Channel:
    """Sends to one peer. Stays good when the channel becomes idle: the next message opens it again."""

    __slots__ = (
        "__weakref__",
        "_channels",
        "_sends",
        "_writable_below",
        "address",
        "contact",
        "core",
        "timer",
        "timer_at",
        "waiters",
        "was_full",
    )

    def __init__(self, channels: Channels, contact: Contact, writable_below: int) -> None:
        self.contact = contact
        """The peer, at the address that it was last heard from."""
        self.address: Address = contact.address
        self.core: ChannelCore | None = None
        """The state machine, or None while idle; the concern of `Channels` alone, as all below."""
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at = inf
        """When the timer rings, on the loop's clock; never while there is none."""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.was_full = False
        """Whether the channel was not writable, and nobody has been told that it is again."""
        self._channels = channels
        self._writable_below = writable_below
        self._sends = 0

    @property
    def state(self) -> ChannelState:
        return ChannelState.IDLE if self.core is None else self.core.state

    @property
    def buffered(self) -> int:
        """Bytes of messages that are not acknowledged, each charged its size + 64."""
        return 0 if self.core is None else self.core.transmitter.buffer.used

    @property
    def is_writable(self) -> bool:
        """Whether at most an eighth of the send buffer is used; `Channels.on_writable` tells when again."""
        core = self.core
        return core is None or core.transmitter.buffer.used <= self._writable_below

    @property
    def heard_at(self) -> float | None:
        """When the peer last gave proof of life, on the loop's clock; None if that is not known."""
        return None if self.core is None else self.core.patience.heard_at

    @property
    def patience(self) -> float:
        """Seconds that an acknowledgement may take, by the round trips so far."""
        core = self.core
        return self._channels.config.initial_rto if core is None else core.transmitter.rtt.patience

    def try_send(
        self,
        message: bytes,
        on_ack: OnAck | None = None,
        until: Until | None = None,
    ) -> bool:
        """Buffer a message, or say False when the send buffer is full.

        It leaves at the end of this turn of the loop, with what else the turn has for the peer.

        When the time `until.at` has come, on the loop's clock, the message is neither sent nor sent
        again: it is counted (`channel_messages_expired`), and lost unless it has arrived.

        `on_ack` is called exactly once if the message is taken, with whether the peer has it (see `OnAck`).
        Raises `MessageTooLarge` over `max_message`, `TooManyChannels`, and `ClosedError`.
        """
        channels = self._channels
        core = self.core or channels.open(self)
        if not core.write(message, on_ack, until):
            self.was_full = True
            return False
        if core.transmitter.buffer.used > self._writable_below:
            self.was_full = True
        # As `Channels.touch` does, without a call: this is done for every message.
        channels.touched[self] = None
        if not channels.turn.is_due:
            channels.turn.schedule()
        return True

    def send_alone(self, message: bytes, on_ack: OnAck | None, until: Until | None) -> bool:
        """As `try_send`, but the message leaves now, and not with what this turn may bring yet.

        False, and nothing done, where anything else waits or is to be said first."""
        core, channels = self.core, self._channels
        if core is None or core.contact is not self.contact:
            return False
        now = channels.turn.now()
        packet = core.packet_alone(message, on_ack, until, now)
        if packet is None:
            return False
        channels.endpoint.send_at_once(self.contact, _CHANNEL, (packet,))
        if core.transmitter.buffer.used > self._writable_below:
            self.was_full = True
        retry_at, timer_at = core.patience.retry_at, self.timer_at
        if retry_at is None or retry_at < timer_at or now + core.config.close_after < timer_at:
            channels.touch(self)  # else nothing can have become due earlier than before
        return True

    def withdraw(self, is_unwanted: Callable[[bytes], bool]) -> None:
        """Do not send the messages that wait and are not wanted any more; they are lost, and counted."""
        if self.core is not None:
            self.core.transmitter.buffer.withdraw(is_unwanted)
            self._channels.touch(self)

    async def send(self, message: bytes, on_ack: OnAck | None = None) -> None:
        """Buffer a message, after waiting for space where there is none; raises like `try_send`."""
        while not self.try_send(message, on_ack):
            await self.change()
        self._sends += 1
        if self._sends >= SENDS_A_TURN:
            self._sends = 0
            await asyncio.sleep(0)

    async def writable(self) -> None:
        """Wait until at most an eighth of the send buffer is used; `ClosedError` when that never happens."""
        while not self.is_writable:
            await self.change()

    async def drained(self) -> None:
        """Wait until every message is acknowledged or lost."""
        while self.buffered:
            await self.change()

    def ping(self) -> None:
        """Ask the peer for a sign of life; `heard_at` tells when it came."""
        core = self.core or self._channels.open(self)
        core.ping(asyncio.get_running_loop().time())
        self._channels.touch(self)

    async def change(self) -> None:
        """Wait until space may have become free, or the state has changed."""
        if self._channels.is_closed:
            raise ClosedError("the channels were closed while a message waited for space")
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(change)
        await change


class Channels:
    """Every channel of one node.

    What is sent over a channel arrives, once, unless a side crashes, the peers stay partitioned longer than
    `forget_after`, or a side is closed; order is not promised. A slow peer holds up its own channel only.
    Handlers are called on the event loop and must not block; what they raise is counted and logged.
    """

    def __init__(self, endpoint: Endpoint, config: ChannelConfig) -> None:
        self.config = config
        self.is_closed = False
        self.turn = endpoint.turn
        self.endpoint = endpoint
        self._table = ChannelTable(config, endpoint.max_packet, entropy())
        endpoint.know(self._table.by_session)
        self.live: dict[PeerId, Channel] = {}
        """The channels in use, which have a state machine."""
        self._handles: weakref.WeakValueDictionary[PeerId, Channel] = weakref.WeakValueDictionary()
        """So that there is one handle a peer, however often the channel becomes idle meanwhile."""
        self.touched: dict[Channel, None] = {}
        """Channels that may have something to send, or to report, in this turn."""
        self.turn.then(self._flush)
        self._message_handler: MessageHandler = lambda contact, message: None
        self._state_handlers: list[StateHandler] = []
        self._restart_handlers: list[RestartHandler] = []
        self._writable_handlers: list[WritableHandler] = []
        self._make_counters()
        endpoint.on_views(_CHANNEL, self._receive)
        endpoint.on_heard = self._heard_elsewhere
        endpoint.channel_peers = self._peers

    def _make_counters(self) -> None:
        metrics = self.endpoint.metrics
        self._received = metrics.counter(
            "channel_messages_received", "Messages handed up by channels"
        )
        self._refused = metrics.family(
            "channel_refused", "reason", "Channel packets that were not taken"
        )
        self._restarts = metrics.counter(
            "channel_restarts", "Channels whose peer had lost its side"
        )
        self._lost = metrics.counter(
            "channel_messages_lost", "Messages sent to a peer's side that was lost"
        )
        self._expired = metrics.counter(
            "channel_messages_expired", "Messages not sent, or not sent again: they had their time"
        )
        self._handler_errors = metrics.family(
            "channel_handler_errors", "handler", "Exceptions of this node's own handlers"
        )
        metrics.gauge("channels", "Channels that hold memory", lambda: len(self.live))

    # What the node does.

    def to(self, contact: Contact) -> Channel:
        """The channel to a peer; nothing is sent, and no memory held, until it is used."""
        channel = self.live.get(contact.id)
        if channel is not None:
            known = channel.contact
            if contact.port != known.port or contact.host != known.host:
                self._table.to(contact, self.turn.now())  # takes the address unless it knows better
            return channel
        channel = self._handles.get(contact.id)
        if channel is None:
            channel = Channel(self, contact, self.config.send_buffer // WRITABLE_PART)
            self._handles[contact.id] = channel
        elif channel.contact != contact:
            self._move(channel, contact)
        return channel

    def heard_at(self, peer: PeerId) -> float | None:
        """When a peer last gave proof of life, on the loop's clock; None if that is not known."""
        core = self._table.cores.get(peer)
        return None if core is None else core.patience.heard_at

    def owes(self, peer: PeerId) -> bool:
        """Whether a message that was sent to a peer is not acknowledged."""
        core = self._table.cores.get(peer)
        return core is not None and core.transmitter.buffer.used > 0

    @property
    def held(self) -> int:
        """Bytes received and not yet handed up, or of incomplete messages, over all channels."""
        return sum(core.receiver.inbox.held for core in self._table.cores.values())

    def on_message(self, handler: MessageHandler) -> None:
        """Hand every message to `handler(sender, message)`; there is one handler.

        A message may be a view of its datagram, which is not copied."""
        self._message_handler = handler

    def on_state(self, handler: StateHandler) -> None:
        """Call `handler(peer, state)` whenever a channel changes its state."""
        self._state_handlers.append(handler)

    def on_restart(self, handler: RestartHandler) -> None:
        """Call `handler(peer, event)` when a peer turns out to have lost its side of the channel."""
        self._restart_handlers.append(handler)

    def on_writable(self, handler: WritableHandler) -> None:
        """Call `handler(peer)` when a channel that was not writable is so again."""
        self._writable_handlers.append(handler)

    def is_writable(self, peer: PeerId) -> bool:
        """Whether the channel to a peer, if there is one, is writable; cheap to ask."""
        channel = self.live.get(peer)
        return channel is None or channel.is_writable

    def pause(self) -> None:
        """Hand up no message until `resume`; senders are held back once the receive buffers are full."""
        self._table.paused = True
        for core in self._table.cores.values():
            core.pause()

    def resume(self) -> None:
        """Hand up what came meanwhile, and everything from now on."""
        self._table.paused = False
        for channel in list(self.live.values()):
            if channel.core is not None:
                messages = channel.core.resume()
                self.touch(channel)
                self._hand_up(channel.contact, messages)

    def _peers(self) -> Iterator[Contact]:
        """The peers of channels, but for those that only began to open one."""
        return (core.contact for core in self._table.cores.values() if not core.is_half_open)

    async def drained(self) -> None:
        """Wait until every message sent so far is acknowledged or lost."""
        for channel in list(self.live.values()):
            await channel.drained()

    def prefer(self, has_rights: Callable[[PeerId], bool]) -> None:
        """Keep places for peers that have shown a right, where there are too few for all."""
        self._table.has_rights = has_rights

    async def close(self) -> None:
        """End every channel at once; what is not acknowledged is lost. The peers are told."""
        if self.is_closed:
            return
        self.is_closed = True
        for channel in list(self.live.values()):
            if channel.core is not None:
                channel.core.abandon()
                self._flush_one(channel, self.turn.now(), self.endpoint.send_all)
        self.touched.clear()

    # What the handles need.

    def open(self, channel: Channel) -> ChannelCore:
        """Give an idle channel its state machine."""
        if self.is_closed:
            raise ClosedError("the channels of this node are closed: nothing can be sent any more")
        core = channel.core = self._table.to(channel.contact, self.turn.now())
        self.live[channel.contact.id] = channel
        self._release_dropped()
        return core

    def touch(self, channel: Channel) -> None:
        """Have whatever a channel has to send leave within this turn of the loop."""
        self.touched[channel] = None
        if not self.turn.is_due:
            self.turn.schedule()

    # What the network does.

    def _receive(self, sender: Contact, packet: Buffer) -> None:
        if self.is_closed:
            return
        table = self._table
        messages: list[Buffer] = []
        now = self.turn.now()
        try:
            messages = table.receive(sender, packet, now)
        except ChannelRefused as refusal:
            self._refused.add(refusal.reason)
            self.endpoint.useless(sender)
        if table.dropped:
            self._release_dropped()
        core = table.cores.get(sender.id)
        if core is not None:
            channel = self.live.get(sender.id) or self._adopt(core)
            if core.phase is _GONE:
                self._flush_one(channel, now, self.endpoint.send_all)
        if table.replies:
            for to, reply in table.replies:
                self.endpoint.send(to, _CHANNEL, reply)
            table.replies.clear()
        if messages:
            self._hand_up(sender, messages)
        if core is not None and core.phase is not _GONE:
            if core.has_news or channel.was_full or channel.waiters:
                self.touch(channel)
            elif (ack_at := core.receiver.ack_at) is not None and ack_at < channel.timer_at:
                self._arm(channel, ack_at)  # nothing else can have become due earlier

    def _heard_elsewhere(self, peer: Contact) -> None:
        """A frame of a peer came that is not one of its channel."""
        channel = self.live.get(peer.id)
        if channel is None or channel.core is None:
            return
        patience = channel.core.patience
        if patience.retry_at is not None and channel.core.heard_elsewhere(self.turn.now()):
            self._arm(channel, patience.retry_at)

    def _adopt(self, core: ChannelCore) -> Channel:
        """The handle of a channel that a peer has just begun to open."""
        channel = self.to(core.contact)
        channel.core = core
        self.live[core.contact.id] = channel
        return channel

    def _release_dropped(self) -> None:
        dropped = list(self._table.dropped)
        self._table.dropped.clear()
        for core in dropped:
            channel = self.live[core.contact.id]
            self._flush_one(channel, self.turn.now(), self.endpoint.send_all)

    def _hand_up(self, sender: Contact, messages: list[Buffer]) -> None:
        self._received.value += len(messages)
        handler = self._message_handler
        for message in messages:
            try:
                handler(sender, message)
            except Exception:
                self._handler_failed("message")

    def _flush(self) -> bool:
        if not self.touched:
            return False
        touched, self.touched = self.touched, {}
        now = self.turn.now()
        send = self.endpoint.send_at_once
        for channel in touched:
            if channel.core is not None:
                # The first peer need not wait until the last one's packets are made.
                self._send_packets(channel, now, send)
                self._look_after(channel, channel.core)
        return bool(self.touched)

    def _flush_one(self, channel: Channel, now: float, send: SendAll) -> None:
        assert channel.core is not None
        self._send_packets(channel, now, send)
        self._look_after(channel, channel.core)

    def _send_packets(self, channel: Channel, now: float, send: SendAll) -> None:
        core = channel.core
        assert core is not None
        if core.contact is not channel.contact:
            self._move(channel, core.contact)
        packets = core.packets(now)
        if packets:
            send(channel.contact, _CHANNEL, packets)

    def _look_after(self, channel: Channel, core: ChannelCore) -> None:
        """Set the timer of a channel that has sent, and report what has happened to it."""
        if core.phase is _GONE:
            self._release(channel, core)
        elif (due := core.next_timer()) < channel.timer_at:
            self._arm(channel, due)
        if channel.was_full and channel.is_writable:
            self._tell_writable(channel)
        if channel.waiters and (channel.is_writable or core.events):
            self._wake(channel)
        buffer = core.transmitter.buffer
        if core.events or buffer.outcomes or buffer.expired:
            self._report(channel.contact, core)

    def _move(self, channel: Channel, contact: Contact) -> None:
        channel.contact = contact
        channel.address = contact.address

    def _release(self, channel: Channel, core: ChannelCore) -> None:
        self._table.remove(core)
        channel.core = None
        if channel.timer is not None:
            channel.timer.cancel()
            channel.timer, channel.timer_at = None, inf
        del self.live[channel.contact.id]

    def _arm(self, channel: Channel, due: float) -> None:
        """Have the timer ring at `due`, which is earlier than it would: one that rings too early is cheaper
        than to set it anew."""
        if channel.timer is not None:
            channel.timer.cancel()
        channel.timer_at = due
        channel.timer = self.turn.call_at(due, self._ring, channel)

    def _ring(self, channel: Channel) -> None:
        now = max(self.turn.now(), channel.timer_at)
        channel.timer, channel.timer_at = None, inf
        core = channel.core
        if core is None:
            return
        due = core.next_timer()
        if due > now:
            self._arm(channel, due)
        else:
            core.handle_timer(now)
            self._flush_one(channel, now, self.endpoint.send_all)

    def _wake(self, channel: Channel) -> None:
        waiters = list(channel.waiters)
        channel.waiters.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell_writable(self, channel: Channel) -> None:
        channel.was_full = False
        for handler in list(self._writable_handlers):
            try:
                handler(channel.contact)
            except Exception:
                self._handler_failed("writable")

    def _report(self, peer: Contact, core: ChannelCore) -> None:
        buffer = core.transmitter.buffer
        outcomes = list(buffer.outcomes)
        buffer.outcomes.clear()
        self._expired.value += buffer.expired
        buffer.expired = 0
        for on_ack, arrived in outcomes:
            try:
                on_ack(arrived)
            except Exception:
                self._handler_failed("on_ack")
        events = list(core.events)
        core.events.clear()
        for event in events:
            if isinstance(event, PeerRestarted):
                self._restarts.value += 1
                self._lost.value += event.lost
                self._tell(self._restart_handlers, "restart", peer, event)
            else:
                self._tell(self._state_handlers, "state", peer, event)

    def _tell(
        self, handlers: Sequence[Callable[[Contact, E], None]], name: str, peer: Contact, event: E
    ) -> None:
        for handler in list(handlers):
            try:
                handler(peer, event)
            except Exception:
                self._handler_failed(name)

    def _handler_failed(self, name: str) -> None:
        """Count an exception of a handler; log it at the 1st, 2nd, 4th, 8th... time."""
        self._handler_errors.add(name)
        count = self._handler_errors[name]
        if count & (count - 1) == 0:
            _log.exception("a %s handler failed, %d times so far", name, count)
