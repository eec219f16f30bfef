"""The bytes of a channel's packets.

    OPEN, CLOSE, RESET      type, my session, your session (0 in OPEN)
    ACCEPT                  type, my session, your session, my limit
    ACK, PING               type, my session, your session, 0, acknowledgement, limit, selective bits
    BUNDLE, FRAGMENT        the same with a segment's number for the 0, then the segment

*Acknowledgement* is the number of the first segment that has not arrived; bit i of the *selective bits*
(little endian, of a length given in one byte) says that segment acknowledgement + i has. The *limit* is how
many bytes of segments the receiver takes over the whole session.
"""

from __future__ import annotations

import struct
from enum import IntEnum

PACKET_HEAD = struct.Struct("!BQQ")
"""Type, sender's session, receiver's session: the beginning of every packet."""

ACCEPTANCE = struct.Struct("!BQQQ")
"""A packet head and the sender's limit."""

PROGRESS = struct.Struct("!BQQQQQB")
"""A packet head, the segment's number, acknowledgement, limit and the length of the selective bits."""

MAX_SELECTIVE_BYTES = 128
"""Bytes of selective bits: enough for every segment that may be in flight."""

LEAST_SELECTIVE_BYTES = 8
"""Bytes of selective bits for which every segment leaves room."""


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


class Refused(Exception):
    """A peer's packet is not taken; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
