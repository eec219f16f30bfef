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
    from pubsub.requests import NoReply, Reply, RequestFailed
    from pubsub.subscription import Subscription
    from pubsub.threads import connect
    from pubsub.topic import Pattern, Topic

_NAMES = {
    "pubsub.archive.archive": "Archive",
    "pubsub.archive.durable_event": "DurableEvent",
    "pubsub.archive.durable_subscription": "DurableSubscription",
    "pubsub.archive.errors": "ArchiveError Displaced NoArchiveFound NoRoom NotSafe",
    "pubsub.archive.protocol.config": "DurableConfig",
    "pubsub.archive.replay_policy": "ReplayPolicy",
    "pubsub.archive.store.retention": "Retention",
    "pubsub.broadcast.group": "Group GroupError GroupMessage",
    "pubsub.camcast.parameters": "Parameters",
    "pubsub.collections.classes": "DASortedBag DASortedSet DAStrongBag DAStrongSequence DAStrongSet "
    "DAWeakBag DAWeakSequence DAWeakSet",
    "pubsub.communities": "CommunityManager",
    "pubsub.config": "NodeConfig",
    "pubsub.distributors.clients": "Publisher Subscriber",
    "pubsub.distributors.distributor": "Distributor",
    "pubsub.event": "Event",
    "pubsub.node": "Node",
    "pubsub.publishing": "Receipt",
    "pubsub.reliable.receipts": "MessageReceipt NotInTime",
    "pubsub.reliable.runs": "Gap GapError",
    "pubsub.requests": "NoReply Reply RequestFailed",
    "pubsub.subscription": "Subscription",
    "pubsub.threads": "connect",
    "pubsub.topic": "Pattern Topic",
}
"""The public names of each module; a test compares them with the imports above."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

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
    "Reply",
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
