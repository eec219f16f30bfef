"""Headers and frames: they survive, and whatever has another form is dropped under a reason."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.frame import (
    HEADER_BYTES,
    MAX_DATAGRAM,
    PLAIN,
    SEALED,
    VERSION,
    Dropped,
    PlainEnvelope,
    frame_head,
    split_frames,
)

SENDER = PeerId(bytes(range(20)))

frames = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), min_size=1, max_size=8)


def joined(parts: list[tuple[int, bytes]]) -> list[bytes]:
    return [frame_head(kind, len(body)) + body for kind, body in parts]


@given(frames)
def test_frames_survive_a_plain_datagram(parts: list[tuple[int, bytes]]) -> None:
    envelope = PlainEnvelope(SENDER)
    datagram = envelope.wrap(joined(parts))
    sender, buffer, start = envelope.unwrap(datagram)
    assert sender == SENDER
    assert split_frames(buffer, start) == parts
    assert len(datagram) == envelope.overhead + sum(3 + len(body) for _, body in parts)


@given(frames, st.data())
def test_a_datagram_that_was_cut_short_is_dropped(
    parts: list[tuple[int, bytes]], draw: st.DataObject
) -> None:
    whole = b"".join(joined(parts))
    ends = [len(b"".join(joined(parts[:count]))) for count in range(len(parts) + 1)]
    cut = draw.draw(st.integers(0, len(whole) - 1).filter(lambda size: size not in ends))
    with pytest.raises(Dropped, match="truncated"):
        split_frames(whole[:cut], 0)


@given(st.binary(max_size=120))
def test_garbage_is_dropped_or_is_frames(garbage: bytes) -> None:
    with contextlib.suppress(Dropped):
        _, buffer, start = PlainEnvelope(SENDER).unwrap(garbage)
        assert b"".join(joined(split_frames(buffer, start))) == garbage[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "truncated"),
        (bytes([VERSION]), "truncated"),
        (bytes([VERSION, PLAIN]) + SENDER[:19], "truncated"),
        (bytes([VERSION + 1, PLAIN]) + SENDER, "unknown_version"),
        (bytes([VERSION, SEALED]) + SENDER, "sealed"),
        (bytes([VERSION, 2]) + SENDER, "unknown_flags"),
        (bytes([VERSION, PLAIN]) + SENDER + bytes(MAX_DATAGRAM), "oversized"),
    ],
)
def test_what_is_no_plain_datagram_has_a_reason(datagram: bytes, reason: str) -> None:
    with pytest.raises(Dropped, match=reason):
        PlainEnvelope(SENDER).unwrap(datagram)


def test_a_datagram_without_frames_is_dropped() -> None:
    with pytest.raises(Dropped, match="empty"):
        split_frames(b"header", 6)
