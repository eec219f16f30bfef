"""Strong topics: every participant gets every message once, across crashes and partitions (DACE).

    topics = StrongTopics(runtime, directory)
    strong = await topics.join("/EPFL/DSC", lambda delivery: print(delivery.payload))
    await strong.broadcast(b"hello")

`strong_topics` and `strong_topic` run the protocol on a node. The protocol is two pure objects, one on the
other: `membership` (Topic Membership: who takes part and can be reached, without any agreement protocol),
made of `knowledge`, `spreading` and `views`; and `broadcast` (Topic Reliable Broadcast), made of `state`,
`forwarding`, `acknowledging`, `upkeep` and `delivering`. `aside` has messages outside reliable broadcast,
`log` what must survive a crash, `messages` what travels.
"""

from pubsub.reliable.runs import Gap
from pubsub.topics.config import BroadcastConfig, TopicConfig, TopicMembershipConfig
from pubsub.topics.delivering import Delivery, Order, Participant, Semantics
from pubsub.topics.strong_topic import StrongTopic, Unfinished
from pubsub.topics.strong_topics import StrongTopics
from pubsub.topics.views import StableView, TopicView

__all__ = [
    "BroadcastConfig",
    "Delivery",
    "Gap",
    "Order",
    "Participant",
    "Semantics",
    "StableView",
    "StrongTopic",
    "StrongTopics",
    "TopicConfig",
    "TopicMembershipConfig",
    "TopicView",
    "Unfinished",
]
