"""All that is used of the `kademlia` package, by composition.

What is right in upstream is called here: `KBucket` (who is let into a bucket, who waits among the spare ones,
who moves up when one is removed, how a bucket is cut in two). What is wrong in it is ours, and nothing here
is called back by upstream:

- routing.py:20-21 reads the machine's clock whatever the node's clock is: a `Bucket` keeps its own age.
- routing.py:26-35: the halves of a bucket look as if they had just been refreshed.
- routing.py:51-52: a spare contact is new every time it is met.
- routing.py:103-136, 159-195 (`RoutingTable`), protocol.py, crawling.py, network.py, storage.py, and
  rpcudp: see `routing`, `node`, `lookup`, `values` and `exchange`; tests show what the stock classes do
  instead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kademlia.routing import KBucket

from overlay.bounded import Memo
from overlay.contact import ID_BITS, REMEMBERED, Contact, PeerId
from overlay.dht.messages import entry_of
from overlay.transport.address import socket_address


class Target:
    """A place in the id space that is looked for; there may be no node at it."""

    __slots__ = ("id", "long_id")

    def __init__(self, id_: PeerId) -> None:
        self.id = id_
        self.long_id = int.from_bytes(id_, "big")

    def distance_to(self, other: RoutedPeer | Target) -> int:
        return self.long_id ^ other.long_id


class RoutedPeer:
    """A contact with what a bucket and a lookup need at hand of it; it is a `Node` to upstream's buckets."""

    __slots__ = ("can_exist", "contact", "entry", "home", "id", "long_id")

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.id: PeerId = contact.id
        self.long_id = int.from_bytes(contact.id, "big")
        """The id as a number."""
        self.home = (contact.host, contact.port)
        self.entry = entry_of(contact)
        """This contact in the list of a reply."""
        self.can_exist = socket_address(contact.host, contact.port, True) is not None
        """False when no peer can have the address, whichever peer names it."""

    def distance_to(self, other: RoutedPeer | Target) -> int:
        return self.long_id ^ other.long_id


def _peer_of(contact: Contact) -> RoutedPeer:
    return RoutedPeer(Contact.unpack(contact.packed()))


peer_of: Callable[[Contact], RoutedPeer] = Memo(_peer_of, REMEMBERED).__getitem__
"""The same few contacts are met over and over; equal contacts give the same object while it is remembered.

Its contact is the object that decoding gives, so that comparing it with a decoded one is quick."""


class Bucket:
    """One k-bucket: up to k contacts of one range of ids, least recently seen first, and spare ones."""

    __slots__ = ("_kbucket", "last_used", "nodes", "range", "spare")

    def __init__(self, kbucket: Any, last_used: float) -> None:
        self._kbucket = kbucket
        self.range: tuple[int, int] = kbucket.range
        self.nodes: OrderedDict[PeerId, RoutedPeer] = kbucket.nodes
        self.spare: OrderedDict[PeerId, RoutedPeer] = kbucket.replacement_nodes
        self.last_used = last_used
        """When a lookup last went into this range."""

    @classmethod
    def of_everything(cls, k: int, now: float) -> Bucket:
        """The first bucket: its range is the whole id space."""
        return cls(KBucket(0, 2**ID_BITS - 1, k), now)

    def __len__(self) -> int:
        return len(self.nodes)

    def split(self) -> tuple[Bucket, Bucket]:
        """Two halves, each as old as this bucket."""
        lower, upper = self._kbucket.split()
        return Bucket(lower, self.last_used), Bucket(upper, self.last_used)

    def add(self, peer: RoutedPeer) -> None:
        """Give the contact a place, or keep it among the spare ones where there is none."""
        self._kbucket.add_node(peer)

    def remove(self, peer: RoutedPeer) -> None:
        """Take the contact out; the spare one that was seen last gets its place."""
        self._kbucket.remove_node(peer)

    def find(self, peer_id: PeerId) -> RoutedPeer | None:
        """The contact of that id, spare or not."""
        return self.nodes.get(peer_id) or self.spare.get(peer_id)

    def refresh(self, peer: RoutedPeer) -> None:
        """A contact that is here was heard, perhaps at another address: now it is the one seen last."""
        held = self.nodes if peer.id in self.nodes else self.spare
        held[peer.id] = peer
        held.move_to_end(peer.id)

    def head(self) -> RoutedPeer:
        """The contact that was seen longest ago."""
        return next(iter(self.nodes.values()))

    def covers(self, place: RoutedPeer | Target) -> bool:
        return bool(self._kbucket.has_in_range(place))

    def depth(self) -> int:
        """How many first bits all contacts share."""
        places = [peer.long_id for peer in self.nodes.values()]
        return ID_BITS - (min(places) ^ max(places)).bit_length()
