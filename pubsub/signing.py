"""Signed events: who published an event can be told by everyone who receives it.

A signature is the publisher's public key (32 bytes) and its Ed25519 signature (64 bytes) of the event's body,
just as it travels. The key proves the publisher's id (see `overlay.identity`), and the body holds all that
the publisher says: id, topic and its super-topics, number and data.
"""

from __future__ import annotations

from overlay.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity, peer_id_of, verify
from pubsub.event import EventBody, Gossip


def sign_body(identity: Identity, body: bytes) -> bytes:
    return identity.public_key + identity.sign(body)


def is_signed_by_publisher(gossip: Gossip, body: EventBody) -> bool:
    if len(gossip.signature) != PUBLIC_KEY_BYTES + SIGNATURE_BYTES:
        return False
    public_key = gossip.signature[:PUBLIC_KEY_BYTES]
    if peer_id_of(public_key) != body.publisher:
        return False
    return verify(public_key, gossip.body, gossip.signature[PUBLIC_KEY_BYTES:])
