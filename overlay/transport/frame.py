"""The form of a datagram, and the datagrams that are being filled.

    header   version (1 byte), flags (1), length of the whole datagram (2), sender's id (20);
             in a sealed datagram, the session's index and a counter in place of the id: `overlay.session`
    frames   kind (1), length of the body (2), body; one after the other to the end

A *train* is a run of datagrams in one buffer, as a kernel hands over those that arrived in a row. What
does not have this form is `Dropped` under a reason; the endpoint counts it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Protocol

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.transport.address import sender_contact

VERSION = 3
PLAIN, SEALED, OPENING, ANSWER, COOKIE, LOST = range(6)
"""The flags of a datagram: frames as they are, frames of a session, and what sessions say outside of them."""

MAX_DATAGRAM = 65_507
"""Bytes: the most that UDP over IPv4 carries in one datagram, or in one train."""

MAX_TRAIN = 64
"""Datagrams in one train: what Linux takes and gives at most."""

MAX_FRAMES = 256
"""Frames in one datagram; it bounds the work that a datagram can cause."""

HEADER_BYTES = 4 + ID_BYTES
FRAME_HEAD_BYTES = 3


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


Wrap = Callable[[Sequence[Buffer]], bytes]
"""Makes a datagram of frames."""

Destination = Contact | Address
"""A peer at an address, or any peer that is at an address."""


class Envelope(Protocol):
    """How frames are wrapped into datagrams of one sender, and unwrapped from anyone's."""

    overhead: int
    """Bytes that wrapping adds."""

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
        self.everyone: Wrap | None = self.wrap
        self._sender = bytes(sender)

    def towards(self, to: Destination) -> Wrap | None:
        return self.everyone

    def hold(self, to: Destination, batches: list[FrameBatch]) -> None:
        raise AssertionError("plain frames never wait: there is always a wrap for them")

    def wrap(self, frames: Sequence[Buffer]) -> bytes:
        length = HEADER_BYTES + sum(map(len, frames))
        return b"".join((header(VERSION, PLAIN, length, self._sender), *frames))

    def unwrap(self, datagram: bytes, source: tuple[Any, ...]) -> tuple[Contact, bytes, int] | None:
        size = len(datagram)
        if (
            size < HEADER_BYTES
            or datagram[:2] != _PREAMBLE
            or datagram[2] << 8 | datagram[3] != size
        ):
            check_plain_header(datagram)
        sender = datagram[4:HEADER_BYTES]
        if sender == self._sender:
            raise Dropped("from_self")
        contact = sender_contact(sender, source)
        if contact is None:
            raise Dropped("bad_source")
        return contact, datagram, HEADER_BYTES

    def close(self) -> None: ...


header = struct.Struct(f">BBH{ID_BYTES}s").pack
"""`header(version, flags, length, sender)`: the first bytes of a datagram of `length` bytes in all."""

_PREAMBLE = bytes((VERSION, PLAIN))


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

    __slots__ = ("frames", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.size = 0
        self.frames = 0


class Outbox:
    """Frames that wait to leave, within a bound, gathered into datagrams by destination.

    Frames to one destination keep their order; destinations take turns.
    """

    def __init__(self, room: int, limit: int) -> None:
        """`room`: bytes of frames in one datagram; `limit`: bytes of frames in all."""
        self.size = 0
        self._room = room
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
            batches = self.waiting[to] = [FrameBatch()]
        batch = batches[-1]
        if batch.size + size > self._room or batch.frames >= MAX_FRAMES:
            batch = FrameBatch()
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
        while taken < min(most, len(batches)) and batches[taken - 1].size == self._room:
            taken += 1
        train = batches[:taken]
        del batches[:taken]
        for batch in train:
            self.size -= batch.size
        if batches:
            self.waiting[to] = batches
        return to, train
