"""A topic that a node is in: for its subscriptions, for publishing, or both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.camcast.community import Community
from pubsub.camcast.event_drops import EventDrops
from pubsub.event import Event, NewEvent, unpack_data
from pubsub.subscription import Subscription
from pubsub.topic import Topic

_log = logging.getLogger(__name__)


class JoinedTopic:
    """Gives the events of one community to the subscriptions on this node."""

    def __init__(self, topic: Topic, drops: EventDrops, signed: bool) -> None:
        self.topic = topic
        self.community: Community
        self.subscriptions: list[Subscription] = []
        self.publishing = False
        """An event was published, and publishing was not stopped since."""
        self.waiting_publishers = 0
        """Events that wait to be published: until it is joined, or there is room."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drops = drops
        self._signed = signed

    @property
    def is_needed(self) -> bool:
        return self.publishing or self.waiting_publishers > 0 or bool(self.subscriptions)

    def become_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)
            if not self.community.table:
                _log.info("nobody else was found in %s", self.topic)

    def learn(self, topic: Topic) -> None:
        """Take over what else `topic`, of the same name, says: super-topics that the name does not tell.

        `UsageError` when others are known already. It has to become ready again, with links to them."""
        known = self.topic
        if topic.by_path or topic.lineage == known.lineage:
            return
        if not known.by_path:
            raise UsageError(
                f"this node is in {topic} with the super-topics {_names(known)}, and cannot be in it "
                f"with {_names(topic)} at the same time"
            )
        self.topic = topic
        self.community.learn(topic)
        if self.ready.done():
            self.ready = asyncio.get_running_loop().create_future()
            self.community.when_ready(self.become_ready)

    def deliver(self, new: Sequence[NewEvent]) -> None:
        """Offer new events of the community to every subscription; none of them can hold them up."""
        if not self.subscriptions:
            return
        events: list[Event] = []
        for gossip, body in new:
            try:
                data = unpack_data(body.data)
            except WireError as error:
                self._drops.add(error.reason, self.topic.name, (gossip.id,))
                continue
            _, topic, _, publisher, sequence, _, _, _ = body
            events.append(
                Event(topic, data, publisher, sequence, gossip.hops, gossip.id, self._signed)
            )
        for subscription in self.subscriptions:
            subscription.offer(events)

    def describe(self) -> dict[str, Any]:
        """The community and its tables, for people to look at."""
        community = self.community
        return {
            "size": community.size,
            "table": [str(contact) for contact in community.table],
            "super_tables": {
                table.topic.name: [str(contact) for contact in table.contacts]
                for table in community.super_tables.linked()
            },
            "subscriptions": len(self.subscriptions),
            "publishing": self.publishing,
            "ready": community.is_ready,
            "alone": not community.table,
        }


def _names(topic: Topic) -> str:
    return ", ".join(parent.name for parent in topic.parents)
