"""The bytes of a channel's packets, and of the segments in them.

    CLOSE, RESET         type, my session, your session
    OPEN                 type, my session, 0, my limit, and zeros, so that no answer is larger
    ACCEPT               type, my session, your session, my limit
    ACK, PING            type, my session, your session, acknowledgement, limit, selective bits to the end
    BUNDLE               type, my session, your session, acknowledgement, segment's number, bundle
    FRAGMENT             the same up to the number; message's length, the part's place in it, part to the end
    REST                 the same up to the number; bytes that the segment had, the part's place, bundle
    WHERE, HERE          type, my session, your session, a number, repeated in the answer

A REST stands for a segment that is to be sent again and of which messages have had their time (see
`overlay.channel.buffer`): it has the segment's number, and the messages that are left. It counts as the
bytes that the segment had. If the segment was a part of a message, the message is withdrawn.

*Acknowledgement* is the number of the first segment that has not arrived; bit i of the *selective bits*
(little endian) says that segment acknowledgement + i has. The *limit* is how many bytes of segments the
receiver takes over the whole session.

Of every number the lowest 32 bits travel, as in TCP: who receives it knows about where it is (`whole`).

A *segment* is what is numbered, acknowledged and sent again: a bundle of messages, or a part of a large one.
A bundle is a count (2 bytes), as many lengths (2 each), and the messages. A full fragment fills its datagram
exactly, so that a run of fragments can leave in one train (see `overlay.transport.udp`).

The parts of a message have segments with consecutive numbers. So a part's *place*, counted from 0, tells
which segments belong together, and where the part goes: all parts but the last, which is marked, are equally
long.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from overlay.transport.frame import Buffer

PACKET_HEAD = struct.Struct("!BII")
"""Type, sender's session, receiver's session: the beginning of every packet."""

OPEN = struct.Struct("!BIII4x")
"""A packet head, the sender's limit, and as many zeros as a PING has more."""

ACCEPTANCE = struct.Struct("!BIII")
"""A packet head and the sender's limit."""

PLACE = struct.Struct("!BIIQ")
"""A packet head and the number of a WHERE or HERE."""

PROGRESS = struct.Struct("!BIIII")
"""A packet head, acknowledgement and limit: ACK and PING, before the selective bits."""

BUNDLE = struct.Struct("!BIIII")
"""A packet head, acknowledgement and the segment's number."""

FRAGMENT = struct.Struct("!BIIIIIH")
"""The same, the length of the message, and the part's place in it, with `LAST_PART` added for the last."""

REST = struct.Struct("!BIIIIIH")
"""A BUNDLE's head, the bytes that the segment had, and the place of the part that the segment was."""

LOW = 2**32 - 1
"""`number & LOW` is what travels of a number."""

HALF = 2**31

LAST_PART = 2**15
"""Added to the place of a message's last part."""

MOST_PARTS = LAST_PART - 1
"""Parts of one message."""

NO_PART = LAST_PART + MOST_PARTS
"""The place in a REST whose segment was a bundle."""

PART_HEAD_BYTES = FRAGMENT.size - BUNDLE.size
"""Bytes of a fragment before its part, which count as bytes of the segment."""

MAX_SELECTIVE_BYTES = 128
"""Bytes of selective bits: enough for every segment that may be in flight."""

BUNDLE_HEAD_BYTES = 2
LENGTH_BYTES = 2

Parts = tuple[Buffer, ...]
"""A packet in pieces, which are copied together only when its datagram is made."""


class PacketType(IntEnum):
    OPEN = 1
    """I have this session; do you hear me?"""
    ACCEPT = 2
    """I hear you, and this is my session."""
    CLOSE = 3
    """I am done and everything of mine has arrived; finish yours and let us dissolve the channel."""
    RESET = 4
    """I know nothing of the session that you address."""
    ACK = 5
    PING = 6
    """An ACK that asks for an ACK."""
    BUNDLE = 7
    FRAGMENT = 8
    REST = 9
    WHERE = 10
    """A packet of our session came from an address that I do not know: do you receive there? The number is
    drawn by chance. Or a probe: nothing was heard for the time-out, how long does an answer take? The number
    counts the probes."""
    HERE = 11
    """The answer to a WHERE."""


class ChannelRefused(Exception):
    """A peer's packet is not taken; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def whole(low: int, near: int) -> int:
    """The number that ends in these 32 bits and is closest to one that it should be near to."""
    return near + ((low - near + HALF) & LOW) - HALF


def segment_room(max_body: int) -> int:
    """Bytes of the largest segment that fits a packet of `max_body` bytes."""
    return max_body - BUNDLE.size


def largest_message(max_body: int) -> int:
    """Bytes of the largest message that can be cut for packets of `max_body` bytes."""
    return MOST_PARTS * (segment_room(max_body) - PART_HEAD_BYTES)


def bundle_room(segment: int) -> int:
    """Bytes of the largest message that travels whole in a segment of this size."""
    return segment - BUNDLE_HEAD_BYTES - LENGTH_BYTES


def encode_bundle(messages: Sequence[bytes]) -> Parts:
    """A bundle in pieces: the messages are not copied."""
    count = len(messages)
    return (bundle_layout(count).pack(count, *map(len, messages)), *messages)


def decode_bundle(segment: Buffer) -> list[Buffer]:
    """The messages of a bundle, as slices of it; `ChannelRefused` unless they fill it exactly."""
    if len(segment) < BUNDLE_HEAD_BYTES:
        raise ChannelRefused("malformed")
    count = segment[0] << 8 | segment[1]
    start = BUNDLE_HEAD_BYTES + LENGTH_BYTES
    if count == 1 and len(segment) >= start:  # as below, and quicker
        if segment[2] << 8 | segment[3] != len(segment) - start:
            raise ChannelRefused("malformed")
        return [segment[start:]]
    layout = bundle_layout(count)
    start = layout.size
    if start > len(segment):
        raise ChannelRefused("malformed")
    messages: list[Buffer] = []
    for length in layout.unpack_from(segment)[1:]:
        end = start + length
        messages.append(segment[start:end])
        start = end
    if start != len(segment):
        raise ChannelRefused("malformed")
    return messages


@lru_cache(maxsize=1024)
def bundle_layout(count: int) -> struct.Struct:
    """The count and this many lengths."""
    return struct.Struct(f"!{count + 1}H")
