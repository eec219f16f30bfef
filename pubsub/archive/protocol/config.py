"""Times and bounds of durable delivery, the same for every role."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError, check_positive

DEADLINE = 30.0
"""Seconds that a durable event has to become safe, unless told otherwise."""

GRACE = 0.05
"""Seconds in which a notification's event may still come by itself before it is asked for."""


@dataclass(frozen=True)
class DurableConfig:
    """Times are seconds, sizes are bytes, everything else is a number of events."""

    retry: float = 0.5
    """A publisher repeats its oldest event that is not safe after this many seconds, then after 1.5 times as
    long."""

    patience: float = 4.0
    """An archive or a replica that has not answered for this many seconds is taken for failed, and another
    one sought."""

    heartbeat: float = 1.0
    """When nothing happens, a subscriber repeats its invoice, and a replica its sign of life, every
    `heartbeat` seconds."""

    absence: float = 600.0
    """A replica that has not been heard of for this many seconds, since this one was started, is not waited
    for any more before a damaged event is given up."""

    skew: float = 1.0
    """The clocks of replicas differ by at most this many seconds. A subscriber whose archive fails within a
    moment of its first registration begins that much earlier at another replica, so that nothing is
    missed."""

    tombstones: float = 30 * 86400.0
    """A name that was removed is remembered as removed for this many seconds; a replica that was away for
    longer may bring it back."""

    abandoned: float = 0.0
    """A durable name that no subscriber has used for this many seconds is forgotten, with what waits for it;
    0: never. Give all replicas of a topic the same."""

    forget_runs: float = 86400.0
    """A run of a publisher of which no replica has an event any more, and which has had no new one for this
    many seconds, is forgotten. A publisher that runs for long begins a new stream every quarter of this."""

    listen: float = 0.3
    """How long answers to a discovery are waited for after the first, before the best one is chosen."""

    buffer: int = 10_000
    """Events that a publisher keeps until they are safe; beyond, publishing waits."""

    buffer_bytes: int = 64 * 1024 * 1024
    """The most bytes of them, unless one event alone has more."""

    spare: int = 1_024
    """Events that a publisher keeps on though they are safe, for an archive that may lack them."""

    spare_bytes: int = 16 * 1024 * 1024
    """The most bytes that a publisher keeps before it keeps only what is not safe."""

    window: int = 1_024
    """Events that may be on their way to one archive or one subscriber without an answer."""

    unread: int = 8_192
    """Events that a subscriber is sent beyond those that its application is done with."""

    window_bytes: int = 3 * 1024 * 1024
    """The most bytes of events on their way to one archive, replica or subscriber, or there and not done
    with, unless one event alone has more; less than a channel buffers (`ChannelConfig.send_buffer`)."""

    batch: int = 256
    """The most events in one message."""

    batch_bytes: int = 60_000
    """The most bytes of events in one message, unless one event alone has more."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("skew", "abandoned", "forget_runs"))
        if not self.skew >= 0:
            raise UsageError(f"skew={self.skew} must be 0 seconds or more")
        if not self.forget_runs >= 0:
            raise UsageError(f"forget_runs={self.forget_runs} must be 0 seconds or more")
        if self.abandoned and not self.abandoned >= 10 * self.patience:
            raise UsageError(
                f"abandoned={self.abandoned} must be 0, or at least ten times patience={self.patience}, or "
                "names whose archive has failed are forgotten"
            )
        if self.patience <= self.heartbeat:
            raise UsageError(
                f"patience={self.patience} must be more than heartbeat={self.heartbeat}, or everybody "
                "seems to have failed"
            )
