"""Events: as an application sees them, and as they travel.

An event is encoded once, by its publisher, into the bytes of an `EventBody`. These bytes travel unchanged to
everyone, inside a `Gossip` that says in which community, and are what a signature covers. So whoever
forwards an event neither decodes its data nor encodes it again, and a duplicate is known by its id before
anything else is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.wire import MAX_NESTING, WireError, decode, encode, message
from pubsub.topic import MAX_LINEAGE, included

DATA_LIMIT = 1024 * 1024
"""The most bytes that an event's data may have as msgpack."""

RUN_BYTES = 8
ID_BYTES = RUN_BYTES + 8


class DataError(UsageError):
    """The data cannot travel in an event: too large, or nothing that msgpack knows."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it is delivered."""

    topic: str
    data: Any
    publisher: PeerId
    sequence: int
    """Counts this publisher's events of this topic in this run of it, from 1."""
    hops: int
    """How many processes handed it on: 0 for one's own event, 1 when it came from its publisher."""
    id: bytes
    """Of its publisher's run (8 bytes) and a counter (8 bytes); never used twice."""
    signed: bool = False
    """Its publisher's signature was there and has been checked."""

    @property
    def run(self) -> bytes:
        """Tells one run of the publisher from another."""
        return self.id[:RUN_BYTES]


@message(0x41)
@dataclass(frozen=True, slots=True)
class EventBody:
    """What the publisher says, and signs when the network asks for it."""

    id: bytes
    topic: str
    lineage: tuple[str, ...]
    """The super-topics of a topic whose path does not tell them."""
    publisher: PeerId
    sequence: int
    upward: float | None
    """The event's own probability of going up to a super-community, in place of g/N."""
    data: bytes
    """The application's data as msgpack."""


@message(0x40)
@dataclass(frozen=True, slots=True)
class Gossip:
    """An event on its way to a member of `community`.

    Id and community come first, so that a duplicate is recognised in the bytes (see `copy_of`)."""

    id: bytes
    community: str
    hops: int
    upward: bool
    """It crosses from a community to its super-community."""
    body: bytes
    signature: bytes


GOSSIP_PREFIX = b"\x97\x40\xc4\x10"
"""How every `Gossip` begins on the wire: an array of seven, the code, and 16 bytes of id."""


def copy_of(encoded: bytes) -> tuple[bytes, bytes]:
    """Id and community of an encoded `Gossip` that begins with the prefix; the community as UTF-8.

    Bytes that only begin like one give some other pair, or one that is too short; they do no harm."""
    head = encoded[20:22]
    if head and head[0] < 0xC0:
        return encoded[4:20], encoded[21 : 21 + (head[0] & 0x1F)]
    return encoded[4:20], encoded[22 : 22 + head[-1]] if head else b""


def pack_data(data: Any) -> bytes:
    """The data as msgpack; `DataError` when it cannot be, or is larger than `DATA_LIMIT`."""
    try:
        packed: bytes = msgpack.packb(data, use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"the data cannot travel as msgpack: {error}") from None
    if len(packed) > DATA_LIMIT:
        raise DataError(
            f"the data has {len(packed)} bytes as msgpack, and {DATA_LIMIT} is the limit of an event"
        )
    if _depth(data) > MAX_NESTING:
        raise DataError(f"the data nests deeper than {MAX_NESTING}, the limit of an event")
    return packed


def unpack_data(packed: bytes) -> Any:
    """The data that `pack_data` gave, tuples as lists; `WireError` for anything else."""
    size = len(packed)
    try:
        data = msgpack.unpackb(
            packed,
            raw=False,
            strict_map_key=False,
            max_array_len=size,
            max_map_len=size,
            max_str_len=size,
            max_bin_len=size,
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        raise WireError("malformed_data") from None
    if _depth(data) > MAX_NESTING:
        raise WireError("malformed_data")
    return data


def pack_body(body: EventBody) -> bytes:
    return encode(body)


def unpack_body(gossip: Gossip) -> EventBody:
    """The body inside; `WireError` unless it is one that may be in the community it came to."""
    body = decode(gossip.body)
    if type(body) is not EventBody or body.id != gossip.id or len(body.id) != ID_BYTES:
        raise WireError("malformed_event")
    if len(body.data) > DATA_LIMIT or len(body.lineage) > MAX_LINEAGE or gossip.hops < 0:
        raise WireError("malformed_event")
    if not included(gossip.community, body.topic, body.lineage):
        raise WireError("wrong_community")
    return body


def _depth(data: Any) -> int:
    """How deep lists and maps nest, as far as one level beyond what is allowed."""
    if not isinstance(data, (list, tuple, dict)):
        return 0
    level, depth = [data], 0
    while level and depth <= MAX_NESTING + 1:
        level = [
            item
            for value in level
            if isinstance(value, (list, tuple, dict))
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        depth += 1
    return depth - 1
