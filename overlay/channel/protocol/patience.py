"""How long one end of a channel waits: for an answer, for a silent peer, for being used at all."""

from __future__ import annotations

from overlay.channel.protocol.config import ChannelConfig


class Patience:
    """The times of one channel; the owner decides what follows when one of them is over."""

    __slots__ = ("_config", "_idle_at", "active_at", "heard_at", "retry_at", "unanswered_since")

    def __init__(self, config: ChannelConfig, now: float) -> None:
        self.heard_at: float | None = None
        """When the peer last gave proof of life."""
        self.active_at = now
        """When the channel was last used: messages or pings, either way."""
        self.retry_at: float | None = None
        """When what was sent is to be sent again; None when nothing is to be answered."""
        self.unanswered_since: float | None = None
        """When the peer was first asked something that it has not answered yet."""
        self._config = config
        self._idle_at = now + config.idle_after

    def restart(self) -> None:
        """Begin a new session: nothing has been asked."""
        self.retry_at = self.unanswered_since = None

    def asked(self, now: float) -> None:
        if self.unanswered_since is None:
            self.unanswered_since = now

    def heard(self, now: float) -> bool:
        """Whether this proof of life ends a silence."""
        before, self.heard_at = self.heard_at, now
        return before is None or now >= before + self._config.initial_rto

    def next_timer(self, is_closed: bool) -> float:
        """The first of these times to come."""
        due = self._idle_at
        if self.retry_at is not None and self.retry_at < due:
            due = self.retry_at
        since = self.unanswered_since
        if since is not None:
            config = self._config
            due = min(due, since + (config.forget_after if is_closed else config.close_after))
        return due

    def retry_is_due(self, now: float) -> bool:
        return self.retry_at is not None and now >= self.retry_at

    def is_unanswered_for(self, seconds: float, now: float) -> bool:
        return self.unanswered_since is not None and now >= self.unanswered_since + seconds

    def is_unused_for(self, seconds: float, now: float) -> bool:
        return now >= self.active_at + seconds

    def idle_is_due(self, now: float) -> bool:
        """Whether the channel has been unused for `idle_after`; said once in that time."""
        if now < self._idle_at:
            return False
        quiet_until = self.active_at + self._config.idle_after
        if now < quiet_until:
            self._idle_at = quiet_until
            return False
        self._idle_at = now + self._config.idle_after
        return True
