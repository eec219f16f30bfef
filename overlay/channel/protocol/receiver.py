"""The receiving side of a channel: takes segments, and says when and what to acknowledge."""

from __future__ import annotations

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.config import ChannelConfig
from overlay.channel.protocol.inbox import Inbox
from overlay.channel.protocol.packet import MAX_SELECTIVE_BYTES, PacketType, Refused


class Receiver:
    """Acknowledges every second segment and every irregular one at once, a lone one after `ack_delay`."""

    def __init__(self, config: ChannelConfig, budget: Budget) -> None:
        self.inbox = Inbox(config, budget)
        self.ack_due = False
        """An acknowledgement is to leave now."""
        self.ack_at: float | None = None
        """When one is to leave at the latest."""
        self._delay = config.ack_delay
        self._unacknowledged = 0

    def restart(self) -> None:
        """Begin a new session."""
        self.inbox.restart()
        self.acknowledged()

    def acknowledged(self) -> None:
        """A packet left, and every packet carries the acknowledgement."""
        self.ack_due = False
        self.ack_at = None
        self._unacknowledged = 0

    def take(self, kind: int, number: int, segment: bytes, now: float) -> list[bytes]:
        """The messages to hand up; `Refused` when the segment is not taken."""
        inbox = self.inbox
        try:
            if kind == PacketType.BUNDLE:
                messages = inbox.take_bundle(number, segment)
            elif kind == PacketType.FRAGMENT:
                messages = inbox.take_fragment(number, segment)
            else:
                raise Refused("malformed")
        except Refused:
            self.ack_due = True  # the sender learns what has arrived, and how much may come
            raise
        self._unacknowledged += 1
        if self._unacknowledged > 1 or inbox.above:
            self.ack_due = True
        elif self.ack_at is None:
            self.ack_at = now + self._delay
        return messages

    def handle_timer(self, now: float) -> None:
        if self.ack_at is not None and now >= self.ack_at:
            self.ack_at = None
            self.ack_due = True

    def selective_bits(self) -> bytes:
        """Which segments after the first missing one have arrived; empty when none is missing."""
        above = self.inbox.above
        if not above:
            return b""
        size = min((above.bit_length() + 7) // 8, MAX_SELECTIVE_BYTES)
        return (above & (1 << 8 * size) - 1).to_bytes(size, "little")
