"""What a channel reports: its state, and that its peer began anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

OnAck = Callable[[bool], None]
"""Called exactly once: True when the peer has the message, False when that will never be known."""


class ChannelState(Enum):
    """Whether the two ends can talk."""

    OPENING = "opening"
    """The peer has not answered yet."""
    OPEN = "open"
    """The peer answers."""
    CLOSED = "closed"
    """The peer leaves everything unanswered: it crashed, or a partition is between. Attempts go on, and what
    was not acknowledged is sent again as soon as the peer is heard."""
    IDLE = "idle"
    """Nothing is kept for this peer: both ends agreed to dissolve an unused channel, or a closed one was
    given up. The next message opens it anew."""


@dataclass(frozen=True, slots=True)
class PeerRestarted:
    """The peer knows nothing of the session: it restarted, left, or had given this node up."""

    lost: int
    """Messages that were sent and not acknowledged: the peer may or may not have had them."""


ChannelEvent = ChannelState | PeerRestarted
