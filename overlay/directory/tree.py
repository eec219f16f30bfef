"""The binary tree of shards over a topic's members.

A member sits at a *point*, 64 bits of the hash of topic and member id: nobody chooses it, and points are
uniform. A *shard* is a prefix of points; it is kept by the DHT nodes closest to the hash of topic,
depth and prefix, so that the shards of one topic are spread over the whole DHT. The shards that hold
members are the leaves of the tree, at about depth log2(N / split).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from overlay.bounded import Memo
from overlay.contact import ID_BYTES, Contact, PeerId

POINT_BITS = 64
MAX_DEPTH = 32
"""The deepest shard; 2**32 leaves are more than there will be."""

LARGE_DEPTH = 3
"""From this depth of its leaves on, a topic has so many newcomers that its root is kept at more nodes."""

FINGERPRINT_BYTES = 4
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_MIX_1 = 0x9E37_79B9_7F4A_7C15
_MIX_2 = 0xD6E8_FEB8_6659_FD93


class Shard(NamedTuple):
    """The members of `topic` whose points begin with the `depth` bits of `prefix`."""

    topic: PeerId
    depth: int
    prefix: int

    @property
    def key(self) -> PeerId:
        """Where in the DHT the shard is kept."""
        return _shard_key(self)

    @property
    def share(self) -> float:
        """The part of all points that fall in the shard."""
        return 2.0**-self.depth

    def holds(self, point: int) -> bool:
        return point >> (POINT_BITS - self.depth) == self.prefix


def shard_at(topic: PeerId, depth: int, point: int) -> Shard:
    """The shard of that depth that a point falls in."""
    return Shard(topic, depth, point >> (POINT_BITS - depth))


@lru_cache(maxsize=1024)
def topic_key(name: str) -> PeerId:
    """A topic on the wire: the hash of its name."""
    return PeerId(blake2b(name.encode(), digest_size=ID_BYTES, person=b"camcast topic").digest())


@lru_cache(maxsize=65_536)
def point_of(topic: PeerId, member: PeerId) -> int:
    """Where a member sits among the points of a topic."""
    digest = blake2b(topic + member, digest_size=POINT_BITS // 8, person=b"camcast point").digest()
    return int.from_bytes(digest, "big")


def fingerprint(topic: PeerId, member: Contact) -> int:
    """Stands for a member in a list: a hash of its id and address, so that neither can be exchanged."""
    return fingerprint_and_point((topic, member))[0]


def _fingerprint_and_point(of: tuple[PeerId, Contact]) -> tuple[int, int]:
    topic, member = of
    digest = blake2b(
        topic + member.packed(), digest_size=FINGERPRINT_BYTES, person=b"camcast print"
    ).digest()
    return int.from_bytes(digest, "big"), point_of(topic, member.id)


fingerprint_and_point: Callable[[tuple[PeerId, Contact]], tuple[int, int]]
fingerprint_and_point = Memo(_fingerprint_and_point, 65_536).__getitem__
"""Of a topic and a member: its fingerprint, and its point."""


def by_rank(fingerprints: Iterable[int], salt: int) -> list[int]:
    """Members in the order of a reader's salt: every salt gives another, as good as random, order.

    Replica and reader order alike, so a replica cannot choose whom it hands out. No two members have the same
    rank: each of its steps can be undone.
    """
    return sorted(
        fingerprints,
        key=lambda f: ((m := (f ^ salt) * _MIX_1 & _MASK) ^ m >> 32) * _MIX_2 & _MASK,
    )


@lru_cache(maxsize=16_384)
def _shard_key(shard: Shard) -> PeerId:
    place = shard.topic + bytes([shard.depth]) + shard.prefix.to_bytes(8, "big")
    return PeerId(blake2b(place, digest_size=ID_BYTES, person=b"camcast shard").digest())
