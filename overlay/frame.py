"""The outside of a datagram: a header, then frames.

    header   version (1 byte), flags (1), sender's id (20)
             and in a sealed datagram, see `overlay.seal`: boot number (8), counter (8)
    frames   kind (1), length of the body (2), body; one after the other to the end

Whatever does not have this form is `Dropped` under one of the reasons below; the endpoint counts it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from overlay.contact import ID_BYTES, PeerId

VERSION = 1
PLAIN = 0
SEALED = 1

MAX_DATAGRAM = 65_507
"""Bytes: the most that UDP over IPv4 carries in one datagram."""

HEADER_BYTES = 2 + ID_BYTES
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

    def wrap(self, frames: Iterable[bytes]) -> bytes:
        """The datagram that carries `frames`."""
        ...

    def unwrap(self, datagram: bytes) -> tuple[bytes, bytes, int]:
        """The sender's id, and a buffer with the offset at which its frames begin, or `Dropped`."""
        ...


class PlainEnvelope:
    """Frames behind a header and nothing else: anyone can read, forge and repeat them."""

    def __init__(self, sender: PeerId) -> None:
        self.overhead = HEADER_BYTES
        self._header = preamble(PLAIN) + sender

    def wrap(self, frames: Iterable[bytes]) -> bytes:
        return self._header + b"".join(frames)

    def unwrap(self, datagram: bytes) -> tuple[bytes, bytes, int]:
        check_preamble(datagram, PLAIN)
        if len(datagram) < HEADER_BYTES:
            raise Dropped("truncated")
        return datagram[2:HEADER_BYTES], datagram, HEADER_BYTES


def preamble(flags: int) -> bytes:
    return bytes((VERSION, flags))


_PREAMBLES = {PLAIN: preamble(PLAIN), SEALED: preamble(SEALED)}


def check_preamble(datagram: bytes, flags: int) -> None:
    """Raise `Dropped` unless the datagram has our version, these flags and a bearable size."""
    if len(datagram) > MAX_DATAGRAM:
        raise Dropped("oversized")
    if datagram[:2] == _PREAMBLES[flags]:
        return
    if len(datagram) < 2:
        raise Dropped("truncated")
    if datagram[0] != VERSION:
        raise Dropped("unknown_version")
    if datagram[1] == PLAIN:
        raise Dropped("unsealed")
    if datagram[1] == SEALED:
        raise Dropped("sealed")
    raise Dropped("unknown_flags")


frame_head = struct.Struct(">BH").pack
"""`frame_head(kind, length)`: the bytes in front of a frame's body."""


def split_frames(buffer: bytes, start: int) -> list[tuple[int, bytes]]:
    """The kind and body of every frame from `start` on; all of them, or `Dropped`."""
    end = len(buffer)
    if start == end:
        raise Dropped("empty")
    frames = []
    while start < end:
        body = start + FRAME_HEAD_BYTES
        if body > end:
            raise Dropped("truncated")
        kind = buffer[start]
        start = body + (buffer[start + 1] << 8 | buffer[start + 2])
        if start > end:
            raise Dropped("truncated")
        frames.append((kind, buffer[body:start]))
    return frames
