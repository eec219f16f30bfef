"""Headers and frames: they survive, and whatever has another form is dropped under a reason."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.channel.packet import PACKET_HEAD, PacketType
from overlay.contact import ANYONE, Contact, PeerId
from overlay.transport.frame import (
    HEADER_BYTES,
    LOST,
    MAX_DATAGRAM,
    MAX_FRAMES,
    MAX_TRAIN,
    PLAIN,
    SEALED,
    UNNAMED,
    UNNAMED_PACKETS,
    VERSION,
    Dropped,
    FrameKind,
    PlainEnvelope,
    frame_head,
    header,
    split_frames,
    split_train,
)

SENDER = PeerId(bytes(range(20)))
SOURCE = ("127.0.0.1", 4000)

frames = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), min_size=1, max_size=8)


class End:
    """This node's end of a channel."""

    def __init__(self, contact: Contact) -> None:
        self.contact = contact


def unnamed(kind: int, packet: int, rest: bytes = b"") -> bytes:
    """A datagram without its sender's id; the first packet is for the session 8."""
    body = PACKET_HEAD.pack(packet, 7, 8)
    return PlainEnvelope(SENDER).wrap([frame_head(kind, len(body)), body, rest], True)


def joined(parts: list[tuple[int, bytes]]) -> list[bytes]:
    return [frame_head(kind, len(body)) + body for kind, body in parts]


@given(frames)
def test_frames_survive_a_plain_datagram(parts: list[tuple[int, bytes]]) -> None:
    envelope = PlainEnvelope(SENDER)
    datagram = envelope.wrap(joined(parts))
    opened = PlainEnvelope(PeerId(bytes(20))).unwrap(datagram, SOURCE)
    assert opened is not None
    sender, buffer, start = opened
    assert sender.id == SENDER
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
        opened = PlainEnvelope(SENDER).unwrap(garbage, SOURCE)
        assert opened is not None
        _, buffer, start = opened
        assert start in (4, HEADER_BYTES)
        assert garbage[start:].startswith(b"".join(joined(split_frames(buffer, start))))


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "truncated"),
        (bytes([VERSION]), "truncated"),
        (header(VERSION, PLAIN, 23, SENDER)[:23], "truncated"),
        (header(VERSION, PLAIN, 25, SENDER), "truncated"),
        (header(VERSION, PLAIN, 24, SENDER) + b"x", "truncated"),
        (bytes([VERSION + 1]) + header(VERSION, PLAIN, 24, SENDER)[1:], "unknown_version"),
        (header(VERSION, SEALED, 24, SENDER), "sealed"),
        (header(VERSION, LOST, 24, SENDER), "sealed"),
        (header(VERSION, UNNAMED, 24, SENDER), "no_sender"),
        (unnamed(FrameKind.CHANNEL, PacketType.OPEN), "no_sender"),
        (unnamed(FrameKind.DATAGRAM, PacketType.ACK), "no_sender"),
        (unnamed(FrameKind.CHANNEL, PacketType.ACK)[:15], "truncated"),
        (unnamed(FrameKind.CHANNEL, PacketType.ACK) + b"x", "truncated"),
        (header(VERSION, UNNAMED + 1, 24, SENDER), "unknown_flags"),
        (header(VERSION, PLAIN, 24, SENDER) + bytes(MAX_DATAGRAM), "oversized"),
    ],
)
def test_what_is_not_a_plain_datagram_has_a_reason(datagram: bytes, reason: str) -> None:
    with pytest.raises(Dropped, match=reason):
        PlainEnvelope(SENDER).unwrap(datagram, SOURCE)


def test_the_session_of_a_channel_tells_the_sender_of_an_unnamed_datagram() -> None:
    peer = Contact(PeerId(bytes(range(1, 21))), *SOURCE)
    envelope = PlainEnvelope(SENDER)
    envelope.channel_sessions = {8: End(peer)}
    behind = frame_head(FrameKind.DATAGRAM, 1) + b"x"
    for packet in UNNAMED_PACKETS:
        datagram = unnamed(FrameKind.CHANNEL, packet, behind)
        # Who knows no session may say so, and does not speak for the peer otherwise, at its address or not.
        knows = packet != PacketType.RESET
        opened = envelope.unwrap(datagram, SOURCE)
        assert opened == (peer, datagram if knows else datagram[: -len(behind)], 4)
        moved = envelope.unwrap(datagram, ("127.0.0.1", 4001))
        assert moved is not None
        assert moved[0] == Contact(peer.id if knows else ANYONE, "127.0.0.1", 4001)
        envelope.channel_sessions, sessions = {}, envelope.channel_sessions
        unknown = envelope.unwrap(datagram, SOURCE)
        envelope.channel_sessions = sessions
        assert unknown == (Contact(ANYONE, *SOURCE), datagram[: -len(behind)], 4)


def test_packets_that_tell_their_sender_are_those_of_a_session_both_ends_know() -> None:
    names = {PacketType(packet).name for packet in UNNAMED_PACKETS}
    assert names == {"RESET", "ACK", "BUNDLE", "FRAGMENT", "REST", "WHERE", "HERE"}


def test_a_datagram_without_frames_is_dropped() -> None:
    with pytest.raises(Dropped, match="empty"):
        split_frames(b"header", 6)


def test_more_frames_than_a_node_puts_into_a_datagram_are_dropped_before_they_are_looked_at() -> (
    None
):
    frame = frame_head(1, 0)
    assert len(split_frames(frame * MAX_FRAMES, 0)) == MAX_FRAMES
    with pytest.raises(Dropped, match="too_many_frames"):
        split_frames(frame * 21_000, 0)


@given(st.lists(frames, min_size=1, max_size=12))
def test_a_train_is_split_into_its_datagrams(trains: list[list[tuple[int, bytes]]]) -> None:
    envelope = PlainEnvelope(SENDER)
    datagrams = [envelope.wrap(joined(parts)) for parts in trains]
    assert list(split_train(b"".join(datagrams))) == datagrams


@given(st.binary(max_size=400))
def test_a_train_of_garbage_loses_no_byte_and_has_a_bounded_number_of_datagrams(
    garbage: bytes,
) -> None:
    for train in (garbage, garbage + header(VERSION, PLAIN, 24, SENDER) * 100):
        datagrams = split_train(train)
        assert b"".join(datagrams) == train
        assert len(datagrams) <= MAX_TRAIN
