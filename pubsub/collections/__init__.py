"""Distributed Asynchronous Collections: publish/subscribe as sets, bags and sequences.

async with node.collection(DAStrongSet, "/EPFL/DSC") as collection:
    await collection.add({"room": "INM 202"})
    async with collection.contains(filter="room LIKE 'INM%'") as elements:
        async for element in elements:
            print(element.topic, element.data)
"""

from pubsub.collections.classes import (
    DABag,
    DASequence,
    DASet,
    DASortedBag,
    DASortedSet,
    DAStrongBag,
    DAStrongSequence,
    DAStrongSet,
    DAWeakBag,
    DAWeakSequence,
    DAWeakSet,
)
from pubsub.collections.config import CollectionConfig, OneOfNConfig, OrderConfig
from pubsub.collections.content import Element
from pubsub.collections.dac import DAC, CollectionError
from pubsub.collections.interest import Interest
from pubsub.reliable.receipts import MessageReceipt, NotInTime
from pubsub.reliable.runs import Gap, GapError
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig

__all__ = [
    "DAC",
    "BroadcastConfig",
    "CollectionConfig",
    "CollectionError",
    "DABag",
    "DASequence",
    "DASet",
    "DASortedBag",
    "DASortedSet",
    "DAStrongBag",
    "DAStrongSequence",
    "DAStrongSet",
    "DAWeakBag",
    "DAWeakSequence",
    "DAWeakSet",
    "Element",
    "Gap",
    "GapError",
    "Interest",
    "MessageReceipt",
    "NotInTime",
    "OneOfNConfig",
    "OrderConfig",
    "TopicMembershipConfig",
]
