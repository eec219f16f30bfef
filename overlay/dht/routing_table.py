"""All the contacts that a node knows, in buckets that are finer the nearer they are to its own id."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Protocol

from kademlia.routing import RoutingTable

from overlay.contact import ID_BITS
from overlay.dht.bucket import Bucket, Clock
from overlay.dht.peer import Peer, Target

SPARES = 4
"""Spare contacts of a full bucket that are looked for; more may be there from earlier."""


class Owner(Protocol):
    """What a routing table asks of the protocol that keeps it."""

    def sound(self, peers: list[Peer]) -> list[Peer]:
        """Those of `peers` that did not lately fail to answer, or answer nonsense."""
        ...

    def check(self, peer: Peer) -> None:
        """Find out whether `peer` still answers, if it has been silent for long."""
        ...


class ExactRoutingTable(RoutingTable):  # type: ignore[misc]
    """Upstream's table with exact neighbours.

    What stays upstream's: when a bucket splits and when it does not, and removal.
    """

    buckets: list[Bucket]
    node: Peer
    protocol: Owner
    ksize: int

    def __init__(self, owner: Owner, ksize: int, node: Peer, clock: Clock) -> None:
        self._clock = clock
        super().__init__(owner, ksize, node)

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self.buckets)

    def __iter__(self) -> Iterator[Peer]:
        for bucket in self.buckets:
            yield from bucket.nodes.values()

    def flush(self) -> None:
        """Replaces routing.py:135-136, whose ranges end one id too far, so that halves share no prefix."""
        self.buckets = [Bucket(0, 2**ID_BITS - 1, self.ksize, self._clock)]

    def get_bucket_for(self, node: Peer | Target) -> int:
        """Replaces routing.py:175-183, which looks for the last id of a bucket in the next bucket."""
        return bisect_right(self.buckets, node.long_id, key=_lower) - 1

    def bucket_of(self, node: Peer | Target) -> Bucket:
        return self.buckets[self.get_bucket_for(node)]

    def lonely_buckets(self, age: float = 3600.0) -> list[Bucket]:
        """Replaces routing.py:143-149, which reads the machine's clock whatever the event loop's is."""
        oldest = self._clock() - age
        return [bucket for bucket in self.buckets if bucket.last_updated < oldest]

    def add_contact(self, peer: Peer) -> None:
        """Replaces routing.py:159-173, which starts a ping, in a task nobody holds, for each contact
        too many.

        Whether the contact seen longest ago is asked, and how many are at a time, is the owner's to say.
        """
        bucket = self.bucket_of(peer)
        if not bucket.is_new_node(peer):
            bucket.refresh(peer)
            return
        bucket.add_node(peer)
        while peer.id not in bucket.nodes:
            if not bucket.has_in_range(self.node) and bucket.depth() % 5 == 0:
                self.protocol.check(bucket.head())
                return
            self.split_bucket(self.get_bucket_for(peer))
            bucket = self.bucket_of(peer)

    def has_use_for(self, peer: Peer) -> bool:
        """Whether a new contact would get a place, or is one of few spare ones for its bucket."""
        bucket = self.bucket_of(peer)
        if len(bucket) < self.ksize or len(bucket.replacement_nodes) < SPARES:
            return True
        return bool(bucket.has_in_range(self.node)) or bucket.depth() % 5 != 0

    def find_neighbors(
        self, node: Peer | Target, k: int | None = None, exclude: Peer | None = None
    ) -> list[Peer]:
        """Replaces routing.py:185-195 and its traversal at 103-120: the true k closest, nearest first.

        Upstream takes buckets from the left and the right in turn, which is not the order of the XOR
        distance, and leaves out a node whose id is the one looked for. Here the distance of any one id
        of a bucket orders the buckets, for each is one subtree and their distances do not overlap.
        """
        k = k or self.ksize
        goal = node.long_id
        if exclude is not None:
            id_, ip, port = exclude
        found: list[Peer] = []
        for _, index in sorted([(b.range[0] ^ goal, i) for i, b in enumerate(self.buckets)]):
            nodes = self.buckets[index].nodes
            if nodes:
                peers = sorted(nodes.values(), key=lambda peer: peer.long_id ^ goal)
                if exclude is not None:
                    peers = [p for p in peers if p.id != id_ and (p.port != port or p.ip != ip)]
                found += self.protocol.sound(peers)
                if len(found) >= k:
                    break
        return found[:k]


def _lower(bucket: Bucket) -> int:
    return bucket.range[0]
