"""One k-bucket: up to k contacts of one range of ids, least recently seen first, and spare ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain

from kademlia.routing import KBucket

from overlay.contact import PeerId
from overlay.dht.peer import Peer

Clock = Callable[[], float]


class Bucket(KBucket):  # type: ignore[misc]
    """Upstream's bucket on a clock that is passed in.

    What stays upstream's: who is let in, who waits among the spare ones, who moves up when one is removed.
    """

    range: tuple[int, int]
    nodes: OrderedDict[PeerId, Peer]
    replacement_nodes: OrderedDict[PeerId, Peer]
    last_updated: float

    def __init__(self, lower: int, upper: int, ksize: int, clock: Clock) -> None:
        self._clock = clock
        super().__init__(lower, upper, ksize)

    def touch_last_updated(self) -> None:
        """Replaces routing.py:20-21, which reads the machine's clock whatever the event loop's is."""
        self.last_updated = self._clock()

    def split(self) -> tuple[Bucket, Bucket]:
        """Replaces routing.py:26-35, whose halves look as if they had just been refreshed."""
        middle = (self.range[0] + self.range[1]) // 2
        halves = (
            Bucket(self.range[0], middle, self.ksize, self._clock),
            Bucket(middle + 1, self.range[1], self.ksize, self._clock),
        )
        for peer in chain(self.nodes.values(), self.replacement_nodes.values()):
            halves[peer.long_id > middle].add_node(peer)
        for half in halves:
            half.last_updated = self.last_updated
        return halves

    def is_new_node(self, peer: Peer) -> bool:
        """Replaces routing.py:51-52, to which a spare contact is new every time it is met."""
        return peer.id not in self.nodes and peer.id not in self.replacement_nodes

    def find(self, peer_id: PeerId) -> Peer | None:
        """The contact of that id, spare or not."""
        return self.nodes.get(peer_id) or self.replacement_nodes.get(peer_id)

    def refresh(self, peer: Peer) -> None:
        """A contact that is here was heard, perhaps at another address: now it is the one seen last."""
        held = self.nodes if peer.id in self.nodes else self.replacement_nodes
        held[peer.id] = peer
        held.move_to_end(peer.id)
