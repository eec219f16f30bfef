"""Identities: the id follows from the key, files are private, signatures prove."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.identity import (
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    Identity,
    IdentityError,
    agreement_key_of,
    peer_id_of,
    verify,
)
from overlay.virtual import Network

secrets = st.binary(min_size=32, max_size=32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "identity.pem"


def test_the_id_is_the_head_of_the_public_keys_hash() -> None:
    # The first test vector of RFC 8032, section 7.1.
    identity = Identity(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    assert identity.public_key == bytes.fromhex(
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )
    assert identity.id == PeerId(hashlib.sha256(identity.public_key).digest()[:20])
    assert identity.id == peer_id_of(identity.public_key)
    assert len(identity.public_key) == PUBLIC_KEY_BYTES


@given(secrets)
def test_a_key_and_its_negative_which_sessions_do_not_tell_apart_have_one_id(secret: bytes) -> None:
    key = Identity(secret).public_key
    negative = key[:-1] + bytes((key[-1] ^ 0x80,))
    assert agreement_key_of(negative) == agreement_key_of(key)
    assert peer_id_of(negative) == peer_id_of(key)
    other = bytes((key[0] ^ 1,)) + key[1:]
    assert peer_id_of(other) != peer_id_of(key)


@given(secrets, st.binary(), st.binary())
def test_a_signature_verifies_for_its_key_and_data_alone(
    secret: bytes, data: bytes, other: bytes
) -> None:
    identity = Identity(secret)
    signature = identity.sign(data)
    assert len(signature) == SIGNATURE_BYTES
    assert verify(identity.public_key, data, signature)
    assert verify(identity.public_key, other, signature) is (other == data)
    assert not verify(Identity(bytes(32)).public_key, data, signature) or secret == bytes(32)


@given(st.integers(0, 40), st.integers(0, 70))
def test_keys_and_signatures_of_another_size_do_not_verify(key_size: int, size: int) -> None:
    identity = Identity(bytes(32))
    key, signature = identity.public_key + bytes(8), identity.sign(b"data") + bytes(6)
    is_right = key_size == PUBLIC_KEY_BYTES and size == SIGNATURE_BYTES
    assert verify(key[:key_size], b"data", signature[:size]) is is_right


def test_an_identity_survives_its_file(path: Path) -> None:
    identity = Identity.create()
    identity.save(path)
    assert Identity.load(path) == identity
    assert Identity.load(path).sign(b"data") == identity.sign(b"data")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name], "nothing temporary is left"


def test_a_file_is_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        Identity.create().save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o644, 0o666, 0o610, 0o601])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    Identity.create().save(path)
    path.chmod(mode)
    with pytest.raises(IdentityError, match=f"{mode:04o}.*chmod 600"):
        Identity.load(path)


def test_what_is_no_identity_is_refused(path: Path) -> None:
    with pytest.raises(IdentityError, match="cannot be read"):
        Identity.load(path)
    with pytest.raises(IdentityError, match="cannot be read"):
        Identity.load(path.parent)
    other = X25519PrivateKey.generate()
    for content in (
        b"",
        b"garbage",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(IdentityError, match=path.stem):
            Identity.load(path)


def test_a_save_that_fails_leaves_the_earlier_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = Identity.create()
    identity.save(path)

    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IdentityError, match="cannot be written"):
        Identity.create().save(path)
    assert Identity.load(path) == identity
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(IdentityError, match="cannot be written"):
        identity.save(path.parent / "absent" / "identity.pem")


def test_an_identity_is_created_once_for_a_file(path: Path) -> None:
    created = Identity.load_or_create(path)
    assert Identity.load_or_create(path) == created
    path.chmod(0o644)
    with pytest.raises(IdentityError):
        Identity.load_or_create(path)


def test_identities_are_random_and_on_a_virtual_network_by_seed() -> None:
    async def create() -> tuple[Identity, Identity]:
        return Identity.create(), Identity.create()

    first, again, other = (Network(seed).run(create()) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0] != first[1]
    assert Identity.create() != Identity.create()


def test_nothing_secret_is_printed() -> None:
    secret = bytes(range(32))
    assert secret.hex() not in repr(Identity(secret))
    assert repr(secret) not in repr(Identity(secret))
