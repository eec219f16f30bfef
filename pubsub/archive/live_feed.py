"""The live events of a topic, for a subscription that the archive fills up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pubsub.archive.profiles import Profile
from pubsub.event import Batch, Event
from pubsub.subscription import Subscription
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node


class LiveFeed(Subscription):
    """Hands on at once each event that the archive would select too, and keeps none."""

    def __init__(
        self, node: Node, pattern: Pattern, profile: Profile, heard: Callable[[Event], None]
    ) -> None:
        super().__init__(node, pattern, node._deliveries, "none", "drop_oldest", 1)
        self._profile = profile
        self._heard = heard

    def offer(self, batch: Batch) -> None:
        if not self.pattern.matches(batch.topic):
            return
        for place, event in enumerate(batch.events()):
            if self._profile.matches(event.data):
                self._deliveries.delivered(self.pattern, batch.part(place, place + 1))
                self._heard(event)
