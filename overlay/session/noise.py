"""The handshake of the Noise Protocol Framework, revision 34, over X25519, ChaCha20-Poly1305 and BLAKE2s.

A `Handshake` writes and reads the messages of one pattern in turn and ends with two keys, one for each
direction. Patterns in which a side knows the other's static key before the first message are left out:
contacts hold the hash of a peer's key and not the key.

`IX` with the modifier `psk0` is what sessions use:

    -> psk, e, s        the opening
    <- e, ee, se, s, es the answer

Two messages and three Diffie-Hellman operations a side prove both static keys and give forward secrecy. `XX`
needs a third message, and all that is sent behind a lost third message is lost with it. `IK` needs the
responder's key. What `IX` lacks, that it shows the initiator's static key, is made good by `psk0`: the key is
encrypted from the first message on, and only holders of the network key can read it.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2s

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

KEY_BYTES = 32
TAG_BYTES = 16

nonce_of = struct.Struct("<4xQ").pack
"""`nonce_of(counter)`: the 12 bytes that Noise makes of a counter for ChaCha20-Poly1305."""


class HandshakeError(Exception):
    """A handshake message is not what the pattern asks for, or is not authentic."""


@dataclass(frozen=True)
class HandshakePattern:
    """The messages of a handshake, each as its tokens; the initiator writes the first one."""

    name: str
    messages: tuple[tuple[str, ...], ...]

    @property
    def has_secret(self) -> bool:
        """Whether a pre-shared key is mixed in."""
        return any("psk" in message for message in self.messages)


IXPSK0 = HandshakePattern("IXpsk0", (("psk", "e", "s"), ("e", "ee", "se", "s", "es")))


class _Symmetric:
    """The hash of all that was said, the chaining key, and the key for what is encrypted next."""

    __slots__ = ("chaining_key", "cipher", "counter", "hash")

    def __init__(self, name: bytes, prologue: bytes) -> None:
        start = name.ljust(KEY_BYTES, b"\0") if len(name) <= KEY_BYTES else blake2s(name).digest()
        self.chaining_key = start
        self.hash = start
        self.cipher: ChaCha20Poly1305 | None = None
        self.counter = 0
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.hash = blake2s(self.hash + data).digest()

    def mix_key(self, material: bytes) -> None:
        self.chaining_key, key = derive(self.chaining_key, material, 2)
        self._use(key)

    def mix_key_and_hash(self, material: bytes) -> None:
        self.chaining_key, mixed, key = derive(self.chaining_key, material, 3)
        self.mix_hash(mixed)
        self._use(key)

    def encrypt(self, clear: bytes) -> bytes:
        if self.cipher is None:
            sealed = clear
        else:
            sealed = self.cipher.encrypt(nonce_of(self.counter), clear, self.hash)
            self.counter += 1
        self.mix_hash(sealed)
        return sealed

    def decrypt(self, sealed: bytes) -> bytes:
        if self.cipher is None:
            clear = sealed
        else:
            try:
                clear = self.cipher.decrypt(nonce_of(self.counter), sealed, self.hash)
            except InvalidTag:
                raise HandshakeError("a part does not open") from None
            self.counter += 1
        self.mix_hash(sealed)
        return clear

    def _use(self, key: bytes) -> None:
        self.cipher = ChaCha20Poly1305(key)
        self.counter = 0


class Handshake:
    """One side of one handshake; `write` and `read` take turns, as the pattern says."""

    def __init__(
        self,
        pattern: HandshakePattern,
        is_initiator: bool,
        *,
        static: X25519PrivateKey | None = None,
        ephemeral: X25519PrivateKey,
        secrets: Sequence[bytes] = (),
        prologue: bytes = b"",
    ) -> None:
        """`secrets`: the pre-shared keys, 32 bytes each, in the order in which the pattern uses them."""
        name = f"Noise_{pattern.name}_25519_ChaChaPoly_BLAKE2s".encode()
        self._state = _Symmetric(name, prologue)
        self._is_initiator = is_initiator
        self._has_secret = pattern.has_secret
        self._messages = list(pattern.messages)
        self._secrets = list(secrets)
        self._own = {"e": ephemeral, "s": static}
        self._their: dict[str, bytes] = {}

    def copy(self) -> Handshake:
        """One in the same state, which goes on by itself."""
        other = copy.copy(self)
        other._state = copy.copy(self._state)
        other._messages, other._secrets = list(self._messages), list(self._secrets)
        other._their = dict(self._their)
        return other

    @property
    def is_complete(self) -> bool:
        return not self._messages

    @property
    def their_static(self) -> bytes:
        """The other side's static public key, once a message brought it."""
        return self._their["s"]

    def write(self, payload: bytes) -> bytes:
        """The next message, with a payload that is encrypted as soon as the pattern has a key."""
        parts = []
        for token in self._messages.pop(0):
            if token in ("e", "s"):
                public = _public(self._own[token])
                parts.append(public if token == "e" else self._state.encrypt(public))
                if token == "e":
                    self._mix_ephemeral(public)
            else:
                self._mix(token)
        parts.append(self._state.encrypt(payload))
        return b"".join(parts)

    def read(self, message: bytes) -> bytes:
        """The payload of the other side's message; `HandshakeError` leaves the handshake of no use."""
        rest = message
        for token in self._messages.pop(0):
            if token in ("e", "s"):
                is_sealed = token == "s" and self._state.cipher is not None
                size = KEY_BYTES + (TAG_BYTES if is_sealed else 0)
                if len(rest) < size:
                    raise HandshakeError("the message is too short")
                part, rest = rest[:size], rest[size:]
                self._their[token] = part if token == "e" else self._state.decrypt(part)
                if token == "e":
                    self._mix_ephemeral(part)
            else:
                self._mix(token)
        return self._state.decrypt(rest)

    def split(self) -> tuple[bytes, bytes]:
        """The keys of a complete handshake: for what the initiator sends, and for what it receives."""
        first, second = derive(self._state.chaining_key, b"", 2)
        return first, second

    def _mix_ephemeral(self, public: bytes) -> None:
        self._state.mix_hash(public)
        if self._has_secret:
            self._state.mix_key(public)

    def _mix(self, token: str) -> None:
        if token == "psk":
            self._state.mix_key_and_hash(self._secrets.pop(0))
            return
        # "es" is the initiator's ephemeral with the responder's static key, on both sides.
        mine, theirs = (token[0], token[1]) if self._is_initiator else (token[1], token[0])
        own, other = self._own[mine], self._their[theirs]
        assert own is not None
        try:
            self._state.mix_key(own.exchange(X25519PublicKey.from_public_bytes(other)))
        except ValueError:
            raise HandshakeError("a public key has no use") from None


def derive(key: bytes, material: bytes, count: int) -> list[bytes]:
    """HKDF of Noise (section 4.3): `count` keys of 32 bytes."""
    inner, outer = _pads(key)
    inner, outer = _pads(blake2s(outer + blake2s(inner + material).digest()).digest())
    derived: list[bytes] = []
    last = b""
    for number in range(1, count + 1):
        last = blake2s(outer + blake2s(inner + last + bytes((number,))).digest()).digest()
        derived.append(last)
    return derived


_BLOCK_BYTES = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def _pads(key: bytes) -> tuple[bytes, bytes]:
    """The two blocks of HMAC (RFC 2104) for a key. A handshake takes 44 HMACs, and the `hmac` module twice as
    long for each."""
    block = key.ljust(_BLOCK_BYTES, b"\0")
    return block.translate(_INNER), block.translate(_OUTER)


def _public(key: X25519PrivateKey | None) -> bytes:
    assert key is not None
    return key.public_key().public_bytes_raw()
