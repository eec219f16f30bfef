"""Segments: what is numbered, acknowledged and sent again. A bundle of messages, or a part of a large one.

bundle     count (2 bytes), count lengths (2 each), the messages
fragment   message's number (8), message's length (4), offset (4), the part
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from overlay.channel.protocol.packet import LEAST_SELECTIVE_BYTES, PROGRESS, Refused

BUNDLE_HEAD_BYTES = 2
LENGTH_BYTES = 2
FRAGMENT_HEAD = struct.Struct("!QII")


def segment_room(max_body: int) -> int:
    """Bytes of the largest segment that fits a packet of `max_body` bytes with its head."""
    return max_body - PROGRESS.size - LEAST_SELECTIVE_BYTES


def bundle_room(segment: int) -> int:
    """Bytes of the largest message that travels whole."""
    return segment - BUNDLE_HEAD_BYTES - LENGTH_BYTES


def encode_bundle(messages: Sequence[bytes]) -> bytes:
    count = len(messages)
    return b"".join((_layout(count).pack(count, *map(len, messages)), *messages))


def decode_bundle(segment: bytes) -> list[bytes]:
    """The messages of a bundle; `Refused` unless they fill it exactly."""
    if len(segment) < BUNDLE_HEAD_BYTES:
        raise Refused("malformed")
    layout = _layout(segment[0] << 8 | segment[1])
    start = layout.size
    if start > len(segment):
        raise Refused("malformed")
    messages = []
    for length in layout.unpack_from(segment)[1:]:
        end = start + length
        messages.append(segment[start:end])
        start = end
    if start != len(segment):
        raise Refused("malformed")
    return messages


def encode_fragment(number: int, message: bytes, offset: int, size: int) -> bytes:
    return FRAGMENT_HEAD.pack(number, len(message), offset) + message[offset : offset + size]


def decode_fragment(segment: bytes, max_message: int) -> tuple[int, int, int]:
    """Number and length of the message, and the part's offset; `Refused` unless it fits in the message."""
    if len(segment) <= FRAGMENT_HEAD.size:
        raise Refused("malformed")
    number, length, offset = FRAGMENT_HEAD.unpack_from(segment)
    if length > max_message or offset + len(segment) - FRAGMENT_HEAD.size > length:
        raise Refused("malformed")
    return number, length, offset


@lru_cache(maxsize=1024)
def _layout(count: int) -> struct.Struct:
    """The count and so many lengths."""
    return struct.Struct(f"!{count + 1}H")
