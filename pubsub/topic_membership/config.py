"""The times of Topic Membership."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True)
class MembershipConfig:
    """Times are seconds. In a calm topic a change is known to all, and the view stable again, within about
    settle + 2 x log4(n) x rumour_interval."""

    settle: float = 0.3
    """After a change of its knowledge a participant waits so long for the next one before it says which view
    it sees."""

    rumour_interval: float = 0.2
    """A participant with news passes it on so often..."""

    rumour_fanout: int = 2
    """...to so many reachable participants, drawn at random..."""

    rumour_rounds: int = 3
    """...so many times after it learned it. Whoever is missed, with probability e^-(fanout x rounds), is told
    by gossip."""

    gossip_interval: float = 1.0
    """Each participant compares its knowledge with that of one other, drawn at random, so often."""

    most_participants: int = 1024
    """Participants of one topic. For one more, the one that cannot be reached for longest counts as having
    left; where all can be reached, it is refused. As many of those who left are remembered."""

    remember_left: float = 3600.0
    """How long one that left is remembered at most, so that old gossip does not bring it back."""

    def __post_init__(self) -> None:
        for name in ("settle", "rumour_interval", "gossip_interval", "remember_left"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be more than 0 seconds")
        for name in ("rumour_fanout", "rumour_rounds", "most_participants"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
