"""When to send again, how much may be on its way, and how long to wait: time-out, window, patience."""

from __future__ import annotations

from overlay.channel.config import ChannelConfig
from overlay.channel.machine import Phase
from overlay.smoothed import Smoothed

GRANULARITY = 0.001
"""Seconds: the least variation that the time-out allows for (the RFC's G)."""

INITIAL_SEGMENTS = 10
LEAST_SEGMENTS = 4

INITIAL_BYTES = 256 * 1024
"""A sender of large datagrams begins with fewer segments: a socket's buffer has room for this many bytes by
default."""

LEAST_BYTES = 64 * 1024
"""Losses do not make the window smaller than this: on a path that loses datagrams by chance there are some in
every round trip, and a window of a few small segments carries next to nothing. Silence does."""

MOST_SILENT_RETRIES = 1
"""Times that segments are sent again to a peer that is not heard; then it is asked for a sign of life."""

ASKED_SOON = 3
"""An OPEN that is not answered is repeated this many times, each time after half of `initial_rto`; from then
on each wait is twice the one before. A PING is repeated as often before its wait grows, too. Both are small.
Where every fifth datagram is lost, every third exchange of two datagrams fails, and six failures in a row are
not rare: with waits that grow from the first they would take 5 s."""

LAST_CLOSES = 4
"""A CLOSE that nobody answers is repeated after waits that double, up to `forget_after` divided by this."""


class RoundTrip(Smoothed):
    """The round trip's estimate and the retransmission time-out drawn from it (RFC 6298).

    Karn's rule: samples come only from what was sent once; the back-off doubles at each time-out and ends
    with the acknowledgement of something that was sent once, with the answer to a probe, which leaves at each
    time-out, or with the end of a silence.
    """

    __slots__ = ("_base", "_max", "_min", "backoff")

    def __init__(self, initial: float, least: float, most: float) -> None:
        super().__init__()
        self.backoff = 1
        self._base = initial
        self._min = least
        self._max = most

    def sample(self, seconds: float) -> None:
        super().sample(seconds)
        self._base = max(self.expected(GRANULARITY), self._min)

    @property
    def timeout(self) -> float:
        return min(self._base * self.backoff, self._max)

    def timed_out(self) -> None:
        if self._base * self.backoff < self._max:
            self.backoff *= 2

    def answered(self) -> None:
        self.backoff = 1

    def met(self, seconds: float, was_answered_at_once: bool) -> None:
        """The handshake took this long. The answer to an ACCEPT may have been lost and sent again: then it
        came after the peer's time-out, and the round trip is shorter."""
        if was_answered_at_once or seconds < self._min:
            self.sample(seconds)
        else:
            self._base = max(self._base, seconds)

    @property
    def patience(self) -> float:
        """How long an overtaken segment still counts as on its way: the time-out, but for its floor."""
        return self.expected(GRANULARITY) if self.smoothed else self._base + GRANULARITY


class CongestionWindow:
    """How many bytes may be on their way (NewReno: RFC 5681, RFC 6582, and RFC 9002's bookkeeping).

    Doubles every round trip until the first loss, then adds one segment every round trip.

    Losses of what was sent before the window was last halved say nothing new and change nothing. Losses do
    not make it smaller than `LEAST_BYTES`.
    """

    __slots__ = ("_floor", "_least", "_most", "_recovery", "_segment", "_threshold", "size")

    def __init__(self, segment: int, most_segments: int) -> None:
        """`segment`: bytes of a full one."""
        self._segment = segment
        self._least = LEAST_SEGMENTS * segment
        self._floor = max(self._least, LEAST_BYTES)
        self._most = most_segments * segment
        self._threshold = self._most
        self._recovery = 0
        self.size = max(self._least, min(INITIAL_SEGMENTS * segment, INITIAL_BYTES))

    def acknowledged(self, size: int, number: int, was_full: bool) -> None:
        """`size` bytes arrived, the newest as transmission `number`; `was_full`: the window was in use."""
        if not was_full or (number < self._recovery and self.size >= self._floor):
            return
        if self.size < self._threshold:
            grown = self.size + size
        else:
            grown = self.size + max(1, self._segment * size // self.size)
        self.size = min(grown, self._most)

    def lost(self, number: int, next_number: int) -> None:
        """Transmission `number` was lost, noticed when `next_number` was the next to be sent."""
        if number < self._recovery:
            return
        self._recovery = next_number
        self._threshold = max(self.size // 2, self._floor)
        self.size = min(self.size, self._threshold)

    def timed_out(self, in_flight: int, next_number: int) -> None:
        """Nothing is heard: begin again from the smallest window."""
        self._recovery = next_number
        self._threshold = max(in_flight // 2, self._least)
        self.size = self._least


class ChannelPatience:
    """How long one end of a channel waits: for an answer, for a silent peer, for being used at all.

    The owner decides what follows when one of these times is over.
    """

    __slots__ = (
        "_config",
        "_rtt",
        "_tried_at",
        "active_at",
        "heard_at",
        "idle_at",
        "retry_at",
        "tries",
        "unanswered_since",
    )

    def __init__(self, config: ChannelConfig, rtt: RoundTrip, now: float) -> None:
        self.heard_at: float | None = None
        """When the peer last gave proof of life."""
        self.active_at = now
        """When the channel was last used: messages or pings, either way."""
        self.retry_at: float | None = None
        """When what was sent is to be sent again; None when nothing is to be answered."""
        self.unanswered_since: float | None = None
        """When the peer was first asked something that it has not answered yet."""
        self.tries = 0
        """Times that something was sent again since the peer was last heard."""
        self._tried_at = 0.0
        """When that was last done."""
        self._config = config
        self._rtt = rtt
        self.idle_at = now + config.idle_after
        """When to look whether the channel is unused."""

    def restart(self) -> None:
        """Begin a new session: nothing has been asked."""
        self.retry_at = self.unanswered_since = None
        self.tries = 0

    @property
    def only_asks(self) -> bool:
        """Whether the peer is only asked for a sign of life, until it gives one: it may have crashed, and
        somebody else may be at its address by now, who is not to be sent what is meant for the peer."""
        return self.tries > MOST_SILENT_RETRIES

    def retry_after(self, phase: Phase, has_unsent: bool) -> float:
        """Seconds until what was sent is sent again: the time-out, and ever longer where nobody waits for it.

        A CLOSE that is not answered is in no hurry: a peer that has something to say says so itself.
        """
        config, timeout = self._config, self._rtt.timeout
        if phase is Phase.OPENING:
            doublings = min(max(self.tries - ASKED_SOON + 1, 0), 32)
            wait: float = config.initial_rto / 2 * 2**doublings
            return min(wait, config.max_rto)
        if phase is not Phase.CLOSING or has_unsent:
            return timeout
        doubled: float = config.initial_rto * 2**self.tries
        return max(timeout, min(doubled, config.forget_after / LAST_CLOSES))

    def tried(self, now: float) -> None:
        """What was sent is sent again, or asked about, since nothing was heard."""
        if not MOST_SILENT_RETRIES <= self.tries < MOST_SILENT_RETRIES + ASKED_SOON:
            self._rtt.timed_out()
        self.tries += 1
        self._tried_at = now

    @property
    def _least_wait(self) -> float:
        """Seconds after a try before another one that is not due: a round trip or more."""
        return max(self._config.initial_rto, self._rtt.patience)

    def hurry(self, now: float) -> bool:
        """Whether to try at once, since a message waits and the wait for the next try has grown."""
        wait = self._least_wait
        if self.retry_at is None or now + wait >= self.retry_at or now < self._tried_at + wait:
            return False
        self._tried_at = now
        self.retry_at = None
        return True

    def heard_elsewhere(self, now: float) -> bool:
        """The peer was heard, but not on this channel: whether the next try is earlier therefore.

        What this channel lost was lost by chance then, so the tries begin anew with short waits, as soon as
        `_least_wait` has passed since the last one: a few times a second, however often the peer is heard."""
        if self.retry_at is None or not self.only_asks:
            return False
        soon = max(now, self._tried_at + self._least_wait)
        if self.retry_at <= soon:
            return False
        self.tries = MOST_SILENT_RETRIES + 1
        self._rtt.answered()
        self.retry_at = soon
        return True

    def heard(self, now: float) -> bool:
        """Whether this proof of life ends a silence."""
        before, self.heard_at = self.heard_at, now
        return before is None or now >= before + self._config.initial_rto

    def retry_is_due(self, now: float) -> bool:
        return self.retry_at is not None and now >= self.retry_at

    def is_unanswered_for(self, seconds: float, now: float) -> bool:
        return self.unanswered_since is not None and now >= self.unanswered_since + seconds

    def is_unused_for(self, seconds: float, now: float) -> bool:
        return now >= self.active_at + seconds

    def idle_is_due(self, now: float) -> bool:
        """Whether the channel has been unused for `idle_after`; said once in that time."""
        if now < self.idle_at:
            return False
        quiet_until = self.active_at + self._config.idle_after
        if now < quiet_until:
            self.idle_at = quiet_until
            return False
        self.idle_at = now + self._config.idle_after
        return True
