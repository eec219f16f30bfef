"""Tokens: proof that a peer receives what is sent to the address it claims.

A reply carries a token; a request that leaves something behind must bring one. It is a keyed hash of the
peer's id and address, so nothing is kept for those who hold one. The secret changes every `lifetime`
seconds and the one before it still counts: a token is good for one lifetime at least and two at most.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

from overlay.contact import Contact

TOKEN_BYTES = 8
SECRET_BYTES = 16


class AddressTokens:
    """The tokens that one node gives and takes."""

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
