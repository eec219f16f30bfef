"""What an archive says of a topic that it manages."""

from __future__ import annotations

from typing import Any

from pubsub.archive.protocol.managed_topic import ManagedTopic
from pubsub.archive.store import Store


def describe(store: Store, topic: ManagedTopic) -> dict[str, Any]:
    """Events, bytes, load, the other replicas, and how far durable subscribers are."""
    name, table = topic.topic, topic.replication.table
    live = {peer.id for peer in table.live()}
    return {
        "failure": "",
        "events": store.count(name),
        "bytes": store.size(name),
        "first": store.first_sequence(name),
        "last": store.last_sequence(name),
        "load": topic.load,
        "ready": topic.replication.is_ready,
        "replicas": {
            peer.id.hex(): {"address": str(peer.contact), "here": peer.id in live}
            for peer in table.peers.values()
        },
        "subscribers": {
            entity.name: {
                "sync": entity.sync,
                "done": entity.done,
                "here": entity.session is not None,
            }
            for entity in topic.entities.all.values()
        },
    }
