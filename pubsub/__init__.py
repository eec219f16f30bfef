"""Publish/subscribe: topics, events, CAMCAST, and the node that applications use.

The names below are imported when they are first used: a program that only publishes does not load archives.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pubsub.archive.archive import Archive
    from pubsub.archive.durable_event import DurableEvent
    from pubsub.archive.durable_subscription import DurableSubscription
    from pubsub.archive.errors import ArchiveError, Displaced, NoArchiveFound, NoRoom, NotSafe
    from pubsub.archive.protocol.config import DurableConfig
    from pubsub.archive.replay_policy import ReplayPolicy
    from pubsub.archive.store.retention import Retention
    from pubsub.broadcast.group import Group, GroupError, GroupMessage
    from pubsub.camcast.parameters import Parameters
    from pubsub.communities import CommunityManager
    from pubsub.config import NodeConfig
    from pubsub.event import Event
    from pubsub.node import Node
    from pubsub.publishing import Receipt
    from pubsub.requests import NoReply, RequestFailed
    from pubsub.subscription import Subscription
    from pubsub.threads import connect
    from pubsub.topic import Pattern, Topic

_HOMES = {
    "Archive": "pubsub.archive.archive",
    "ArchiveError": "pubsub.archive.errors",
    "CommunityManager": "pubsub.communities",
    "DurableConfig": "pubsub.archive.protocol.config",
    "DurableEvent": "pubsub.archive.durable_event",
    "DurableSubscription": "pubsub.archive.durable_subscription",
    "Event": "pubsub.event",
    "Group": "pubsub.broadcast.group",
    "GroupError": "pubsub.broadcast.group",
    "GroupMessage": "pubsub.broadcast.group",
    "NoArchiveFound": "pubsub.archive.errors",
    "Displaced": "pubsub.archive.errors",
    "NoReply": "pubsub.requests",
    "NoRoom": "pubsub.archive.errors",
    "Node": "pubsub.node",
    "NodeConfig": "pubsub.config",
    "NotSafe": "pubsub.archive.errors",
    "Parameters": "pubsub.camcast.parameters",
    "Pattern": "pubsub.topic",
    "Receipt": "pubsub.publishing",
    "ReplayPolicy": "pubsub.archive.replay_policy",
    "RequestFailed": "pubsub.requests",
    "Retention": "pubsub.archive.store.retention",
    "Subscription": "pubsub.subscription",
    "Topic": "pubsub.topic",
    "connect": "pubsub.threads",
}
"""The module of each public name; a test compares it with the imports above."""

__all__ = [
    "Archive",
    "ArchiveError",
    "CommunityManager",
    "Displaced",
    "DurableConfig",
    "DurableEvent",
    "DurableSubscription",
    "Event",
    "Group",
    "GroupError",
    "GroupMessage",
    "NoArchiveFound",
    "NoReply",
    "NoRoom",
    "Node",
    "NodeConfig",
    "NotSafe",
    "Parameters",
    "Pattern",
    "Receipt",
    "ReplayPolicy",
    "RequestFailed",
    "Retention",
    "Subscription",
    "Topic",
    "connect",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pubsub' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
