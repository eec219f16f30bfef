"""The receiving side of a channel: takes segments, and says when and what to acknowledge."""

from __future__ import annotations

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.config import ChannelConfig
from overlay.channel.protocol.inbox import Inbox
from overlay.channel.protocol.packet import MAX_SELECTIVE_BYTES, PacketType, Refused

SEGMENTS_AN_ACK = 8
"""Segments that are acknowledged together at most; fewer than the window that a sender begins with."""


class Receiver:
    """Acknowledges every second full segment, every eighth small one and every irregular one at once, and
    whatever is left after `ack_delay`."""

    def __init__(self, config: ChannelConfig, budget: Budget, full_segment: int) -> None:
        """`full_segment`: bytes of a full one, if the peer's datagrams are as large as ours."""
        self.inbox = Inbox(config, budget)
        self.ack_due = False
        """An acknowledgement is to leave now."""
        self.ack_at: float | None = None
        """When one is to leave at the latest."""
        self._delay = config.ack_delay
        self._full = full_segment
        self._segments = self._bytes = 0
        """Not acknowledged yet."""

    def restart(self) -> None:
        """Begin a new session."""
        self.inbox.restart()
        self.acknowledged()

    def acknowledged(self) -> None:
        """A packet left, and every packet carries the acknowledgement."""
        self.ack_due = False
        self.ack_at = None
        self._segments = self._bytes = 0

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
        self._segments += 1
        self._bytes += len(segment)
        if self._bytes > self._full or self._segments >= SEGMENTS_AN_ACK or inbox.above:
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
