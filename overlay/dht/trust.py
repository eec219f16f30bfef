"""What a node believes of a peer: that it gets what is sent to it, that its id is its own, that it answers.

- `AddressTokens`: a reply carries a token; a request that leaves something behind must bring one. A token
  is a keyed hash of the peer's id and address, so nothing is kept for those who hold one.
- `IdProofs`: who asks a peer it has not verified adds a challenge of random bytes to the request. The reply
  brings the peer's public key and a signature over the challenge, the asker's id and the peer's own
  contact. The id must be the key's hash, so an id cannot be borrowed; the asker's id and the peer's address
  are signed, so an answer cannot be passed on from elsewhere.
- `FailureMemory`: a peer that failed a request is avoided: not asked by lookups and not named to others.
  Anything heard from it clears it. A peer that sent a malformed reply is distrusted, and hearing from it
  does not help.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

from overlay.contact import Contact, PeerId
from overlay.identity import PUBLIC_KEY_BYTES, Identity, peer_id_of, verify

TOKEN_BYTES = 8
SECRET_BYTES = 16

CHALLENGE_BYTES = 16
PROOF_BYTES = 96
_PURPOSE = b"camcast dht id proof"

VERIFIED_CONTACTS = 8192
"""Verified contacts that are remembered; the one verified longest ago is forgotten first."""

MARKED_CONTACTS = 4096
"""Contacts with a bad mark that are remembered; the one marked longest ago is forgotten first."""

LONGEST_DISTRUST = 3600.0
"""Seconds: distrust doubles with every malformed reply, up to this."""


class AddressTokens:
    """The tokens that one node gives and takes.

    The secret changes every `lifetime` seconds and the one before it still counts: a token is good for one
    lifetime at least and two at most.
    """

    def __init__(self, draw_bytes: Callable[[int], bytes], lifetime: float, now: float) -> None:
        self._draw_bytes = draw_bytes
        self._lifetime = lifetime
        self._since = now
        self._current = draw_bytes(SECRET_BYTES)
        self._previous = draw_bytes(SECRET_BYTES)

    def token_for(self, peer: Contact, now: float) -> bytes:
        self._rotate(now)
        return _token(self._current, peer)

    def accepts(self, peer: Contact, token: bytes, now: float) -> bool:
        """Whether this node gave `token` to `peer` within the last lifetime."""
        self._rotate(now)
        current = compare_digest(token, _token(self._current, peer))
        return current or compare_digest(token, _token(self._previous, peer))

    def _rotate(self, now: float) -> None:
        elapsed = now - self._since
        if elapsed < self._lifetime:
            return
        overslept = elapsed >= 2 * self._lifetime
        self._previous = self._draw_bytes(SECRET_BYTES) if overslept else self._current
        self._current = self._draw_bytes(SECRET_BYTES)
        self._since = now if overslept else self._since + self._lifetime


def _token(secret: bytes, peer: Contact) -> bytes:
    return blake2b(peer.packed(), digest_size=TOKEN_BYTES, key=secret).digest()


class IdProofs:
    """What one node proves of itself, and what others proved to it.

    A verified contact is remembered for `lifetime` seconds and not challenged again.
    """

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
        if len(self._verified) >= VERIFIED_CONTACTS:
            self._verified.popitem(last=False)
        self._verified[contact] = now + self._lifetime
        return True


def _signed(challenge: bytes, asker: PeerId, prover: Contact) -> bytes:
    return _PURPOSE + challenge + asker + prover.packed()


class _Mark:
    __slots__ = ("failures", "offences", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.offences = 0
        self.until = 0.0


class FailureMemory:
    """The bad marks of one node's peers; a contact at another address is another peer."""

    def __init__(self, dead_for: float, distrusted_for: float) -> None:
        self._dead_for = dead_for
        self._distrusted_for = distrusted_for
        self._marks: OrderedDict[Contact, _Mark] = OrderedDict()

    def __len__(self) -> int:
        return len(self._marks)

    def failed(self, contact: Contact, now: float) -> int:
        """A request to `contact` got no answer; returns how many in a row did not."""
        mark = self._mark(contact)
        mark.failures += 1
        mark.until = max(mark.until, now + self._dead_for)
        return mark.failures

    def offended(self, contact: Contact, now: float) -> None:
        """`contact` answered with something malformed."""
        mark = self._mark(contact)
        distrust = min(self._distrusted_for * 2**mark.offences, LONGEST_DISTRUST)
        mark.offences = min(mark.offences + 1, 32)
        mark.until = max(mark.until, now + distrust)

    def heard(self, contact: Contact) -> None:
        """`contact` gave a sign of life: failures are forgiven, offences are not."""
        if self._marks:
            mark = self._marks.get(contact)
            if mark is not None:
                mark.failures = 0
                if not mark.offences:
                    del self._marks[contact]

    def avoids(self, contact: Contact, now: float) -> bool:
        """Whether `contact` is neither to be asked nor to be named at this time."""
        mark = self._marks.get(contact)
        return mark is not None and now < mark.until

    def _mark(self, contact: Contact) -> _Mark:
        mark = self._marks.pop(contact, None) or _Mark()
        if len(self._marks) >= MARKED_CONTACTS:
            self._marks.popitem(last=False)
        self._marks[contact] = mark
        return mark
