"""The network key, and what is derived from it: who does not hold the key cannot even begin.

A network has a ring of 32-byte keys. The first one opens sessions and all of them answer, so a key is
replaced without a stop: add the new one behind the old on every node, then move it to the front, then take
the old one away.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import blake2s

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.errors import UsageError

KEY_BYTES = 32
MAC_BYTES = 16


class NetworkKeyError(UsageError):
    """A network key does not have the form of one."""


def new_key() -> bytes:
    """A fresh network key from the operating system's randomness."""
    return ChaCha20Poly1305.generate_key()


def parse_key(text: str) -> bytes:
    """The key that `key.hex()` printed; white space around it does not matter."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise NetworkKeyError(
            f"a network key is written as {2 * KEY_BYTES} hexadecimal digits; make one with `camcast key new`"
        )
    return key


def check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """The keys as a tuple, or `NetworkKeyError` when one of them is not a key."""
    for key in keys:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise NetworkKeyError(
                f"a network key is {KEY_BYTES} bytes; make one with `camcast key new`"
            )
    if len(set(keys)) != len(keys):
        raise NetworkKeyError("a network key is in the ring twice")
    return tuple(keys)


class NetworkKey:
    """One key of the ring, with the keys for each purpose outside of sessions."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._mac_key = _derived(secret, b"mac")
        self._cookie_cipher = ChaCha20Poly1305(_derived(secret, b"cookie"))

    def mac(self, data: bytes) -> bytes:
        """16 bytes that only holders of the key can make: the cheap check before anything dear."""
        return blake2s(data, key=self._mac_key, digest_size=MAC_BYTES).digest()

    def made(self, mac: bytes, data: bytes) -> bool:
        return hmac.compare_digest(mac, self.mac(data))

    def hide(self, cookie: bytes, nonce: bytes, about: bytes) -> bytes:
        """The cookie, so that outsiders neither read it nor make one up; `about` is what it answers."""
        return self._cookie_cipher.encrypt(nonce, cookie, about)

    def show(self, hidden: bytes, nonce: bytes, about: bytes) -> bytes | None:
        """The cookie that `hide` was given, or None."""
        try:
            return self._cookie_cipher.decrypt(nonce, hidden, about)
        except InvalidTag:
            return None


def ring_of(keys: Sequence[bytes]) -> tuple[NetworkKey, ...]:
    """The ring of at least one key, or `NetworkKeyError`."""
    if not keys:
        raise NetworkKeyError("a ring has at least one network key")
    return tuple(map(NetworkKey, check_keys(keys)))


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return blake2s(purpose, key=secret, person=b"camcast").digest()
