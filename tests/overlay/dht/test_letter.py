"""A letter survives the way; anything else is a WireError."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.dht.messages import (
    CHALLENGE_BYTES,
    NUMBER_BYTES,
    PROOF_BYTES,
    TOKEN_BYTES,
    Letter,
    unpack_letter,
)
from overlay.wire import WireError

letters = st.builds(
    Letter,
    is_reply=st.booleans(),
    from_light=st.booleans(),
    attempt=st.integers(0, 255),
    number=st.binary(min_size=NUMBER_BYTES, max_size=NUMBER_BYTES),
    challenge=st.none() | st.binary(min_size=CHALLENGE_BYTES, max_size=CHALLENGE_BYTES),
    proof=st.none() | st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES),
    payload=st.binary(max_size=50),
    token=st.none() | st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES),
    padding=st.integers(0, 1200),
)


@given(letters)
def test_a_letter_survives_the_way(letter: Letter) -> None:
    assert unpack_letter(letter.packed()) == letter


@given(st.binary(max_size=200))
def test_any_bytes_are_a_letter_or_a_wire_error(body: bytes) -> None:
    with contextlib.suppress(WireError):
        assert unpack_letter(body).packed() == body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(9),
        b"\x04" + bytes(20),
        b"\x08" + bytes(80),
        b"\x10" + bytes(10),
        b"\x20" + bytes(11),
        b"\x20" + bytes(9) + b"\0\0",
        b"\x20" + bytes(9) + b"\0\x01\x01",
        b"\x40" + bytes(30),
    ],
)
def test_truncated_letters_and_unknown_flags_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        unpack_letter(body)
