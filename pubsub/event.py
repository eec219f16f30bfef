"""Events: as an application sees them, and as they travel.

An event is encoded once, by its publisher, into the bytes of an `EventBody`. These bytes travel unchanged to
everyone and are what a signature covers; whoever forwards an event neither decodes its data nor encodes it
again. They begin with the event's id, so that a duplicate is known before anything else is looked at.

Events that go to the same member within one turn of the event loop travel together, as `Copies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from overlay import limited_msgpack
from overlay.contact import ID_BYTES as PEER_ID_BYTES
from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.wire import MAX_ARRAY, MAX_MAP, WireError, message
from pubsub.topic import MAX_LINEAGE, included

DATA_LIMIT = 1024 * 1024
"""The most bytes that an event's data may have as msgpack."""

RUN_BYTES = 8
ID_BYTES = RUN_BYTES + 8

MOST_HOPS = 255
"""Hops are counted so far and no further."""


class DataError(UsageError):
    """The data cannot travel in an event: too large, or nothing that msgpack knows."""


@dataclass(frozen=True)
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

    def __init__(
        self,
        topic: str,
        data: Any,
        publisher: PeerId,
        sequence: int,
        hops: int,
        id: bytes,
        signed: bool = False,
    ) -> None:
        # One is made for every delivery; the usual way to make a frozen object takes three times as long.
        fields = self.__dict__
        fields["topic"] = topic
        fields["data"] = data
        fields["publisher"] = publisher
        fields["sequence"] = sequence
        fields["hops"] = hops
        fields["id"] = id
        fields["signed"] = signed

    @property
    def run(self) -> bytes:
        """Tells one run of the publisher from another."""
        return self.id[:RUN_BYTES]


class EventBody(NamedTuple):
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
    eager: bool = True
    """Every copy carries the event. If not, whoever is likely to have it already is only told its id."""


class Gossip(NamedTuple):
    """One copy of an event, on its way to a member of `community`."""

    id: bytes
    community: str
    hops: int
    upward: bool
    """It crosses from a community to its super-community."""
    body: bytes
    signature: bytes


NewEvent = tuple[Gossip, EventBody]
"""An event that a process has for the first time."""


@message(0x40)
@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of events for a member of `community`, in the order in which they were sent."""

    community: str
    upward: bool
    """They cross from a community to its super-community."""
    hops: bytes
    """One byte for each."""
    bodies: tuple[bytes, ...]
    signatures: tuple[bytes, ...]
    """One for each, or none at all."""

    @classmethod
    def of(cls, gossips: Sequence[Gossip]) -> Copies:
        """These copies, all of which have the same community and direction."""
        first = gossips[0]
        signatures = tuple([gossip.signature for gossip in gossips])
        return cls(
            first.community,
            first.upward,
            bytes([gossip.hops if gossip.hops < MOST_HOPS else MOST_HOPS for gossip in gossips]),
            tuple([gossip.body for gossip in gossips]),
            signatures if any(signatures) else (),
        )

    @property
    def is_well_formed(self) -> bool:
        count = len(self.bodies)
        return len(self.hops) == count and len(self.signatures) in (0, count)

    @property
    def ids(self) -> list[bytes]:
        """Of each event, as its bytes say, well-formed or not."""
        return [body[ID_PLACE] for body in self.bodies]

    def gossips(self) -> list[Gossip]:
        """Each of well-formed copies; its id is read from the bytes, and as good as they are."""
        community, upward = self.community, self.upward
        signatures = self.signatures or repeat(b"")
        return [
            Gossip(body[ID_PLACE], community, hops, upward, body, signature)
            for body, hops, signature in zip(self.bodies, self.hops, signatures, strict=False)
        ]


BODY_CODE = 0x41
_BODY_LENGTH = 1 + len(EventBody._fields)
_BODY_PREFIX = bytes((0x90 + _BODY_LENGTH, BODY_CODE, 0xC4, ID_BYTES))
"""How every body begins: an array, the code, and 16 bytes of id."""

_UP_TO_255_BYTES, _UP_TO_65535_BYTES = 0xC4, 0xC5
"""How msgpack begins bytes; their number is next."""

ID_PLACE = slice(len(_BODY_PREFIX), len(_BODY_PREFIX) + ID_BYTES)
"""Where the id is in the bytes of a body."""


def pack_data(data: Any) -> bytes:
    """The data as msgpack; `DataError` when it cannot be, or is larger than `DATA_LIMIT`."""
    try:
        packed = limited_msgpack.pack_data(data)
    except UsageError as error:
        raise DataError(
            f"the data cannot travel as msgpack: {error}; an event's data has at most {DATA_LIMIT} bytes, "
            f"arrays at most {MAX_ARRAY} elements, maps at most {MAX_MAP} entries"
        ) from None
    if len(packed) > DATA_LIMIT:
        raise DataError(
            f"the data has {len(packed)} bytes as msgpack, and {DATA_LIMIT} is the limit of an event"
        )
    return packed


def unpack_data(packed: bytes) -> Any:
    """The data that `pack_data` gave, tuples as lists; `WireError` for anything else."""
    head = packed[:3]
    if len(head) == 3:  # bytes are what is most often sent where speed matters
        if head[0] == _UP_TO_255_BYTES and len(packed) == 2 + head[1]:
            return packed[2:]
        if head[0] == _UP_TO_65535_BYTES and len(packed) == 3 + (head[1] << 8 | head[2]):
            return packed[3:]
    try:
        return limited_msgpack.unpack_data(packed)
    except WireError:
        raise WireError("malformed_data") from None


def pack_body(body: EventBody) -> bytes:
    return limited_msgpack.pack((BODY_CODE, *body))


def unpack_body(gossip: Gossip) -> EventBody:
    """The body inside; `WireError` unless it is one that may be in the community it came to."""
    if gossip.body[ID_PLACE] != gossip.id:
        raise WireError("malformed_event")
    return read_body(gossip.body, gossip.community)


def read_body(encoded: bytes, community: str) -> EventBody:
    """The body in these bytes; `WireError` unless it is one that may be in this community."""
    if not encoded.startswith(_BODY_PREFIX):
        raise WireError("malformed_event")
    try:
        raw = limited_msgpack.unpack(encoded)
    except WireError:
        raise WireError("malformed_event") from None
    _, event_id, topic, lineage, publisher, sequence, upward, data, eager = raw
    if (
        type(topic) is not str
        or type(lineage) is not tuple
        or type(publisher) is not bytes
        or len(publisher) != PEER_ID_BYTES
        or type(sequence) is not int
        or (upward is not None and not _is_probability(upward))
        or type(data) is not bytes
        or len(data) > DATA_LIMIT
        or type(eager) is not bool
        or (lineage and not _is_lineage(lineage))
    ):
        raise WireError("malformed_event")
    if not included(community, topic, lineage):
        raise WireError("wrong_community")
    return EventBody(event_id, topic, lineage, _peer_id(publisher), sequence, upward, data, eager)


_peer_id = lru_cache(maxsize=4096)(PeerId)
"""The same few publishers are named over and over."""


def _is_probability(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_lineage(lineage: tuple[Any, ...]) -> bool:
    return len(lineage) <= MAX_LINEAGE and all(type(name) is str for name in lineage)
