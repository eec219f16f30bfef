"""Upstream's `Node` of one of our contacts."""

from __future__ import annotations

from functools import lru_cache

from kademlia.node import Node

from overlay.contact import Contact, PeerId
from overlay.dht.contact_list import entry_of
from overlay.transport.address import socket_address


class Peer(Node):  # type: ignore[misc]
    """A contact as upstream's classes know it: `id`, `ip`, `port` and the id as a number, `long_id`."""

    __slots__ = ("can_exist", "contact", "entry", "id", "ip", "long_id", "port")

    id: PeerId
    ip: str
    port: int
    long_id: int

    def __init__(self, contact: Contact) -> None:
        super().__init__(contact.id, contact.host, contact.port)
        self.contact = contact
        self.entry = entry_of(contact)
        """This contact in the list of a reply."""
        self.can_exist = socket_address(contact.address, True) is not None
        """False when no peer can have the address, whoever names it."""


@lru_cache(maxsize=16_384)
def peer_of(contact: Contact) -> Peer:
    """The same few contacts are met over and over; equal contacts give the same object while it is cached.

    Its contact is the object that decoding gives, so that comparing it with a decoded one is quick.
    """
    return Peer(Contact.unpack(contact.packed()))


class Target(Node):  # type: ignore[misc]
    """A place in the id space that is looked for; there may be no node at it."""

    id: PeerId
    long_id: int
