"""The limits and times of acknowledged channels."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError, check_positive

MESSAGE_OVERHEAD = 64
"""Bytes that a buffered message is charged beyond its own, so that empty ones are bounded too."""

MAX_FLIGHT = 1024
"""Segments: how far the newest one sent may be ahead of the oldest one not acknowledged."""

WRITABLE_PART = 8
"""A channel is writable while at most `send_buffer` / 8 (512 KiB) is not acknowledged. Mostly that is on its
way, and little waits: so channels that share a link stay about equally far, and when one of the peers stops,
the others need not first catch up with it. It bounds what a publisher sends to one peer to this much in a
round trip; a larger `send_buffer` allows more."""


@dataclass(frozen=True)
class ChannelConfig:
    """The same for every channel of a node. Sizes are bytes, times are seconds."""

    max_message: int = 1024 * 1024
    """The largest message."""

    send_buffer: int = 4 * 1024 * 1024
    """Messages accepted and not yet acknowledged, per channel, each charged its size + 64."""

    receive_buffer: int = 4 * 1024 * 1024
    """Messages received and not yet handed up (paused, or incomplete), per channel."""

    receive_memory: int = 64 * 1024 * 1024
    """The same for all channels of the node together."""

    max_channels: int = 4096
    """Peers with a channel at one time; one more is refused, unless its block of addresses (a /24, a /64) has
    fewer channels than another one, which then makes way."""

    max_half_open: int = 256
    """Channels opened by peers that have not yet shown that they hear us; one more is refused, unless the
    oldest began `close_after` ago and makes way, or one of a block of addresses with more channels does."""

    initial_rto: float = 0.5
    """The retransmission time-out before the first measurement of the round trip."""

    min_rto: float = 0.1
    """The least retransmission time-out: min(max(SRTT + 4 RTTVAR, min_rto), max_rto)."""

    max_rto: float = 5.0
    """The longest wait between two attempts, and so about the longest wait after a partition heals."""

    ack_delay: float = 0.02
    """How long a lone segment's acknowledgement waits for something to ride on."""

    close_after: float = 5.0
    """A channel whose peer leaves everything unanswered for this many seconds is closed."""

    idle_after: float = 60.0
    """A channel without messages or pings for this many seconds is dissolved and its memory freed."""

    forget_after: float = 600.0
    """A closed channel is given up after this many seconds, and what was not acknowledged is reported
    lost."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_message < 2**32:
            raise UsageError(f"max_message={self.max_message} is not within 1 byte and 4 GiB")
        for name in ("send_buffer", "receive_buffer", "receive_memory"):
            least = self.max_message + self.max_message // 16 + 65_536
            if getattr(self, name) < least:
                raise UsageError(
                    f"{name}={getattr(self, name)} must hold the largest message and its fragments' heads, "
                    f"{least} bytes"
                )
        if self.receive_buffer >= 2**31:
            raise UsageError(
                f"receive_buffer={self.receive_buffer} is not less than 2 GiB: how much a peer may send "
                "travels in 32 bits"
            )
        check_positive(self, besides=("ack_delay",))
        if not 0 <= self.ack_delay < self.min_rto:
            raise UsageError(
                f"ack_delay={self.ack_delay} must be less than min_rto={self.min_rto}, "
                "or every lone message is sent twice"
            )
        if self.max_rto < self.min_rto:
            raise UsageError(f"max_rto={self.max_rto} is less than min_rto={self.min_rto}")
        if self.forget_after < self.close_after:
            raise UsageError(
                f"forget_after={self.forget_after} is less than close_after={self.close_after}"
            )
