"""The times and limits of strong collections."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from overlay.errors import UsageError, check_positive
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig


@dataclass(frozen=True)
class OrderConfig:
    """How soon members tell each other their clocks."""

    delay: float = 0.01
    """Seconds from an addition to the announcement that it causes; additions in between share it."""

    repeat: float = 1.0
    """Seconds after which announcements are made again while something waits for the others."""

    patience: float = 30.0
    """Seconds that what another member has may take to come; then, or after twice that at the latest, the
    order goes on without it."""

    def __post_init__(self) -> None:
        check_positive(self)


@dataclass(frozen=True)
class OneOfNConfig:
    in_hand: int = 8
    """Elements of one assigner that a taker may have in hand."""

    most_waiting: int = 10_000
    """Elements at an assigner that are not taken yet; its publisher waits before it adds more."""

    most_attempts: int = 8
    """How often an element may be given back."""

    gone_after: float = 5.0
    """Seconds out of the view after which a participant that has not left counts as gone: what it had in
    hand goes to others, and what it had to give is given by others. When participants enter, those who are
    there may be out of a view for a moment."""

    spares: int = 3
    """Takers that get a spare copy of each element, if there are as many."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("spares",))
        if self.spares < 0:
            raise UsageError(f"spares={self.spares} must be 0 or more")


@dataclass(frozen=True)
class CollectionConfig:
    """Of one node's part in one topic, which all its strong collections of the topic share. Other nodes may
    have others."""

    broadcast: BroadcastConfig = field(default_factory=BroadcastConfig)
    """How long messages are held for whom, and how many."""

    membership: TopicMembershipConfig = field(default_factory=TopicMembershipConfig)
    """How views are agreed upon."""

    order: OrderConfig = field(default_factory=OrderConfig)
    """Settings of the total order."""

    one_of_n: OneOfNConfig = field(default_factory=OneOfNConfig)
    """Settings of `remove`."""

    def __post_init__(self) -> None:
        for part in fields(self):
            value, kind = getattr(self, part.name), part.default_factory
            if not (isinstance(kind, type) and isinstance(value, kind)):
                raise UsageError(f"{part.name} is of class {part.type}, not {value!r}")
