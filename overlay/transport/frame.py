"""The form of a datagram, and the datagrams that are being filled.

    header   version (1 byte), flags (1), length of the whole datagram (2), sender's id (20)
             and in a sealed datagram, see `overlay.transport.seal`: boot number (8), counter (8)
    frames   kind (1), length of the body (2), body; one after the other to the end

A *train* is a run of datagrams in one buffer, as a kernel hands over those that arrived in a row. What
does not have this form is `Dropped` under a reason; the endpoint counts it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from overlay.contact import ID_BYTES, Address, PeerId

VERSION = 2
PLAIN = 0
SEALED = 1

MAX_DATAGRAM = 65_507
"""Bytes: the most that UDP over IPv4 carries in one datagram, or in one train."""

MAX_TRAIN = 64
"""Datagrams in one train: what Linux takes and gives at most."""

MAX_FRAMES = 256
"""Frames in one datagram; it bounds the work that a datagram can cause."""

HEADER_BYTES = 4 + ID_BYTES
FRAME_HEAD_BYTES = 3


class Kind(IntEnum):
    """Which layer a frame is for."""

    DHT = 1
    DATAGRAM = 2
    CHANNEL = 3


class Dropped(Exception):
    """A peer's datagram is not taken; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Envelope(Protocol):
    """How frames are wrapped into datagrams of one sender, and unwrapped from anyone's."""

    overhead: int
    """Bytes that wrapping adds."""

    def wrap(self, frames: Sequence[bytes | memoryview]) -> bytes:
        """The datagram that carries `frames`."""
        ...

    def unwrap(self, datagram: bytes) -> tuple[bytes, bytes, int]:
        """The sender's id, and a buffer with the offset at which its frames begin, or `Dropped`."""
        ...


class PlainEnvelope:
    """Frames behind a header and nothing else: anyone can read, forge and repeat them."""

    def __init__(self, sender: PeerId) -> None:
        self.overhead = HEADER_BYTES
        self._sender = bytes(sender)

    def wrap(self, frames: Sequence[bytes | memoryview]) -> bytes:
        length = HEADER_BYTES + sum(map(len, frames))
        return b"".join((header(PLAIN, length, self._sender), *frames))

    def unwrap(self, datagram: bytes) -> tuple[bytes, bytes, int]:
        check_header(datagram, PLAIN)
        return datagram[4:HEADER_BYTES], datagram, HEADER_BYTES


_HEADER = struct.Struct(f">BBH{ID_BYTES}s").pack


def header(flags: int, length: int, sender: bytes) -> bytes:
    """The first bytes of a datagram of `length` bytes in all."""
    return _HEADER(VERSION, flags, length, sender)


_PREAMBLES = {flags: bytes((VERSION, flags)) for flags in (PLAIN, SEALED)}


def check_header(datagram: bytes, flags: int) -> None:
    """Raise `Dropped` unless the datagram has our version, these flags and the length that it says."""
    size = len(datagram)
    if datagram[:2] == _PREAMBLES[flags]:
        if size < HEADER_BYTES or datagram[2] << 8 | datagram[3] != size:
            raise Dropped("truncated" if size <= MAX_DATAGRAM else "oversized")
    elif size < 2:
        raise Dropped("truncated")
    elif datagram[0] != VERSION:
        raise Dropped("unknown_version")
    elif datagram[1] == PLAIN:
        raise Dropped("unsealed")
    elif datagram[1] == SEALED:
        raise Dropped("sealed")
    else:
        raise Dropped("unknown_flags")


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


def split_frames(buffer: bytes, start: int) -> list[tuple[int, bytes]]:
    """The kind and body of every frame from `start` on; all of them, or `Dropped`."""
    end = len(buffer)
    if start == end:
        raise Dropped("empty")
    body = start + FRAME_HEAD_BYTES
    if body <= end and buffer[start + 1] << 8 | buffer[start + 2] == end - body:
        return [(buffer[start], buffer[body:])]
    frames: list[tuple[int, bytes]] = []
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


class Batch:
    """The frames of one datagram to be, in pieces."""

    __slots__ = ("frames", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.size = 0
        self.frames = 0


class Outbox:
    """Frames that wait to leave, within a bound, gathered into datagrams by address.

    Frames to one address keep their order; addresses take turns.
    """

    def __init__(self, room: int, limit: int) -> None:
        """`room`: bytes of frames in one datagram; `limit`: bytes of frames in all."""
        self.size = 0
        self._room = room
        self._limit = limit
        self._by_address: dict[Address, deque[Batch]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_address)

    def put(self, to: Address, kind: int, body: Sequence[bytes | memoryview]) -> bool:
        """Queue a frame, whose body is in pieces and fits a datagram.

        False, and nothing queued, when there is no space.
        """
        length = sum(map(len, body))
        size = FRAME_HEAD_BYTES + length
        if self.size + size > self._limit:
            return False
        batches = self._by_address.get(to)
        if batches is None:
            batches = self._by_address[to] = deque((Batch(),))
        batch = batches[-1]
        if batch.size + size > self._room or batch.frames >= MAX_FRAMES:
            batch = Batch()
            batches.append(batch)
        parts = batch.parts
        parts.append(frame_head(kind, length))
        parts += body
        batch.frames += 1
        batch.size += size
        self.size += size
        return True

    def take(self, most: int) -> tuple[Address, list[Batch]]:
        """The next address, and its next datagrams: at most `most`, and all but the last of them full."""
        to = next(iter(self._by_address))
        batches = self._by_address.pop(to)
        train = [batches.popleft()]
        while batches and len(train) < most and train[-1].size == self._room:
            train.append(batches.popleft())
        for batch in train:
            self.size -= batch.size
        if batches:
            self._by_address[to] = batches
        return to, train
