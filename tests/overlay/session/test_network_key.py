"""Network keys: their form, and what each key of a ring can and cannot check."""

from __future__ import annotations

import pytest

from overlay.session import NetworkKeyError, check_keys, new_key, parse_key
from overlay.session.network_key import NetworkKey, ring_of
from tests.overlay.session.world import KEY, OTHER_KEY


def test_a_key_survives_its_printed_form() -> None:
    key = new_key()
    assert parse_key(f" {key.hex()}\n") == key
    assert new_key() != key


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "ключ"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NetworkKeyError, match="camcast key new"):
        parse_key(text)


def test_a_ring_holds_keys_and_each_once() -> None:
    assert check_keys([KEY, OTHER_KEY]) == (KEY, OTHER_KEY)
    for ring in ([KEY[:31]], [KEY + b"x"], [KEY.hex()], [KEY, KEY]):
        with pytest.raises(NetworkKeyError):
            check_keys(ring)  # type: ignore[arg-type]
    with pytest.raises(NetworkKeyError):
        ring_of(())


def test_only_holders_of_a_key_make_its_macs_and_read_its_cookies() -> None:
    own, other = NetworkKey(KEY), NetworkKey(OTHER_KEY)
    assert own.made(own.mac(b"data"), b"data")
    assert not own.made(own.mac(b"data"), b"other data")
    assert not other.made(own.mac(b"data"), b"data")
    hidden = own.hide(b"cookie", bytes(12), b"about")
    assert own.show(hidden, bytes(12), b"about") == b"cookie"
    assert own.show(hidden, bytes(12), b"something else") is None
    assert other.show(hidden, bytes(12), b"about") is None
