"""Enhanced authentication (section 4.12): a client and an `Authenticator` send each other data until the
authenticator is content; and again whenever the client wants to.

`Scram` is one: SCRAM-SHA-256 (RFC 5802 and 7677), the method that clients know.

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
from typing import NamedTuple, Protocol

from overlay.entropy import entropy
from pubsub.doors.mqtt.packets import Auth, Connect, MqttError, Reason, violation
from pubsub.doors.mqtt.properties import Properties

METHOD = "SCRAM-SHA-256"
ITERATIONS = 4096
_SALT_BYTES = _NONCE_BYTES = 18
_HEADERS = ("n,,", "y,,")
"""What begins a client's first message without channel binding, and without another name to act for."""


class Answer(NamedTuple):
    """What a client is sent in the course of its authentication."""

    data: bytes
    is_done: bool
    """The client is who it says it is."""


class Exchange(Protocol):
    """One authentication of one client."""

    def step(self, data: bytes) -> Answer | None:
        """The answer to what the client has sent, which may be anything; None: the client is refused."""
        ...


class Authenticator(Protocol):
    """Knows how clients show who they are."""

    def begin(self, client_id: str, method: str) -> Exchange | None:
        """Begin an authentication by this method; None for a method that there is not. `client_id` is empty
        for a client that brings none."""
        ...


class Authentication:
    """How far the authentication of one connection is."""

    __slots__ = ("_authenticator", "_client_id", "_exchange", "_method", "connect", "properties")

    def __init__(self, authenticator: Authenticator | None, connect: Connect) -> None:
        """`MqttError` when there is no such method."""
        self.connect: Connect | None = connect
        """The packet that waits for the first authentication."""
        self.properties: Properties = {}
        """Of the packet that answers the client."""
        self._authenticator = authenticator
        self._client_id = connect.client_id
        self._method: str = connect.properties["authentication_method"]
        self._exchange: Exchange | None = self._begin()

    def _begin(self) -> Exchange:
        exchange = None
        if self._authenticator is not None:
            exchange = self._authenticator.begin(self._client_id, self._method)
        if exchange is None:
            what = f"there is no authentication method {self._method!r:.60} here"
            raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, what)
        return exchange

    def hear(self, packet: Auth) -> bool:
        """As `step`, with an AUTH packet of the client."""
        if packet.properties.get("authentication_method") != self._method:
            raise violation("an AUTH packet has another method than CONNECT")
        if packet.reason == Reason.RE_AUTHENTICATE:
            if self._exchange is not None:
                raise violation("an authentication has not ended when another one begins")
            self._exchange = self._begin()
        elif packet.reason != Reason.CONTINUE_AUTHENTICATION or self._exchange is None:
            raise violation("there is no authentication that could go on")
        return self.step(packet.properties.get("authentication_data", b""))

    def step(self, data: bytes) -> bool:
        """Whether the client is who it says; `properties` are those of the answer. `MqttError` when it is
        not."""
        assert self._exchange is not None
        answer = self._exchange.step(data)
        if answer is None:
            raise MqttError(Reason.NOT_AUTHORIZED, "the client is not who it says it is")
        self.properties = {"authentication_method": self._method}
        if answer.data:
            self.properties["authentication_data"] = answer.data
        if answer.is_done:
            self._exchange = None
        return answer.is_done


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

    def begin(self, client_id: str, method: str) -> _ScramExchange | None:
        return _ScramExchange(self) if method == METHOD else None

    def secret(self, user: str) -> ScramSecret:
        """The secret of a user. Who there is not has one too, which no password fits, and always the same
        salt: a client is not told which users there are."""
        known = self._users.get(user)
        if known is not None:
            return known
        salt = _hmac(self._key, user.encode())[:_SALT_BYTES]
        return ScramSecret(salt, ITERATIONS, entropy().randbytes(32), entropy().randbytes(32))


class _ScramExchange:
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
