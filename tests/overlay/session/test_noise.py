"""The handshake says what the published vectors say, and takes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.session.noise import IXPSK0, Handshake, HandshakeError, HandshakePattern, nonce_of

PATTERNS = {
    "NN": (("e",), ("e", "ee")),
    "XX": (("e",), ("e", "ee", "s", "es"), ("s", "se")),
    "IX": (("e", "s"), ("e", "ee", "se", "s", "es")),
}
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "noise_vectors.json").read_text()
)
"""From the vectors of the projects cacophony and snow, which other implementations are tested with too."""


def pattern_of(protocol: str) -> HandshakePattern:
    name = protocol.split("_")[1]
    messages = [list(tokens) for tokens in PATTERNS[name[:2]]]
    for modifier in filter(None, name[2:].split("+")):
        place = int(modifier.removeprefix("psk"))
        if place == 0:
            messages[0].insert(0, "psk")
        else:
            messages[place - 1].append("psk")
    return HandshakePattern(name, tuple(map(tuple, messages)))


def side(vector: dict[str, Any], role: str) -> Handshake:
    static = vector.get(f"{role}_static")
    return Handshake(
        pattern_of(vector["protocol_name"]),
        role == "init",
        static=X25519PrivateKey.from_private_bytes(bytes.fromhex(static)) if static else None,
        ephemeral=X25519PrivateKey.from_private_bytes(bytes.fromhex(vector[f"{role}_ephemeral"])),
        secrets=[bytes.fromhex(secret) for secret in vector.get(f"{role}_psks", ())],
        prologue=bytes.fromhex(vector[f"{role}_prologue"]),
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["protocol_name"])
def test_every_byte_is_that_of_the_published_vector(vector: dict[str, Any]) -> None:
    sides = [side(vector, "init"), side(vector, "resp")]
    messages = [
        (bytes.fromhex(m["payload"]), bytes.fromhex(m["ciphertext"])) for m in vector["messages"]
    ]
    turn = 0
    while not sides[0].is_complete:
        payload, expected = messages.pop(0)
        assert sides[turn % 2].write(payload) == expected
        assert sides[1 - turn % 2].read(expected) == payload
        turn += 1
    keys = sides[0].split()
    assert keys == sides[1].split()
    counters = [0, 0]
    for payload, expected in messages:
        direction = turn % 2
        cipher = ChaCha20Poly1305(keys[direction])
        assert cipher.encrypt(nonce_of(counters[direction]), payload, b"") == expected
        counters[direction] += 1
        turn += 1


def test_the_pattern_of_sessions_is_ix_with_the_secret_first() -> None:
    assert pattern_of("Noise_IXpsk0_25519_ChaChaPoly_BLAKE2s") == IXPSK0


def new(is_initiator: bool, number: int, secret: bytes = bytes(32)) -> Handshake:
    return Handshake(
        IXPSK0,
        is_initiator,
        static=X25519PrivateKey.from_private_bytes(bytes([number]) * 32),
        ephemeral=X25519PrivateKey.from_private_bytes(bytes([number + 100]) * 32),
        secrets=(secret,),
    )


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(HandshakeError):
        new(False, 2, b"x" * 32).read(new(True, 1).write(b"hello"))


@pytest.mark.parametrize("place", range(0, 32 + 48 + 21, 7))
def test_an_altered_message_is_refused(place: int) -> None:
    message = bytearray(new(True, 1).write(b"hello"))
    message[place] ^= 1
    with pytest.raises(HandshakeError):
        new(False, 2).read(bytes(message))


def test_a_short_message_is_refused() -> None:
    message = new(True, 1).write(b"")
    for size in range(len(message)):
        with pytest.raises(HandshakeError):
            new(False, 2).read(message[:size])


def test_a_public_key_of_small_order_is_refused() -> None:
    initiator, responder = new(True, 1), new(False, 2)
    responder.read(initiator.write(b""))
    answer = responder.write(b"")
    with pytest.raises(HandshakeError):
        initiator.read(bytes(32) + answer[32:])
