"""The times and bounds of distributors, and of the publishers and subscribers that use them."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError, check_positive


@dataclass(frozen=True)
class DistributorConfig:
    """Times are seconds, sizes are bytes."""

    tick: float = 0.5
    """How often distributors tell each other what they have; a view's agreement is retried as often."""

    found_after: float | None = 2.0
    """A distributor that finds no group founds one after this many seconds, the one with the smallest id
    first. None: it waits until it finds one."""

    reform_after: float | None = 30.0
    """Distributors that are cut off from the majority of their view for this many seconds form a group of a
    later generation, whose members join the others again when they meet. None: they wait for the majority."""

    recent_bytes: int = 1024 * 1024
    """Per service, messages that are kept though everybody has them, for subscribers that change over."""

    buffer_bytes: int = 64 * 1024 * 1024
    """Per service, all messages that are kept; each other distributor may bring as much again. Above it,
    first the subscribers with gaps that are behind lose what they have not acknowledged, then those without
    gaps that are out of touch. If that is not enough, publications are not taken until it is, and a
    subscriber without gaps that holds the oldest message for `no_gap_patience` is ended."""

    no_gap_patience: float = 30.0
    """How long a subscriber without gaps may be out of touch, because its distributor crashed or itself was
    cut off, and still find all that it missed."""

    subscriber_patience: float = 10.0
    """A subscriber that was silent for this many seconds is no longer a subscriber."""

    window: int = 4096
    """Messages, or pieces of large ones, that may be on their way to one subscriber."""

    most_sources: int = 1024
    """Publishers of one service that are remembered; those that were silent longest make way. Of the
    latest 16 x most_sources that made way, the number of the last message is remembered."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("window", "recent_bytes", "buffer_bytes"))
        for name in ("found_after", "reform_after"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise UsageError(f"{name}={seconds} must be more than 0, or None")
        if self.window < 16:
            raise UsageError(f"window={self.window} must be 16 messages or more")
        if not 0 <= self.recent_bytes <= self.buffer_bytes:
            raise UsageError(
                f"recent_bytes={self.recent_bytes} must be within 0 and buffer_bytes={self.buffer_bytes}"
            )


@dataclass(frozen=True)
class ClientConfig:
    """How a publisher or subscriber keeps to its distributor; times are seconds."""

    sign_of_life: float = 1.5
    """A distributor that was silent for max(sign_of_life, 2 x its pace) is asked for a sign of life."""

    suspect_after: float = 2.5
    """It is suspected when it leaves that unanswered for max(suspect_after, 3 x the slowest answer lately),
    and another one is tried."""

    retry: float = 0.3
    """A request or question that is not answered is sent again after this many seconds, then twice as long,
    up to 8 times."""

    connect_within: float = 1.5
    """A distributor that has not answered a first request for this many seconds is passed over."""

    room: int = 4096
    """Messages, or pieces of large ones, that a subscriber takes ahead of its application."""

    in_flight: int = 256
    """Messages of a publisher that its distributor has not acknowledged."""

    in_flight_bytes: int = 4 * 1024 * 1024
    """Bytes of them; one message may be larger."""

    retained: int = 4096
    """Messages that a publisher keeps until all distributors have them; more wait."""

    def __post_init__(self) -> None:
        check_positive(self)
        if self.in_flight > self.retained:
            raise UsageError(f"in_flight={self.in_flight} must not exceed retained={self.retained}")
