"""SCRAM-SHA-256 (RFC 5802 and 7677), the method of enhanced authentication that clients know.

    MqttDoor(node, "127.0.0.1:1883", authenticator=Scram({"ann": ScramSecret.of("her password")}))

The client shows that it knows the password without sending it, and the door that it knows the password's
secret. What the door keeps of a password is of no use to log in with. Without channel binding: use TLS.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from overlay.entropy import entropy
from pubsub.doors.mqtt.authentication import Answer

METHOD = "SCRAM-SHA-256"
ITERATIONS = 4096
_SALT_BYTES = _NONCE_BYTES = 18
_HEADERS = ("n,,", "y,,")
"""What begins a client's first message without channel binding, and without another name to act for."""


@dataclass(frozen=True)
class ScramSecret:
    """What is kept of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(
        cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS
    ) -> ScramSecret:
        """The secret of a password; takes some milliseconds."""
        salt = entropy().randbytes(_SALT_BYTES) if salt is None else salt
        text = unicodedata.normalize("NFKC", password).encode()
        salted = hashlib.pbkdf2_hmac("sha256", text, salt, iterations)
        stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        return cls(salt, iterations, stored_key, _hmac(salted, b"Server Key"))


class Scram:
    """An `Authenticator` of users with passwords."""

    def __init__(self, users: Mapping[str, ScramSecret]) -> None:
        self._users = users
        self._key = entropy().randbytes(_NONCE_BYTES)

    def begin(self, client_id: str, method: str) -> _Exchange | None:
        return _Exchange(self) if method == METHOD else None

    def secret(self, user: str) -> ScramSecret:
        """The secret of a user. Who there is not has one too, which no password fits, and always the same
        salt: a client is not told which users there are."""
        known = self._users.get(user)
        if known is not None:
            return known
        salt = _hmac(self._key, user.encode())[:_SALT_BYTES]
        return ScramSecret(salt, ITERATIONS, entropy().randbytes(32), entropy().randbytes(32))


class _Exchange:
    """The server's part: two messages of the client, and an answer to each."""

    def __init__(self, scram: Scram) -> None:
        self._scram = scram
        self._first = b""
        """The first message of each side, without the header."""
        self._nonce = ""
        self._header = ""
        self._secret: ScramSecret | None = None

    def step(self, data: bytes) -> Answer | None:
        try:
            text = data.decode()
            return self._challenge(text) if self._secret is None else self._check(text)
        except (ValueError, binascii.Error):
            return None

    def _challenge(self, text: str) -> Answer | None:
        self._header, bare = text[:3], text[3:]
        user, nonce, *_ = (*bare.split(","), "")
        if self._header not in _HEADERS or user[:2] != "n=" or nonce[:2] != "r=" or not nonce[2:]:
            return None
        name = user[2:].replace("=2C", ",").replace("=3D", "=")
        secret = self._secret = self._scram.secret(name)
        self._nonce = nonce[2:] + _base64(entropy().randbytes(_NONCE_BYTES))
        answer = f"r={self._nonce},s={_base64(secret.salt)},i={secret.iterations}"
        self._first = f"{bare},{answer},".encode()
        return Answer(answer.encode(), False)

    def _check(self, text: str) -> Answer | None:
        """Whether the client knows the password; it is shown that the door knows the secret."""
        assert self._secret is not None
        without_proof, _, proof = text.rpartition(",p=")
        if without_proof != f"c={_base64(self._header.encode())},r={self._nonce}":
            return None
        all_said = self._first + without_proof.encode()
        signature = _hmac(self._secret.stored_key, all_said)
        given = base64.b64decode(proof, validate=True)
        if len(given) != len(signature):
            return None
        client_key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._secret.stored_key):
            return None
        return Answer(b"v=" + base64.b64encode(_hmac(self._secret.server_key, all_said)), True)


def _hmac(key: bytes, what: bytes) -> bytes:
    return hmac.digest(key, what, "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
