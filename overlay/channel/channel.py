"""A handle on the channel to one peer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from overlay.channel.protocol.core import ChannelCore
from overlay.channel.protocol.state import ChannelState, OnAck
from overlay.contact import Address, Contact
from overlay.errors import ClosedError

if TYPE_CHECKING:
    from overlay.channel.channels import Channels

SENDS_A_TURN = 256
"""Messages that `send` may buffer, one after another, before other tasks get a turn."""


class Channel:
    """Sends to one peer. Stays good when the channel becomes idle: the next message opens it again."""

    __slots__ = (
        "__weakref__",
        "_channels",
        "_half_full",
        "_sends",
        "address",
        "contact",
        "core",
        "timer",
        "timer_at",
        "waiters",
    )

    def __init__(self, channels: Channels, contact: Contact, half_full: int) -> None:
        self.contact = contact
        """The peer, at the address that it was last heard from."""
        self.address: Address = contact.address
        self.core: ChannelCore | None = None
        """The state machine, or None while idle; the concern of `Channels` alone, as all below."""
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at = 0.0
        self.waiters: deque[asyncio.Future[None]] = deque()
        self._channels = channels
        self._half_full = half_full
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
        """Whether the send buffer is at most half full."""
        return self.buffered <= self._half_full

    @property
    def heard_at(self) -> float | None:
        """When the peer last gave proof of life, on the loop's clock; None if that is not known."""
        return None if self.core is None else self.core.patience.heard_at

    def try_send(self, message: bytes, on_ack: OnAck | None = None) -> bool:
        """Buffer a message, or say False when the send buffer is full.

        `on_ack` is called exactly once if the message is taken, with whether the peer has it (see `OnAck`).
        Raises `MessageTooLarge` over `max_message`, `TooManyChannels`, and `ClosedError`.
        """
        core = self.core or self._channels.open(self)
        if not core.write(message, on_ack):
            return False
        self._channels.touch(self)
        return True

    async def send(self, message: bytes, on_ack: OnAck | None = None) -> None:
        """Buffer a message, after waiting for space where there is none; raises like `try_send`."""
        while not self.try_send(message, on_ack):
            await self.change()
        self._sends += 1
        if self._sends >= SENDS_A_TURN:
            self._sends = 0
            await asyncio.sleep(0)

    async def writable(self) -> None:
        """Wait until the send buffer is at most half full; `ClosedError` when that never happens."""
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
