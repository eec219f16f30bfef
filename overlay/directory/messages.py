"""What a process asks of the nodes that hold a topic's shards, and what they answer.

An announcement names nobody: it is for the sender, and the shard follows from the sender's id. A shard with
members deeper in the tree is announced to as a *trace*: `leaf_depth` is then larger than `depth`.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.wire import message

BAD_TOKEN = "token"
"""Why an announcement is refused whose sender has not shown that it can be reached at its address."""

HELD_ELSEWHERE = "held_elsewhere"
"""Why an announcement is refused whose sender has its id held at another address. Whoever is there is asked
now; if nobody answers, the next announcement is taken."""


@message(0x10)
class Query:
    """Who is in this shard? `want` contacts are sent along, from rank `skip` on in the order of `salt`.

    `near`: the sender does not know for sure who holds the shard, and wants to be told of this many nodes.
    """

    topic: PeerId
    depth: int
    prefix: int
    salt: int
    skip: int
    want: int
    near: int


@message(0x11)
class ShardReply:
    """What a replica holds of the shard.

    `fingerprints` has four bytes for each member. `below` is the number of traces, `hint` the depth
    at which the members that left them live. `interior` is the advice to live deeper. `settled` says
    that a full round of announcements has been heard, and that they still come. `seasoned`
    says that the replica has served for longer than a round of announcements takes: whom it does not name did
    not announce to it, while one that is newer may have come too late to hear of a member.
    """

    settled: bool
    interior: bool
    below: int
    hint: int
    fingerprints: bytes
    contacts: tuple[Contact, ...]
    seasoned: bool
    near: tuple[Contact, ...]
    """The nodes closest to the shard's key that the replica knows, if they were asked for."""
    young: bool = False
    """The shard began less than a round of announcements ago: some of its members may still live above."""
    token: bytes = b""
    """For an announcement to this replica."""


@message(0x12)
class AnnounceMember:
    """Hold the sender as a member (or a trace) of its shard at `depth`, for one record's life.

    `token` came with an earlier reply of the DHT node and proves that the sender gets what is sent to its
    address. `stay` is drawn anew after each withdrawal: an announcement that arrives late does not bring
    back a member that has gone. `sure`: it leaves this trace every time, and not by chance, as members of a
    shard that is nearly empty do.
    """

    topic: PeerId
    depth: int
    leaf_depth: int
    stay: int
    token: bytes
    sure: bool


@message(0x13)
class Withdraw:
    """Forget the sender in its shard at `depth`."""

    topic: PeerId
    depth: int
    stay: int
    token: bytes


@message(0x14)
class AnnounceReply:
    """What became of an announcement or a withdrawal; `refused` is empty, or the reason."""

    refused: str
    settled: bool
    interior: bool
    members: int
    below: int
    """The number of traces."""
    near: tuple[Contact, ...]
    """The nodes closest to the shard's key that the replica knows: so announcers follow the DHT's changes
    without lookups."""
    token: bytes
    """For the next request; a request that was refused for want of one may be sent again with it."""


@message(0x15)
class Report:
    """A member of this shard does not answer. The replica asks the member itself before it believes that."""

    topic: PeerId
    depth: int
    prefix: int
    member: Contact


@message(0x16)
class Noted:
    """The answer to a report."""


@message(0x17)
class FetchShard:
    """All that you hold of this shard, from the record `skip` on: the sender has just begun to hold it."""

    topic: PeerId
    depth: int
    prefix: int
    skip: int


@message(0x18)
class Records:
    """As many records as a datagram has room for, of `total` in all; `age`: milliseconds for which every
    announcement has come here, 0 if some go elsewhere. That nothing is held means nothing while `age` is low.
    `lived`: milliseconds since the shard began, here or at those it was copied from.

    `numbers` has ten bytes for each contact: the depth at which the member lives, whether it leaves this
    trace every time, the number of its stay, and the milliseconds that the record has left to live.
    """

    total: int
    age: int
    lived: int
    contacts: tuple[Contact, ...]
    numbers: bytes
