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
from pubsub.collections.config import CollectionConfig
from pubsub.collections.dac import DAC, CollectionError
from pubsub.collections.element import Element
from pubsub.collections.interest import Interest
from pubsub.collections.one_of_n.config import OneOfNConfig
from pubsub.collections.order_config import OrderConfig
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_membership.config import MembershipConfig

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
    "Interest",
    "MembershipConfig",
    "OneOfNConfig",
    "OrderConfig",
]
