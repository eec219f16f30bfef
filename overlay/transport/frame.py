"""The form of a datagram, and the datagrams that are being filled.

    header   version (1 byte), flags (1), length of the whole datagram (2), sender's id (20);
             in a sealed datagram, the session's index and a counter in place of the id: `overlay.session`
    frames   kind (1), length of the body (2), body; one after the other to the end

An *unnamed* datagram has no id: its first frame is a packet of a channel (`UNNAMED_PACKETS`), and who has the
session that the packet names knows the sender. A RESET travels alone in such a datagram: it may come from
another process at the peer's address, which knows no session.

A *train* is a run of datagrams in one buffer, as a kernel hands over those that arrived in a row. What
does not have this form is `Dropped` under a reason; the endpoint counts it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

from overlay.contact import ANYONE, ID_BYTES, Address, Contact, PeerId
from overlay.transport.address import sender_contact

VERSION = 4
PLAIN, SEALED, OPENING, ANSWER, COOKIE, LOST, UNNAMED = range(7)
"""The flags of a datagram: frames as they are, frames of a session, what sessions say outside of them, and
frames as they are of a sender that is not named."""

MAX_DATAGRAM = 65_507
"""Bytes: the most that UDP over IPv4 carries in one datagram, or in one train."""

MAX_TRAIN = 64
"""Datagrams in one train: what Linux takes and gives at most."""

MAX_FRAMES = 256
"""Frames in one datagram; it bounds the work that a datagram can cause."""

UNNAMED_BYTES = 4
HEADER_BYTES = UNNAMED_BYTES + ID_BYTES
FRAME_HEAD_BYTES = 3

RESET_PACKET = 4
UNNAMED_PACKETS = frozenset((RESET_PACKET, 5, 7, 8, 9, 10, 11))
"""The first byte of channels' packets whose sender need not be named (RESET, ACK, BUNDLE, FRAGMENT, REST,
WHERE, HERE of `overlay.channel.packet`); the sender's session (4 bytes) and the receiver's (4) follow. What
answers one of these is not larger: RESET, WHERE and HERE are among them."""


Buffer = bytes | memoryview
"""Bytes, or a part of the bytes of a datagram that was not copied."""


class FrameKind(IntEnum):
    """Which layer a frame is for."""

    DHT = 1
    DATAGRAM = 2
    CHANNEL = 3
    PROBE = 4


class Dropped(Exception):
    """A peer's datagram is not taken; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Wrap(Protocol):
    """Makes a datagram of frames."""

    def __call__(self, frames: Sequence[Buffer], is_unnamed: bool = False, /) -> bytes:
        """`is_unnamed`: the first of them `tells_sender`."""
        ...


Destination = Contact | Address
"""A peer at an address, or any peer that is at an address."""


class SessionEnd(Protocol):
    """This node's end of a channel."""

    contact: Contact
    """The peer, at the address that it was last heard from."""


class Envelope(Protocol):
    """How frames are wrapped into datagrams of one sender, and unwrapped from anyone's."""

    overhead: int
    """Bytes that wrapping adds."""

    unnamed_overhead: int
    """The same where the first frame is one of `UNNAMED_PACKETS`."""

    channel_sessions: Mapping[int, SessionEnd]
    """The channels of this node by the number of their session."""

    everyone: Wrap | None
    """How to wrap frames whoever they go to; None where that depends on who it is."""

    def towards(self, to: Destination) -> Wrap | None:
        """How to wrap frames that go there; None when they have to wait (`hold`)."""
        ...

    def hold(self, to: Destination, batches: list[FrameBatch]) -> None:
        """Keep frames that go there until they can be wrapped."""
        ...

    def unwrap(self, datagram: bytes, source: tuple[Any, ...]) -> tuple[Contact, bytes, int] | None:
        """The sender, and a buffer with the offset at which its frames begin, or `Dropped`.

        None for a datagram that has no frames and is dealt with."""
        ...

    def close(self) -> None:
        """Stop; what is held is dropped."""
        ...


class PlainEnvelope:
    """Frames behind a header and nothing else: anyone can read, forge and repeat them."""

    def __init__(self, sender: PeerId) -> None:
        self.overhead = HEADER_BYTES
        self.unnamed_overhead = UNNAMED_BYTES
        self.channel_sessions: Mapping[int, SessionEnd] = {}
        self.everyone: Wrap | None = self.wrap
        self._sender = bytes(sender)

    def towards(self, to: Destination) -> Wrap | None:
        return self.everyone

    def hold(self, to: Destination, batches: list[FrameBatch]) -> None:
        raise AssertionError("plain frames never wait: there is always a wrap for them")

    def wrap(self, frames: Sequence[Buffer], is_unnamed: bool = False) -> bytes:
        size = sum(map(len, frames))
        if is_unnamed:
            return b"".join((unnamed_header(VERSION, UNNAMED, UNNAMED_BYTES + size), *frames))
        return b"".join((header(VERSION, PLAIN, HEADER_BYTES + size, self._sender), *frames))

    def unwrap(self, datagram: bytes, source: tuple[Any, ...]) -> tuple[Contact, bytes, int] | None:
        size = len(datagram)
        if datagram[:2] != _UNNAMED_PREAMBLE:
            return self._unwrap_named(datagram, size, source)
        if size < _LEAST_UNNAMED or datagram[2] << 8 | datagram[3] != size:
            raise Dropped("truncated")
        kind, length, packet, _, session = _first_packet(datagram, UNNAMED_BYTES)
        if kind != _CHANNEL or packet not in UNNAMED_PACKETS:
            raise Dropped("no_sender")
        end = self.channel_sessions.get(session)
        sender = ANYONE
        if end is not None:
            contact = end.contact
            is_there = source[1] == contact.port and source[0] == contact.host
            if is_there and packet != RESET_PACKET:
                return contact, datagram, UNNAMED_BYTES
            # Another process may have been asked whether the peer is at its address: it knows no session.
            if is_there or packet != RESET_PACKET:
                sender = contact.id
        if sender == ANYONE or packet == RESET_PACKET:  # whose is what comes behind the packet?
            datagram = datagram[: UNNAMED_BYTES + FRAME_HEAD_BYTES + length]
        return _from(sender, source), datagram, UNNAMED_BYTES

    def _unwrap_named(
        self, datagram: bytes, size: int, source: tuple[Any, ...]
    ) -> tuple[Contact, bytes, int]:
        if (
            size < HEADER_BYTES
            or datagram[:2] != _PREAMBLE
            or datagram[2] << 8 | datagram[3] != size
        ):
            check_plain_header(datagram)
        sender = datagram[4:HEADER_BYTES]
        if sender == self._sender:
            raise Dropped("from_self")
        return _from(sender, source), datagram, HEADER_BYTES

    def close(self) -> None: ...


def _from(sender: bytes, source: tuple[Any, ...]) -> Contact:
    contact = sender_contact(bytes(sender), source)
    if contact is None:
        raise Dropped("bad_source")
    return contact


header = struct.Struct(f">BBH{ID_BYTES}s").pack
"""`header(version, flags, length, sender)`: the first bytes of a datagram of `length` bytes in all."""

unnamed_header = struct.Struct(">BBH").pack
"""`unnamed_header(version, flags, length)`: the same where the sender is not named."""

_PREAMBLE = bytes((VERSION, PLAIN))
_UNNAMED_PREAMBLE = bytes((VERSION, UNNAMED))
_first_packet = struct.Struct(">BHBII").unpack_from
"""The first frame of an unnamed datagram: kind, length; type of the packet, both sessions."""
_LEAST_UNNAMED = UNNAMED_BYTES + struct.calcsize(">BHBII")
_CHANNEL = int(FrameKind.CHANNEL)


def tells_sender(kind: int, body: Sequence[Buffer]) -> bool:
    """Whether a datagram that begins with this frame, whose body is in pieces, need not name its sender."""
    return kind == _CHANNEL and len(body[0]) > 0 and body[0][0] in UNNAMED_PACKETS


def check_plain_header(datagram: bytes) -> None:
    """Raise `Dropped` unless the datagram has our version, is plain and has the length that it says."""
    size = len(datagram)
    if datagram[:2] == _PREAMBLE:
        if size < HEADER_BYTES or datagram[2] << 8 | datagram[3] != size:
            raise Dropped("truncated" if size <= MAX_DATAGRAM else "oversized")
    elif size < 2:
        raise Dropped("truncated")
    elif datagram[0] != VERSION:
        raise Dropped("unknown_version")
    else:
        raise Dropped("sealed" if datagram[1] <= LOST else "unknown_flags")


def frames_at(datagram: bytes) -> int:
    """Where the frames of a plain datagram begin."""
    return UNNAMED_BYTES if datagram[:2] == _UNNAMED_PREAMBLE else HEADER_BYTES


def split_train(train: bytes) -> Sequence[bytes]:
    """The datagrams of a train, by the lengths that they say; what says no length that fits is the last."""
    size = len(train)
    if size < HEADER_BYTES or train[2] << 8 | train[3] == size:
        return (train,)
    datagrams: list[bytes] = []
    start = 0
    while len(datagrams) < MAX_TRAIN - 1 and size - start > HEADER_BYTES:
        length = train[start + 2] << 8 | train[start + 3]
        if length < HEADER_BYTES or length >= size - start:
            break
        datagrams.append(train[start : start + length])
        start += length
    datagrams.append(train[start:])
    return datagrams


frame_head = struct.Struct(">BH").pack
"""`frame_head(kind, length)`: the bytes in front of a frame's body."""


def split_frames(buffer: Buffer, start: int) -> list[tuple[int, Buffer]]:
    """The kind and body of every frame from `start` on; all of them, or `Dropped`.

    The bodies are slices of the buffer: of a memoryview, they are not copied."""
    end = len(buffer)
    if start == end:
        raise Dropped("empty")
    body = start + FRAME_HEAD_BYTES
    if body <= end and buffer[start + 1] << 8 | buffer[start + 2] == end - body:
        return [(buffer[start], buffer[body:])]
    frames: list[tuple[int, Buffer]] = []
    while start < end:
        body = start + FRAME_HEAD_BYTES
        if body > end:
            raise Dropped("truncated")
        kind = buffer[start]
        start = body + (buffer[start + 1] << 8 | buffer[start + 2])
        if start > end:
            raise Dropped("truncated")
        frames.append((kind, buffer[body:start]))
        if len(frames) > MAX_FRAMES:
            raise Dropped("too_many_frames")
    return frames


class FrameBatch:
    """The frames of one datagram to be, in pieces."""

    __slots__ = ("frames", "is_unnamed", "parts", "room", "size")

    def __init__(self, room: int, is_unnamed: bool = False) -> None:
        self.room = room
        """Bytes of frames that the datagram takes."""
        self.is_unnamed = is_unnamed
        """The datagram does not name its sender."""
        self.parts: list[Buffer] = []
        self.size = 0
        self.frames = 0


class Outbox:
    """Frames that wait to leave, within a bound, gathered into datagrams by destination.

    Frames to one destination keep their order; destinations take turns.
    """

    def __init__(self, room: int, unnamed_room: int, limit: int) -> None:
        """`room`: bytes of frames in one datagram, and in one that does not name its sender; `limit`: bytes
        of frames in all."""
        self.size = 0
        self._room = room
        self._unnamed_room = unnamed_room
        self._limit = limit
        self.waiting: dict[Destination, list[FrameBatch]] = {}
        """By destination; empty when nothing waits."""

    def put(self, to: Destination, kind: int, body: Sequence[Buffer]) -> bool:
        """Queue a frame, whose body is in pieces and fits a datagram.

        False, and nothing queued, when there is no space.
        """
        length = len(body[0]) if len(body) == 1 else sum(map(len, body))
        size = FRAME_HEAD_BYTES + length
        if self.size + size > self._limit:
            return False
        batches = self.waiting.get(to)
        if batches is None:
            batches = self.waiting[to] = []
        if (
            not batches
            or (batch := batches[-1]).size + size > batch.room
            or batch.frames >= MAX_FRAMES
        ):
            is_unnamed = tells_sender(kind, body)
            room = self._unnamed_room if is_unnamed else self._room
            if is_unnamed and body[0][0] == RESET_PACKET:
                # No frame fits behind it, and a datagram that is not full ends its train.
                room = size + 1
            batch = FrameBatch(room, is_unnamed)
            batches.append(batch)
        parts = batch.parts
        parts.append(frame_head(kind, length))
        parts += body
        batch.frames += 1
        batch.size += size
        self.size += size
        return True

    def give_back(self, to: Destination, batches: Sequence[FrameBatch]) -> None:
        """Put what was taken for a destination in front of what waits for it; the limit does not apply."""
        self.waiting.setdefault(to, [])[:0] = batches
        self.size += sum(batch.size for batch in batches)

    def take(self, most: int) -> tuple[Destination, list[FrameBatch]]:
        """The next destination, and its next datagrams: at most `most`, and all but the last of them full."""
        to = next(iter(self.waiting))
        batches = self.waiting.pop(to)
        if len(batches) == 1:
            self.size -= batches[0].size
            return to, batches
        taken = 1
        while (
            taken < min(most, len(batches)) and batches[taken - 1].size == batches[taken - 1].room
        ):
            taken += 1
        train = batches[:taken]
        del batches[:taken]
        for batch in train:
            self.size -= batch.size
        if batches:
            self.waiting[to] = batches
        return to, train
