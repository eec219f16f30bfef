"""A socket filter by which Linux drops a flood before it is received: a classic BPF program.

The program looks at the source address in the IP header, at the source port, and at the four bytes with which
a sealed datagram names its session; see `overlay.transport.guard` for what is let through. It runs in the
context of whoever delivers the datagram, so a flood costs this process nothing.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

from overlay.transport.guard import Refusal

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27

MAX_INSTRUCTIONS = 4096
"""What Linux takes."""

# From linux/bpf_common.h and linux/filter.h.
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30
_JUMP, _JUMP_IF_EQUAL = 0x05, 0x15
_AND, _SHIFT_RIGHT = 0x54, 0x74
_RETURN = 0x06
_IP_HEADER = 0xFFF00000
_RANDOM = 0xFFFFF000 + 56

_SOURCE_PORT = 0
_INDEX = 8 + 4
"""Behind the UDP header of 8 bytes: the index of a session, in a sealed datagram."""

_TAKE, _DROP = 0xFFFFFFFF, 0

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip if true, if false, operand."""

TAKE: Instruction = (_RETURN, 0, 0, _TAKE)


def program(refusal: Refusal) -> bytes:
    """The filter for a refusal, as an array of `struct sock_filter`."""
    rest = [*_friends(refusal), *_sample(refusal.sample)]
    blocks = [ipaddress.ip_network(block) for block in refusal.blocks]
    four = _blocks_of_four(block for block in blocks if block.version == 4)
    six = _blocks_of_six(block for block in blocks if block.version == 6)
    begin: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _IP_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_JUMP_IF_EQUAL, 1, 0, 4),
        (_JUMP, 0, 0, len(four) + 1),
        *four,
        TAKE,
        *six,
        TAKE,
    ]
    # Each check of a block ends with a jump to what follows all of them.
    for at, (code, _, _, operand) in enumerate(begin):
        if code == _JUMP and operand == 0:
            begin[at] = (_JUMP, 0, 0, len(begin) - at - 1)
    whole = begin + rest
    assert len(whole) <= MAX_INSTRUCTIONS
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in whole)


def _blocks_of_four(
    blocks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network],
) -> list[Instruction]:
    found: list[Instruction] = []
    for block in blocks:
        found += [
            (_LOAD_WORD, 0, 0, _IP_HEADER + 12),
            (_AND, 0, 0, int(block.netmask)),
            (_JUMP_IF_EQUAL, 0, 1, int(block.network_address)),
            (_JUMP, 0, 0, 0),
        ]
    return found


def _blocks_of_six(
    blocks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network],
) -> list[Instruction]:
    """The first half of the address; a block is a /64, or one address of loopback."""
    found: list[Instruction] = []
    for block in blocks:
        first = int(block.network_address) >> 64
        found += [
            (_LOAD_WORD, 0, 0, _IP_HEADER + 8),
            (_JUMP_IF_EQUAL, 0, 3, first >> 32),
            (_LOAD_WORD, 0, 0, _IP_HEADER + 12),
            (_JUMP_IF_EQUAL, 0, 1, first & 0xFFFFFFFF),
            (_JUMP, 0, 0, 0),
        ]
    return found


def _friends(refusal: Refusal) -> list[Instruction]:
    """Take what has the port, and names the session, of a friend; the guard looks at the host later."""
    by_port: dict[int, set[int | None]] = {}
    for friend in refusal.friends:
        by_port.setdefault(friend.port, set()).add(friend.session)
    found: list[Instruction] = [(_LOAD_HALF, 0, 0, _SOURCE_PORT)]
    for port, indexes in by_port.items():
        if None in indexes:
            found += [(_JUMP_IF_EQUAL, 0, 1, port), TAKE]
            continue
        checks: list[Instruction] = [(_LOAD_WORD, 0, 0, _INDEX)]
        for index in indexes:
            checks += [(_JUMP_IF_EQUAL, 0, 1, index or 0), TAKE]
        checks.append((_LOAD_HALF, 0, 0, _SOURCE_PORT))
        found += [(_JUMP_IF_EQUAL, 1, 0, port), (_JUMP, 0, 0, len(checks)), *checks]
    return found


def _sample(one_of: int) -> list[Instruction]:
    return [
        (_LOAD_WORD, 0, 0, _RANDOM),
        (_AND, 0, 0, one_of - 1),
        (_JUMP_IF_EQUAL, 0, 1, 0),
        TAKE,
        (_RETURN, 0, 0, _DROP),
    ]
