"""All times and limits of strong collections together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from overlay.errors import UsageError
from pubsub.collections.one_of_n.config import OneOfNConfig
from pubsub.collections.order_config import OrderConfig
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_membership.config import MembershipConfig


@dataclass(frozen=True)
class CollectionConfig:
    """Of one node's part in one topic, which all its strong collections of the topic share. Other nodes may
    have others."""

    broadcast: BroadcastConfig = field(default_factory=BroadcastConfig)
    """How long messages are held for whom, and how many."""

    membership: MembershipConfig = field(default_factory=MembershipConfig)
    """How views are agreed upon."""

    order: OrderConfig = field(default_factory=OrderConfig)
    """Of the total order."""

    one_of_n: OneOfNConfig = field(default_factory=OneOfNConfig)
    """Of `remove`."""

    def __post_init__(self) -> None:
        for part in fields(self):
            value, kind = getattr(self, part.name), part.default_factory
            if not (isinstance(kind, type) and isinstance(value, kind)):
                raise UsageError(f"{part.name} is of class {part.type}, not {value!r}")
