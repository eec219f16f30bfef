"""The times and limits of strong topics."""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.errors import UsageError, check_positive


@dataclass(frozen=True)
class TopicMembershipConfig:
    """Times are seconds. In a calm topic a change is known to all, and the view stable again, within about
    settle + 2 x log4(n) x rumour_interval."""

    settle: float = 0.3
    """After a change of its knowledge a participant waits this many seconds for the next one before it says
    which view it sees."""

    rumour_interval: float = 0.2
    """A participant with news passes it on every `rumour_interval` seconds..."""

    rumour_fanout: int = 2
    """...to this many reachable participants, drawn at random..."""

    rumour_rounds: int = 3
    """...this many times after it learned it. A participant that is missed, with probability e^-(fanout x
    rounds), is told by gossip."""

    gossip_interval: float = 1.0
    """Every `gossip_interval` seconds each participant compares its knowledge with that of one other, drawn
    at random."""

    most_participants: int = 1024
    """Participants of one topic. For one more, the one that cannot be reached for longest counts as having
    left; where all can be reached, it is refused. As many of those who left are remembered."""

    def __post_init__(self) -> None:
        check_positive(self)


@dataclass(frozen=True)
class BroadcastConfig:
    """Times are seconds, sizes are bytes."""

    ack_delay: float = 0.1
    """How long a participant collects acknowledgements before it sends them."""

    patience: float = 2.0
    """A message that is not acknowledged by all after this many seconds is looked after by everybody who
    holds it. Who can send to whom is taken for settled after twice that, even if no stable view is
    reached."""

    check_interval: float = 1.0
    """While messages are held, they are looked after every `check_interval` seconds."""

    window_messages: int = 10_000
    """A publisher waits while this many of its messages are not acknowledged by all..."""

    window_bytes: int = 16 * 1024 * 1024
    """...or this many bytes of them."""

    unfinished_messages: int = 10_000
    """While the application has this many messages before it, one is acknowledged when the application is
    done with it, log or not, and messages outside reliable broadcast are not taken..."""

    unfinished_bytes: int = 16 * 1024 * 1024
    """...or this many bytes of them."""

    most_held_bytes: int = 128 * 1024 * 1024
    """A participant that holds this many bytes for others takes no further message until there is room, and
    publishes none itself from half of that on. It should be more than the windows of all who publish at one
    time."""

    stay_away: float = 3600.0
    """A participant that acknowledges nothing for this many seconds, while messages wait for it, counts as
    having left. When it comes back it takes part again, and is told its gap."""

    stay_away_when_full: float = 30.0
    """The same while a window or buffer is full: nobody waits longer for one that does not answer."""

    hole_patience: float = 60.0
    """With FIFO order, what came waits this long for a message before it that nobody within reach has, and
    whose publisher is out of reach. Then that message is told as a gap, and never delivered, even if its
    publisher comes back. Without an order nothing waits, and it is told when its publisher has left or runs
    again without it, else after `stay_away`."""

    kept_seconds: float = 60.0
    """A message that everybody has is kept this long for participants that nobody here knew, because they
    began the topic apart from those here..."""

    kept_bytes: int = 4 * 1024 * 1024
    """...and at most this many bytes of such messages, the latest."""

    most_sources: int = 4096
    """Publishers, each run of theirs counted, whose numbers are remembered. With more, those who publish no
    more are forgotten, the oldest first, but for the highest number of the latest 16 x `most_sources` of
    them: so nothing of theirs is delivered again, or told as a gap."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("most_held_bytes",))
        if self.most_held_bytes < 2 * self.window_bytes:
            raise UsageError(
                f"most_held_bytes={self.most_held_bytes} must hold two windows, {2 * self.window_bytes}"
            )


@dataclass(frozen=True)
class TopicConfig:
    """The times and limits of one participant in one topic."""

    broadcast: BroadcastConfig = field(default_factory=BroadcastConfig)
    membership: TopicMembershipConfig = field(default_factory=TopicMembershipConfig)
