"""Enhanced authentication: AUTH packets, SCRAM-SHA-256, and an authenticator of one's own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
from typing import Any

import pytest

from pubsub.doors.mqtt import Answer, Scram, ScramSecret, authentication
from pubsub.doors.mqtt.network import Open
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    V5,
    V311,
    Auth,
    ConnAck,
    Decoder,
    Disconnect,
    MqttError,
    Packet,
    Ping,
    Publish,
    Reason,
    write_packet,
)
from tests.pubsub.doors.mqtt_hub import Client, Door

METHOD = {"authentication_method": "SCRAM-SHA-256"}


class User:
    """The client's part of SCRAM, as RFC 5802 has it."""

    def __init__(self, name: str, password: str) -> None:
        self._bare, self._password = f"n={name},r=fyko+d2lbbFgONRv9qkxdawL", password

    @property
    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        nonce, salt, rounds = (part[2:] for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", self._password.encode(), base64.b64decode(salt), int(rounds)
        )
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c=biws,r={nonce}"
        self._said = f"{self._bare},{challenge.decode()},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), self._said, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        self._server = hmac.digest(
            hmac.digest(salted, b"Server Key", "sha256"), self._said, "sha256"
        )
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def knows(self, answer: bytes) -> bool:
        return answer == b"v=" + base64.b64encode(self._server)


def data(packet: Packet) -> bytes:
    assert isinstance(packet, Auth | ConnAck)
    assert packet.properties["authentication_method"] == "SCRAM-SHA-256"
    found: bytes = packet.properties["authentication_data"]
    return found


def auth(reason: int, value: bytes) -> Auth:
    return Auth(reason, {**METHOD, "authentication_data": value})


def door() -> Door:
    return Door(authenticator=Scram({"ann": ScramSecret.of("pencil")}))


def begin(user: User) -> Client:
    """A client that has been sent a challenge."""
    client = door().client("c", properties={**METHOD, "authentication_data": user.first})
    assert client.got[-1].reason == Reason.CONTINUE_AUTHENTICATION  # type: ignore[union-attr]
    return client


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chosen(random.Random):
        def randbytes(self, size: int) -> bytes:
            return base64.b64decode("hvYDpWUa2RaTCAfuxFIljhNlFk0=")[:size]

    monkeypatch.setattr(authentication, "entropy", Chosen)
    monkeypatch.setattr(authentication, "_base64", _as_in_the_example)
    secret = ScramSecret.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = Scram({"user": secret}).begin("", "SCRAM-SHA-256")
    assert exchange is not None
    challenge = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Answer(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), False)
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = exchange.step(f"c=biws,r={nonce},p={proof}".encode())
    assert answer == Answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", True)


def _as_in_the_example(value: bytes) -> str:
    """The nonce of the example is not base64."""
    written = base64.b64encode(value).decode()
    return "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0" if written.startswith("hvYD") else written


def test_a_client_is_let_in_when_it_knows_the_password_and_again_later() -> None:
    user = User("ann", "pencil")
    client = begin(user)
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, user.final(data(client.got[-1]))))
    assert isinstance(client.got[-1], ConnAck)
    assert client.got[-1].reason == 0
    assert user.knows(data(client.got[-1]))
    again = User("ann", "pencil")
    client.send(auth(Reason.RE_AUTHENTICATE, again.first))
    challenge = data(client.got[-1])
    client.send(Publish("a", b"meanwhile", 1, packet_id=3))  # what else the client does goes on
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, again.final(challenge)))
    assert client.got[-1].reason == Reason.SUCCESS  # type: ignore[union-attr]
    assert again.knows(data(client.got[-1]))
    assert not client.is_closed


@pytest.mark.parametrize("user", [User("ann", "pen"), User("bob", "pencil")])
def test_who_does_not_know_the_password_is_refused(user: User) -> None:
    client = begin(user)
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, user.final(data(client.got[-1]))))
    assert client.got[-1] == ConnAck(False, Reason.NOT_AUTHORIZED)
    assert client.is_closed


def test_a_user_that_there_is_not_is_challenged_like_others() -> None:
    known = Scram({})
    salts = [known.secret("nobody").salt for _ in range(2)]
    assert salts[0] == salts[1] != known.secret("nobody else").salt


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=ann",
        b"n,,n=ann,r=",
        b"p=tls-unique,,n=ann,r=x",
        b"\xff",
        b"n,,m=1,n=ann,r=x",
    ],
)
def test_messages_that_make_no_sense_are_refused(first: bytes) -> None:
    client = door().client("c", properties={**METHOD, "authentication_data": first})
    assert client.got == [ConnAck(False, Reason.NOT_AUTHORIZED)]


def test_a_proof_is_for_one_challenge_only() -> None:
    user = User("ann", "pencil")
    earlier = begin(user)
    proof = user.final(data(earlier.got[-1]))
    client = begin(user)
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, proof))
    assert client.got[-1] == ConnAck(False, Reason.NOT_AUTHORIZED)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (Auth(0x18, {"authentication_method": "OTHER"}), Reason.PROTOCOL_ERROR),
        (Auth(0x19, dict(METHOD)), Reason.PROTOCOL_ERROR),
        (Auth(0x18), Reason.PROTOCOL_ERROR),
        (Auth(), Reason.PROTOCOL_ERROR),
        (Ping(PINGREQ), Reason.PROTOCOL_ERROR),
        (Publish("a", b""), Reason.PROTOCOL_ERROR),
    ],
)
def test_other_packets_than_the_next_step_are_refused(packet: Packet, reason: Reason) -> None:
    client = begin(User("ann", "pencil"))
    client.send(packet)
    assert client.got[-1] == ConnAck(False, reason)
    assert client.is_closed


def test_an_authentication_that_does_not_go_on_ends() -> None:
    place = door()
    user = User("ann", "pencil")
    client = place.client("c", properties={**METHOD, "authentication_data": user.first})
    place.clock.run(11)
    assert client.is_closed
    assert not place.hub.connections


def test_methods_that_are_not_there_and_clients_that_named_none() -> None:
    plain: Any = {"properties": METHOD}
    assert Door().client("c", **plain).got == [ConnAck(False, Reason.BAD_AUTHENTICATION_METHOD)]
    other: Any = {"properties": {"authentication_method": "PLAIN"}}
    assert door().client("c", **other).got == [ConnAck(False, Reason.BAD_AUTHENTICATION_METHOD)]
    loose: Any = {"properties": {"authentication_data": b"x"}}
    assert door().client("c", **loose).got == [ConnAck(False, Reason.PROTOCOL_ERROR)]
    assert door().client("c").got == [ConnAck(False, Reason.NOT_AUTHORIZED)]
    client = Door(access=Open(), authenticator=Scram({})).client("c")
    client.send(auth(Reason.RE_AUTHENTICATE, b""))
    assert isinstance(client.got[-1], Disconnect)
    assert client.got[-1].reason == Reason.PROTOCOL_ERROR


@pytest.mark.parametrize("version", [V311, V5])
def test_an_auth_packet_is_read_strictly(version: int) -> None:
    for packet in (b"\xf1\x00", b"\xf0\x01\x17", b"\xf0\x02\x18\x05", b"\xf0\x03\x18\x00\x00"):
        with pytest.raises(MqttError):
            list(Decoder(version=version).feed(packet))
    whole = write_packet(auth(Reason.CONTINUE_AUTHENTICATION, b"data"), V5)
    if version == V5:
        assert list(Decoder(version=V5).feed(whole)) == [
            auth(Reason.CONTINUE_AUTHENTICATION, b"data")
        ]
    else:
        with pytest.raises(MqttError):
            list(Decoder(version=V311).feed(whole))
