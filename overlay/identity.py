"""Who this node is: an Ed25519 key, whose public half fixes the node's id.

The id is the first 160 bits of SHA-256 of the public key without its sign, so that nobody picks their own
place in the DHT, and a signature that verifies under a public key proves the id. Without its sign: a key and
its negative have one holder, and one form in a handshake, which so proves one id and no other.

The same key, converted to X25519, is the static key of the node's sessions: curve and secret are the same in
another form (RFC 7748, section 4.1). So a handshake proves the id by itself. The other way, a second key that
the first one signs, would cost a signature and its check in each handshake and 64 bytes in each message.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from overlay.contact import ID_BYTES, PeerId
from overlay.entropy import entropy
from overlay.errors import UsageError, why

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32

_PRIME = 2**255 - 19
"""The prime of the field in which the curve of both key forms lies."""

_LARGEST_FILE = 10_000
_OTHERS_MAY_USE = stat.S_IRWXG | stat.S_IRWXO


class IdentityError(UsageError):
    """A file does not hold an identity that can be used."""


class Identity:
    """A node's private key. Two identities are the same when their ids are."""

    __slots__ = ("_key", "agreement", "id", "public_key")

    def __init__(self, secret: bytes) -> None:
        """`secret`: 32 random bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key: bytes = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id: PeerId = peer_id_of(self.public_key)
        self.agreement = X25519PrivateKey.from_private_bytes(hashlib.sha512(secret).digest()[:32])
        """The same key in the form that agrees on secrets with other peers' keys."""

    @classmethod
    def create(cls) -> Identity:
        """A new identity, from the system's source of randomness."""
        return cls(entropy().randbytes(32))

    def __repr__(self) -> str:
        return f"Identity({self.id.hex()[:8]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def sign(self, data: bytes) -> bytes:
        """A signature of 64 bytes; the same data gives the same signature."""
        return self._key.sign(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the private key as PEM to a file that only its owner may read (mode 0600).

        The file is there whole or not at all, whenever the machine stops; one that was there is replaced.
        """
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            replace_file(Path(path), pem)
        except OSError as error:
            raise IdentityError(f"{path} cannot be written: {why(error)}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Identity:
        """Read what `save` wrote; `IdentityError` when the file is anything else, or open to others."""
        try:
            with open(path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if os.name == "posix" and mode & _OTHERS_MAY_USE:
                    raise IdentityError(
                        f"{path} can be used by others (mode {stat.S_IMODE(mode):04o}): "
                        f"run `chmod 600 {path}`, or make a new identity if somebody may have read it"
                    )
                pem = file.read(_LARGEST_FILE)
        except OSError as error:
            raise IdentityError(f"{path} cannot be read: {why(error)}") from None
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise IdentityError(f"{path} holds no private key in PEM format") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise IdentityError(f"{path} holds a private key that is not Ed25519")
        return cls(key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))

    @classmethod
    def load_or_create(cls, path: str | os.PathLike[str]) -> Identity:
        """The identity in the file, or a new one that is saved there when there is no file."""
        if Path(path).exists():
            return cls.load(path)
        identity = cls.create()
        identity.save(path)
        return identity


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in place of one that may be there: whole or not at all, and for its owner alone."""
    # mkstemp makes the file with mode 0600, so that at no time others can read the content.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def peer_id_of(public_key: bytes) -> PeerId:
    """The only id that the holder of this public key can have, and of its negative, which the holder of one
    can always use: the highest bit, which tells them apart, is left out."""
    without_sign = public_key[:-1] + bytes(last & 0x7F for last in public_key[-1:])
    return PeerId(hashlib.sha256(without_sign).digest()[:ID_BYTES])


@lru_cache(maxsize=4096)
def agreement_key_of(public_key: bytes) -> bytes | None:
    """The public half of `Identity.agreement` of the holder of `public_key`; None when it is not a key."""
    y = int.from_bytes(public_key, "little") & ~(1 << 255)
    if len(public_key) != PUBLIC_KEY_BYTES or y >= _PRIME or y == 1:
        return None
    u = (1 + y) * pow(1 - y, -1, _PRIME) % _PRIME
    return u.to_bytes(32, "little")


def verify(public_key: bytes, data: bytes, signature: bytes) -> bool:
    """Whether the holder of `public_key` signed `data`; False for malformed keys and signatures too."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
