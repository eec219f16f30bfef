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
    from pubsub.collections.classes import (
        DASortedBag,
        DASortedSet,
        DAStrongBag,
        DAStrongSequence,
        DAStrongSet,
        DAWeakBag,
        DAWeakSequence,
        DAWeakSet,
    )
    from pubsub.communities import CommunityManager
    from pubsub.config import NodeConfig
    from pubsub.distributors.clients import Publisher, Subscriber
    from pubsub.distributors.distributor import Distributor
    from pubsub.event import Event
    from pubsub.node import Node
    from pubsub.publishing import Receipt
    from pubsub.reliable.receipts import MessageReceipt, NotInTime
    from pubsub.reliable.runs import Gap, GapError
    from pubsub.requests import NoReply, RequestFailed
    from pubsub.subscription import Subscription
    from pubsub.threads import connect
    from pubsub.topic import Pattern, Topic

_HOMES = {
    "Archive": "pubsub.archive.archive",
    "ArchiveError": "pubsub.archive.errors",
    "CommunityManager": "pubsub.communities",
    "DASortedBag": "pubsub.collections.classes",
    "DASortedSet": "pubsub.collections.classes",
    "DAStrongBag": "pubsub.collections.classes",
    "DAStrongSequence": "pubsub.collections.classes",
    "DAStrongSet": "pubsub.collections.classes",
    "DAWeakBag": "pubsub.collections.classes",
    "DAWeakSequence": "pubsub.collections.classes",
    "DAWeakSet": "pubsub.collections.classes",
    "Displaced": "pubsub.archive.errors",
    "Distributor": "pubsub.distributors.distributor",
    "DurableConfig": "pubsub.archive.protocol.config",
    "DurableEvent": "pubsub.archive.durable_event",
    "DurableSubscription": "pubsub.archive.durable_subscription",
    "Event": "pubsub.event",
    "Gap": "pubsub.reliable.runs",
    "GapError": "pubsub.reliable.runs",
    "Group": "pubsub.broadcast.group",
    "GroupError": "pubsub.broadcast.group",
    "GroupMessage": "pubsub.broadcast.group",
    "MessageReceipt": "pubsub.reliable.receipts",
    "NoArchiveFound": "pubsub.archive.errors",
    "NoReply": "pubsub.requests",
    "NoRoom": "pubsub.archive.errors",
    "Node": "pubsub.node",
    "NodeConfig": "pubsub.config",
    "NotInTime": "pubsub.reliable.receipts",
    "NotSafe": "pubsub.archive.errors",
    "Parameters": "pubsub.camcast.parameters",
    "Pattern": "pubsub.topic",
    "Publisher": "pubsub.distributors.clients",
    "Receipt": "pubsub.publishing",
    "ReplayPolicy": "pubsub.archive.replay_policy",
    "RequestFailed": "pubsub.requests",
    "Retention": "pubsub.archive.store.retention",
    "Subscriber": "pubsub.distributors.clients",
    "Subscription": "pubsub.subscription",
    "Topic": "pubsub.topic",
    "connect": "pubsub.threads",
}
"""The module of each public name; a test compares it with the imports above."""

__all__ = [
    "Archive",
    "ArchiveError",
    "CommunityManager",
    "DASortedBag",
    "DASortedSet",
    "DAStrongBag",
    "DAStrongSequence",
    "DAStrongSet",
    "DAWeakBag",
    "DAWeakSequence",
    "DAWeakSet",
    "Displaced",
    "Distributor",
    "DurableConfig",
    "DurableEvent",
    "DurableSubscription",
    "Event",
    "Gap",
    "GapError",
    "Group",
    "GroupError",
    "GroupMessage",
    "MessageReceipt",
    "NoArchiveFound",
    "NoReply",
    "NoRoom",
    "Node",
    "NodeConfig",
    "NotInTime",
    "NotSafe",
    "Parameters",
    "Pattern",
    "Publisher",
    "Receipt",
    "ReplayPolicy",
    "RequestFailed",
    "Retention",
    "Subscriber",
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
