"""A node's durable side, made when it is first used: its streams to archives and its durable
subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubsub.archive.client import DurableClient
from pubsub.archive.durable_subscription import DurableSubscription
from pubsub.archive.publishing import DurablePublishers
from pubsub.rights import Action
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node


class Durability:
    """A node's durable side. Each node has one, which is closed before the node."""

    def __init__(self, node: Node) -> None:
        attachment = node.attachment
        self.client = DurableClient(
            attachment.runtime,
            attachment.directory,
            lambda topic: node.archive is not None and topic in node.archive.topics,
            node.config.durability,
            attachment.gate,
        )
        self.publishers = DurablePublishers(self.client)
        self._node = node
        self._subscriptions: list[DurableSubscription] = []

    def subscribe(
        self, pattern: Pattern, name: str, options: dict[str, Any]
    ) -> DurableSubscription:
        """See `pubsub.archive.durable_subscription`."""
        self._node.check_right(Action.SUBSCRIBE, pattern.text)
        subscription = DurableSubscription(self._node, self.client, pattern, name, **options)
        self._subscriptions = [one for one in self._subscriptions if not one.is_ended]
        self._subscriptions.append(subscription)
        return subscription

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.end()
        self.publishers.close()
        self.client.close()
