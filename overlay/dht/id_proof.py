"""Proof that a peer has the key its id comes from, and answers at the address it claims.

Who asks a peer it has not verified adds a challenge of random bytes to the request. The reply brings
the peer's public key and a signature over the challenge, the asker's id, and the peer's own contact.
The id must be the key's hash, so an id cannot be borrowed; the asker's id and the peer's address are
signed, so an answer cannot be passed on from elsewhere. A verified contact is remembered for `lifetime`
seconds and not challenged again.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.contact import Contact, PeerId
from overlay.dht.letter import CHALLENGE_BYTES
from overlay.identity import PUBLIC_KEY_BYTES, Identity, peer_id_of, verify

REMEMBERED = 8192
"""Verified contacts; the one verified longest ago is forgotten first."""

_PURPOSE = b"camcast dht id proof"


class IdProofs:
    """What one node proves of itself, and what others proved to it."""

    def __init__(self, identity: Identity, contact: Contact, lifetime: float) -> None:
        self._identity = identity
        self._contact = contact
        self._lifetime = lifetime
        self._verified: OrderedDict[Contact, float] = OrderedDict()

    def is_verified(self, contact: Contact, now: float) -> bool:
        until = self._verified.get(contact)
        return until is not None and now < until

    def prove(self, challenge: bytes, asker: PeerId) -> bytes:
        """The public key and the signature that answer `challenge`."""
        signature = self._identity.sign(_signed(challenge, asker, self._contact))
        return self._identity.public_key + signature

    def check(self, contact: Contact, challenge: bytes, proof: bytes | None, now: float) -> bool:
        """Whether `proof` answers the challenge that this node gave to `contact`; remembered if so."""
        if proof is None or len(challenge) != CHALLENGE_BYTES:
            return False
        public_key, signature = proof[:PUBLIC_KEY_BYTES], proof[PUBLIC_KEY_BYTES:]
        if peer_id_of(public_key) != contact.id:
            return False
        if not verify(public_key, _signed(challenge, self._contact.id, contact), signature):
            return False
        self._verified.pop(contact, None)
        if len(self._verified) >= REMEMBERED:
            self._verified.popitem(last=False)
        self._verified[contact] = now + self._lifetime
        return True


def _signed(challenge: bytes, asker: PeerId, prover: Contact) -> bytes:
    return _PURPOSE + challenge + asker + prover.packed()
