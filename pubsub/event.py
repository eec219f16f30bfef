"""Events: as an application sees them, and as they travel, in blocks.

A *block* holds consecutive events of one publisher's run on one topic: one head, one signature where the
network signs, and the events' data behind the head. Its publisher encodes it once, out of what was published
within one turn of the event loop. The bytes travel unchanged to everyone: a process that forwards a block
neither decodes the data nor encodes the block again. An event that is published alone is a block of one.

A *run* is one stretch of a publisher's events of one topic, numbered from 1 without a gap; it has a random
name of 8 bytes. A *source* is a publisher's id and the name of a run. The id of an event is the run's name
and the event's number, so a block names all of its events by its source, the first number and their count.
These are the first bytes of a block: a duplicate is known before anything else is looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count, repeat
from typing import Any, NamedTuple

from overlay import limited_msgpack
from overlay.contact import ID_BYTES as PEER_ID_BYTES
from overlay.contact import PeerId
from overlay.transport.frame import Buffer
from overlay.wire import Form, WireError, message
from pubsub.data import DATA_LIMIT, MALFORMED, PLAIN, check_or_malformed, unpack_or_malformed
from pubsub.topic import MAX_LINEAGE, included

MOST_EVENTS = 4096
"""The most events of one block."""

RUN_BYTES = 8
NUMBER_BYTES = 8
ID_BYTES = RUN_BYTES + NUMBER_BYTES
SOURCE_BYTES = PEER_ID_BYTES + RUN_BYTES

LAST_NUMBER = 2**63 - 1
"""The largest number of an event."""

TRACE_BYTES = 25
"""What travels of a trace: the trace's id (16 bytes), the publisher's span (8) and flags (1), as W3C says."""

MOST_HOPS = 255
"""Hops are counted up to this number and no further."""


class Origin(NamedTuple):
    """What the events of one batch have in common."""

    topic: str
    publisher: PeerId
    run: bytes
    hops: int = 0
    signed: bool = False
    trace: bytes = b""
    """The span in which they were published, `TRACE_BYTES` or none."""


class Event:
    """An event as it is delivered; not to be changed."""

    # One is made for every delivery: what the events of a batch have in common is not copied into each.
    __slots__ = ("data", "origin", "sequence")

    def __init__(self, origin: Origin, data: Any, sequence: int) -> None:
        self.origin = origin
        """What it has in common with other events of its batch; see the properties below."""
        self.data = data
        self.sequence = sequence
        """Counts the publisher's events of this topic in this run, from 1."""

    @property
    def topic(self) -> str:
        return self.origin.topic

    @property
    def publisher(self) -> PeerId:
        return self.origin.publisher

    @property
    def run(self) -> bytes:
        """Tells one run of the publisher on this topic from another."""
        return self.origin.run

    @property
    def hops(self) -> int:
        """How many processes handed it on: 0 for one's own event, 1 when it came from its publisher."""
        return self.origin.hops

    @property
    def signed(self) -> bool:
        """Its publisher's signature was there and has been checked."""
        return self.origin.signed

    @property
    def traceparent(self) -> str | None:
        """The span in which it was published, as a header of W3C Trace Context; None where none travelled."""
        trace = self.origin.trace.hex()
        return f"00-{trace[:32]}-{trace[32:48]}-{trace[48:]}" if trace else None

    @property
    def id(self) -> bytes:
        """The run (8 bytes) and the number in it (8 bytes); never used twice."""
        return self.origin.run + self.sequence.to_bytes(NUMBER_BYTES, "big")

    def _fields(self) -> dict[str, Any]:
        topic, publisher, run, hops, signed, _ = self.origin
        return {
            "topic": topic,
            "data": self.data,
            "publisher": publisher,
            "run": run,
            "sequence": self.sequence,
            "hops": hops,
            "signed": signed,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event) or type(other) is not type(self):
            return False
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.origin.publisher, self.origin.run, self.sequence))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields().items())
        return f"{type(self).__name__}({fields})"


class Batch:
    """Consecutive events of one source, decoded and ready to be delivered."""

    __slots__ = ("data", "first", "origin")

    def __init__(self, origin: Origin, first: int, data: Sequence[Any]) -> None:
        self.origin = origin
        self.first = first
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    @property
    def topic(self) -> str:
        return self.origin.topic

    @property
    def source(self) -> bytes:
        return self.origin.publisher + self.origin.run

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.data))

    def part(self, start: int, stop: int) -> Batch:
        """The events at these places, counted from 0."""
        if start == 0 and stop == len(self.data):
            return self
        return Batch(self.origin, self.first + start, self.data[start:stop])

    def events(self, data: Iterator[Any] | None = None) -> Iterator[Event]:
        """The events, each made when it is asked for; `data`: the iterator over their data to take."""
        data = iter(self.data) if data is None else data
        return map(Event, repeat(self.origin), data, count(self.first))


class Block:
    """What a publisher says in one block, and the bytes in which it says so."""

    __slots__ = (
        "count",
        "data_at",
        "eager",
        "encoded",
        "first",
        "lineage",
        "publisher",
        "signature",
        "source",
        "topic",
        "trace",
        "upward",
    )

    def __init__(
        self,
        encoded: bytes,
        signature: bytes,
        source: bytes,
        first: int,
        count: int,
        topic: str,
        lineage: tuple[str, ...],
        upward: float | None,
        eager: bool,
        trace: bytes,
        data_at: int,
    ) -> None:
        self.encoded = encoded
        self.signature = signature
        """The publisher's key, its signature of `encoded` and its right, or empty (`pubsub.validation`)."""
        self.source = source
        self.publisher = _peer_id(source[:PEER_ID_BYTES])
        self.first = first
        self.count = count
        self.topic = topic
        self.lineage = lineage
        """The super-topics of a topic whose path does not tell them."""
        self.upward = upward
        """The block's own probability of going up to a super-community, in place of g/N."""
        self.eager = eager
        """Every copy carries the block. If not, members that likely have it are only told its numbers."""
        self.trace = trace
        """The span in which it was published, or none."""
        self.data_at = data_at
        """Where the events' data begin in `encoded`."""

    @property
    def run(self) -> bytes:
        return self.source[PEER_ID_BYTES:]

    @property
    def id(self) -> bytes:
        """The id of the first event."""
        return self.encoded[ID_PLACE]

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)

    def data(self) -> tuple[Sequence[Any], bool]:
        """What each event carries, tuples as lists, and whether all of it can be read.

        `MALFORMED` stands for what cannot be read."""
        try:
            values = limited_msgpack.unpack_walked(memoryview(self.encoded)[self.data_at :])
        except WireError:
            result = [unpack_or_malformed(payload) for payload in self.payloads()]
            return result, False
        if PLAIN.issuperset(map(type, values)):
            return values, True
        result = [check_or_malformed(value) for value in values]
        return result, not any(value is MALFORMED for value in result)

    def batch(self, hops: int, signed: bool) -> tuple[Batch, bool]:
        """All events, decoded, and whether the data of all of them can be read (see `data`)."""
        data, all_readable = self.data()
        run = self.source[PEER_ID_BYTES:]
        origin = _origin(self.topic, self.publisher, run, hops, signed, self.trace)
        return Batch(origin, self.first, data), all_readable

    def payloads(self) -> list[bytes]:
        """The data of each event as it was packed."""
        start = self.data_at + ARRAY_HEAD_BYTES
        ends = limited_msgpack.ends(memoryview(self.encoded)[start:])
        starts = [0, *ends[:-1]]
        return [self.encoded[start + a : start + b] for a, b in zip(starts, ends, strict=True)]


class Gossip(NamedTuple):
    """One copy of a block, to be sent to a member of `community`."""

    block: Block
    community: str
    hops: int
    upward: bool = False
    """It crosses from a community to its super-community."""
    asked_for: bool = False
    """The member has asked to be sent it."""


# The bytes of a copy: a msgpack array of the code, the head, the signature and the block. Each has its length
# in front, in a fixed number of bytes, so that the block is found without a walk over it.

COPY_CODE = 0x40
_COPY_START = bytes((0x94, COPY_CODE, 0xC5))
_COPY_HEAD_AT = len(_COPY_START) + 2
MOST_HEAD_BYTES = 1024
"""Bytes of a copy's head, which is a topic's name and little else."""


def _write_copy(copy: Copy) -> bytes:
    head = _pack_copy_head(copy.community, copy.upward, copy.hops)
    return _join_copy(head, copy.signature, copy.block)


def _join_copy(head: bytes, signature: bytes, block: bytes) -> bytes:
    return b"".join(
        (head, _BYTES_16(0xC5, len(signature)), signature, _BYTES_32(0xC6, len(block)), block)
    )


@lru_cache(maxsize=1024)
def _pack_copy_head(community: str, upward: bool, hops: int) -> bytes:
    """A copy up to its signature."""
    head = b"".join(map(limited_msgpack.pack, (community, upward, hops)))
    return _COPY_START + len(head).to_bytes(2, "big") + head


@lru_cache(maxsize=1024)
def _read_copy_head(packed: bytes) -> tuple[str, bool, int]:
    values = limited_msgpack.unpack(b"\x93" + packed)
    if tuple(map(type, values)) != (str, bool, int):
        raise WireError("wrong_fields")
    community, upward, hops = values
    return community, upward, hops


def _read_copy(data: Buffer) -> Copy:
    try:
        begin, size = _copy_begin(data)
        signature_at = _COPY_HEAD_AT + size
        mark, signature_size = _copy_signature(data, signature_at)
        block_at = signature_at + 3 + signature_size
        block_mark, block_size = _copy_block(data, block_at)
    except struct.error:  # it ends before
        raise WireError("malformed") from None
    start = block_at + 5
    if (
        begin != _COPY_START
        or size > MOST_HEAD_BYTES
        or mark != 0xC5
        or block_mark != 0xC6
        or block_size != len(data) - start
    ):
        raise WireError("malformed")
    community, upward, hops = _read_copy_head(bytes(data[_COPY_HEAD_AT:signature_at]))
    signature = bytes(data[signature_at + 3 : block_at]) if signature_size else b""
    return Copy(community, upward, hops, bytes(data[start:]), signature)


_BYTES_16 = struct.Struct(">BH").pack
_BYTES_32 = struct.Struct(">BI").pack
_copy_begin = struct.Struct(f">{len(_COPY_START)}sH").unpack_from
_copy_signature = struct.Struct(">BH").unpack_from
_copy_block = struct.Struct(">BI").unpack_from


@message(COPY_CODE, Form(_write_copy, _read_copy))
class Copy:
    """A copy of a block as it travels to a member of `community`."""

    community: str
    upward: bool
    hops: int
    block: bytes
    signature: bytes


def encode_copy(gossip: Gossip) -> bytes:
    """The bytes of a `Copy`, made once however many members are sent it."""
    block, community, hops, upward, _ = gossip
    head = _pack_copy_head(community, upward, min(hops, MOST_HOPS))
    return _join_copy(head, block.signature, block.encoded)


def numbers_in_copy(data: bytes, community: str, source: bytes) -> range | None:
    """Which events of a source an encoded message is a copy of, for this community; None: of none."""
    if not data.startswith(_COPY_START):
        return None
    copy = _read_copy(data)
    origin = origin_of(copy.block)
    if origin is None or copy.upward or (copy.community, origin[0]) != (community, source):
        return None
    return range(origin[1], origin[1] + origin[2])


# The bytes of a block: a msgpack array of code, origin and head, and a msgpack array of the events' data.

BLOCK_CODE = 0x41
_ORIGIN_BYTES = SOURCE_BYTES + NUMBER_BYTES + 4
"""Source, first number (8 bytes), count (4 bytes)."""

_PREFIX = bytes((0x93, BLOCK_CODE, 0xC4, _ORIGIN_BYTES))
"""How every block begins: an array of three, the code, and the bytes of the origin."""

_SOURCE_END = len(_PREFIX) + SOURCE_BYTES
_FIRST_END = _SOURCE_END + NUMBER_BYTES
_ORIGIN_END = _FIRST_END + 4
_HEAD_AT = _ORIGIN_END + 3
"""Where the head begins, after 0xC5 and its length in two bytes."""
_read_origin = struct.Struct(f">{len(_PREFIX)}s{SOURCE_BYTES}sQI").unpack_from

ID_PLACE = slice(_SOURCE_END - RUN_BYTES, _FIRST_END)
"""Where the id of the first event is in the bytes of a block."""

_ARRAY_HEAD = b"\xdd"
ARRAY_HEAD_BYTES = 5
"""The events' data are a msgpack array whose length has four bytes, however few events there are."""


class Head(NamedTuple):
    """What the blocks of one source have in common."""

    topic: str
    lineage: tuple[str, ...] = ()
    upward: float | None = None
    eager: bool = True
    trace: bytes = b""


def longest_head(topic: str, lineage: tuple[str, ...], traced: bool) -> Head:
    """Of all heads that events of the topic may have, the one that takes the most bytes."""
    return Head(topic, lineage, 1.0, True, bytes(TRACE_BYTES) if traced else b"")


def make_block(source: bytes, first: int, head: Head, payloads: Sequence[bytes]) -> Block:
    """The block of events whose data are packed already; it is not signed yet."""
    many = len(payloads).to_bytes(4, "big")
    start = b"".join((_PREFIX, source, first.to_bytes(NUMBER_BYTES, "big"), many, _pack_head(head)))
    encoded = b"".join((start, _ARRAY_HEAD, many, *payloads))
    return Block(encoded, b"", source, first, len(payloads), *head, len(start))


@lru_cache(maxsize=4096)
def _pack_head(head: Head) -> bytes:
    packed = b"".join(map(limited_msgpack.pack, head))
    return _HEAD_START(0xC5, len(packed)) + packed


_HEAD_START = struct.Struct(">BH").pack
_read_head_start = struct.Struct(">BH").unpack_from
_ARRAY_START = struct.Struct(">BI").pack
"""`_ARRAY_START(0xDD, count)`: how the events' data begin."""


def origin_of(encoded: bytes) -> tuple[bytes, int, int] | None:
    """Source, first number and count as the bytes say; None when they do not begin as a block does."""
    if len(encoded) <= _HEAD_AT:
        return None
    prefix, source, first, count = _read_origin(encoded)
    if prefix != _PREFIX or not (0 < count <= MOST_EVENTS and 0 < first <= LAST_NUMBER - count):
        return None
    return source, first, count


def read_block(
    encoded: bytes,
    community: str,
    signature: bytes = b"",
    origin: tuple[bytes, int, int] | None = None,
) -> Block:
    """The block in these bytes; `WireError` unless it is one that may be in this community.

    The events' data are walked over, so that there are as many as the head says, and not decoded.
    `origin`: what `origin_of` says of the bytes, if it was asked already."""
    origin = origin or origin_of(encoded)
    if origin is None:
        raise WireError("malformed_event")
    source, first, count = origin
    mark, size = _read_head_start(encoded, _ORIGIN_END)
    data_at = _HEAD_AT + size
    if (
        mark != 0xC5
        or encoded[data_at : data_at + ARRAY_HEAD_BYTES] != _ARRAY_START(0xDD, count)
        or len(encoded) - data_at - ARRAY_HEAD_BYTES > DATA_LIMIT
        or not limited_msgpack.is_one_value(memoryview(encoded)[data_at:])
    ):
        raise WireError("malformed_event")
    packed = encoded[_HEAD_AT:data_at]
    head = (_read_head if len(packed) <= MOST_HEAD_BYTES else _check_head)(packed)
    if community != head.topic and not included(community, head.topic, head.lineage):
        raise WireError("wrong_community")
    return Block(encoded, signature, source, first, count, *head, data_at)


_ONE = (1).to_bytes(4, "big")


def split_block(block: Block, end: bytes = b"") -> list[bytes]:
    """The bytes of a block of one for each event of a block, each with `end` behind it."""
    source, middle = block.encoded[:_SOURCE_END], block.encoded[_ORIGIN_END : block.data_at]
    rest = b"".join((_ONE, middle, _ARRAY_HEAD, _ONE))
    return [
        b"".join((source, number.to_bytes(NUMBER_BYTES, "big"), rest, payload, end))
        for number, payload in zip(block.numbers, block.payloads(), strict=True)
    ]


def join_blocks(blocks: Sequence[bytes], end: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """Blocks of one in as few blocks as possible: how many events, and the bytes, of each.

    Those next to each other become one block if they are consecutive events of one source with one head.
    Each is expected to have `end` behind it, and what is given has it too; a block that has something else
    there, such as a signature, stays as it is."""
    place = 0
    while place < len(blocks):
        count = _joinable(blocks, place, end)
        if count == 1:
            yield 1, blocks[place]
        else:
            one = blocks[place]
            data_at = _HEAD_AT + (one[_HEAD_AT - 2] << 8 | one[_HEAD_AT - 1])
            start, stop = data_at + ARRAY_HEAD_BYTES, len(end)
            many = count.to_bytes(4, "big")
            payloads = [other[start : len(other) - stop] for other in blocks[place : place + count]]
            head = (one[:_FIRST_END], many, one[_ORIGIN_END:data_at], _ARRAY_HEAD, many)
            yield count, b"".join((*head, *payloads, end))
        place += count


def _joinable(blocks: Sequence[bytes], place: int, end: bytes) -> int:
    """How many blocks from this place on can be one."""
    one = blocks[place]
    origin = origin_of(one)
    if origin is None or origin[2] != 1 or not one.endswith(end):
        return 1
    source, number = one[:_SOURCE_END], origin[1]
    data_at = _HEAD_AT + (one[_HEAD_AT - 2] << 8 | one[_HEAD_AT - 1])
    rest = one[_FIRST_END : data_at + ARRAY_HEAD_BYTES]
    size = len(one) - data_at
    stop = min(len(blocks), place + MOST_EVENTS)
    for at in range(place + 1, stop):
        number += 1
        other = blocks[at]
        size += len(other) - data_at
        start = source + number.to_bytes(NUMBER_BYTES, "big") + rest
        if not other.startswith(start) or not other.endswith(end) or size > DATA_LIMIT:
            return at - place
    return stop - place


def _check_head(packed: bytes) -> Head:
    try:
        topic, lineage, upward, eager, trace = limited_msgpack.unpack(b"\x95" + packed)
    except WireError:
        raise WireError("malformed_event") from None
    if (
        type(topic) is not str
        or type(lineage) is not tuple
        or (upward is not None and not _is_probability(upward))
        or type(eager) is not bool
        or type(trace) is not bytes
        or len(trace) not in (0, TRACE_BYTES)
        or (lineage and not _is_lineage(lineage))
    ):
        raise WireError("malformed_event")
    return Head(topic, lineage, upward, eager, trace)


_read_head = lru_cache(maxsize=1024)(_check_head)
"""Mostly the head of one block is that of the one before."""

_origin = lru_cache(maxsize=1024)(Origin)
"""Mostly what one batch has in common is what the one before had."""

_peer_id = lru_cache(maxsize=4096)(PeerId)
"""The same few publishers are named over and over."""


def _is_probability(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_lineage(lineage: tuple[Any, ...]) -> bool:
    return len(lineage) <= MAX_LINEAGE and all(type(name) is str for name in lineage)


# Ids of events.


def event_id(source: bytes, number: int) -> bytes:
    return source[PEER_ID_BYTES:] + number.to_bytes(NUMBER_BYTES, "big")


def event_ids(source: bytes, numbers: Sequence[range]) -> Iterator[bytes]:
    """The ids of the events of a source with these numbers."""
    run = source[PEER_ID_BYTES:]
    return (run + n.to_bytes(NUMBER_BYTES, "big") for stretch in numbers for n in stretch)
