"""What the members of one network must agree on, and what one node spends on the directory."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True, slots=True)
class DirectoryConfig:
    """The first five fields have to be the same on every node of a network; the others are a node's own."""

    ttl: float = 120.0
    """Seconds after which a crashed member is in no sample any more, caches included. One that somebody
    reports as silent is gone as soon as those who hold it have asked it themselves."""

    replicas: int = 5
    """How many nodes hold a shard: the ones whose ids are closest to its key."""

    root_replicas: int = 20
    """How many nodes hold the traces at the root of a large topic, where newcomers learn its depth."""

    split: int = 128
    """A shard with more members than this splits in two."""

    merge: int = 40
    """Two sibling shards that together have fewer members than this merge."""

    capacity: int = 224
    """The most members, and apart from them the most traces, that a node holds for one shard."""

    max_records: int = 65_536
    """The most members and traces that a node holds in all."""

    max_records_per_address: int = 1_024
    """The most members and traces that a node holds for one address."""

    announcements_per_second: float = 64.0
    """The rate of announcements and withdrawals taken from one address, averaged over a burst."""

    announcement_burst: int = 512
    """How many of them may come at once."""

    def __post_init__(self) -> None:
        if not self.ttl > 0:
            raise UsageError(f"ttl is {self.ttl}: it must be a positive number of seconds")
        if not 1 <= self.replicas <= self.root_replicas <= 20:
            raise UsageError("replicas and root_replicas: 1 <= replicas <= root_replicas <= 20")
        if not 0 < 2 * self.merge <= self.split < self.capacity <= 256:
            raise UsageError("merge, split and capacity: 2 * merge <= split < capacity <= 256")
        for name in (
            "max_records",
            "max_records_per_address",
            "announcements_per_second",
            "announcement_burst",
        ):
            if not getattr(self, name) >= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: it must be at least 1")

    @property
    def period(self) -> float:
        """Seconds between two announcements of a member: half of the ttl."""
        return self.ttl / 2

    @property
    def record_life(self) -> float:
        """Seconds that a record outlives its announcement: one and a half periods.

        An announcement is repeated until it is answered, so it is lost only with a replica that is."""
        return 1.5 * self.period

    @property
    def pause(self) -> tuple[float, float]:
        """Least and most seconds from one announcement of a member to its next; chosen by chance."""
        return 0.8 * self.period, self.period

    @property
    def announcements_a_life(self) -> float:
        """How often a member announces itself, on average, in the life of one of its records."""
        return self.record_life / (sum(self.pause) / 2)

    @property
    def size_life(self) -> float:
        """Seconds that a count may be reused for a size; `record_life` and this stay below the ttl."""
        return self.ttl / 5

    @property
    def silence(self) -> float:
        """Seconds without any announcement after which a replica no longer trusts its shard."""
        return 1.3 * self.period

    @property
    def round_time(self) -> float:
        """Seconds in which every member announces itself to a new replica, of which the others tell it."""
        return 1.5 * self.period

    @property
    def location_life(self) -> float:
        """Seconds after which an announcer looks again for the nodes that hold its shard, although these
        tell it of nearer ones with every reply."""
        return 4 * self.ttl
