"""Publish/subscribe: topics, events, CAMCAST, and the node that applications use."""

from pubsub.archive.archive import Archive
from pubsub.archive.durable_event import DurableEvent
from pubsub.archive.durable_subscription import DurableSubscription
from pubsub.archive.protocol.config import DurableConfig
from pubsub.camcast.parameters import Parameters
from pubsub.communities import CommunityManager
from pubsub.config import NodeConfig
from pubsub.event import Event
from pubsub.group import Group, GroupError, GroupMessage
from pubsub.node import Node
from pubsub.receipt import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Pattern, Topic

__all__ = [
    "Archive",
    "CommunityManager",
    "DurableConfig",
    "DurableEvent",
    "DurableSubscription",
    "Event",
    "Group",
    "GroupError",
    "GroupMessage",
    "Node",
    "NodeConfig",
    "Parameters",
    "Pattern",
    "Receipt",
    "Subscription",
    "Topic",
]
