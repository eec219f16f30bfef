"""Signed blocks: who published an event can be told by everyone who receives it.

A signature is the publisher's public key (32 bytes) and its Ed25519 signature (64 bytes) of the block's
bytes, just as they travel. The key proves the publisher's id (see `overlay.identity`), and the bytes hold all
that the publisher says: run and numbers, topic and its super-topics, and the events' data.
"""

from __future__ import annotations

from overlay.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity, peer_id_of, verify
from pubsub.event import Block

SIGNATURE_SIZE = PUBLIC_KEY_BYTES + SIGNATURE_BYTES
"""Bytes of a block's signature."""


def sign_block(identity: Identity, encoded: bytes) -> bytes:
    return identity.public_key + identity.sign(encoded)


def is_signed_by_publisher(block: Block) -> bool:
    signature = block.signature
    if len(signature) != SIGNATURE_SIZE:
        return False
    public_key = signature[:PUBLIC_KEY_BYTES]
    if peer_id_of(public_key) != block.publisher:
        return False
    return verify(public_key, block.encoded, signature[PUBLIC_KEY_BYTES:])
