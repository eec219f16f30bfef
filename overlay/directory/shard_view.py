"""What is believed of a shard, from what several replicas say of it.

One replica may have come late and hold a part, have been left behind by a change of the DHT, or lie. So a
reader asks two, and is content when both are settled and agree but for a few records (then all of
either are counted: what one missed, the other holds). Otherwise it asks all, and the settled ones vote
on each member; while most are not settled, as in a topic's first minute, everything that any one holds
counts. A replica that holds nothing is no witness at all: it may be new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import unpack

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.messages import ShardReply
from overlay.directory.tree import Shard, by_rank, fingerprint, point_of


@dataclass(frozen=True, slots=True)
class Witness:
    """A sound reply of one replica."""

    replica: Contact
    members: frozenset[int]
    contacts: dict[int, Contact]
    settled: bool
    interior: bool
    below: int
    hint: int

    @property
    def knows(self) -> bool:
        return bool(self.members) or self.below > 0

    def agrees(self, other: Witness) -> bool:
        apart = len(self.members ^ other.members)
        allowed = max(2, max(len(self.members), len(other.members)) // 8)
        return apart <= allowed and (self.below > 0) == (other.below > 0)


@dataclass(frozen=True)
class ShardView:
    """A shard's members, with the contacts that came along.

    `scouts` are contacts that left traces here: members of the topic that live deeper.
    """

    shard: Shard
    salt: int
    members: frozenset[int]
    contacts: dict[int, Contact]
    scouts: tuple[Contact, ...]
    witnesses: tuple[Contact, ...]
    settled: bool
    interior: bool
    below: bool
    hint: int

    @cached_property
    def order(self) -> list[int]:
        """The members in the order of the reader's salt."""
        return by_rank(self.members, self.salt)

    @property
    def empty(self) -> bool:
        return not self.members and not self.below


def testify(
    shard: Shard, replica: Contact, reply: ShardReply, config: DirectoryConfig
) -> Witness | None:
    """Check a reply; None when no honest replica sends such a one."""
    count, rest = divmod(len(reply.fingerprints), 4)
    if rest or count > config.capacity or not 0 <= reply.below <= config.capacity:
        return None
    members = frozenset(unpack(f">{count}I", reply.fingerprints))
    contacts: dict[int, Contact] = {}
    for contact in reply.contacts:
        mark = fingerprint(shard.topic, contact)
        if not shard.holds(point_of(shard.topic, contact.id)) or (members and mark not in members):
            return None
        contacts[mark] = contact
    if len(members) != count or len(contacts) > (count or reply.below):
        return None
    hint = min(max(reply.hint, shard.depth), 32)
    return Witness(replica, members, contacts, reply.settled, reply.interior, reply.below, hint)


def content(witnesses: Sequence[Witness]) -> bool:
    """Whether no further replica needs to be asked."""
    settled = [witness for witness in witnesses if witness.settled and witness.knows]
    return len(settled) >= 2 and all(settled[0].agrees(other) for other in settled[1:])


def combine(shard: Shard, witnesses: Sequence[Witness], salt: int) -> ShardView:
    """The common view of all that were asked."""
    knowing = [witness for witness in witnesses if witness.knows]
    settled = [witness for witness in knowing if witness.settled]
    voters = settled if 2 * len(settled) > len(knowing) else knowing
    needed = 1
    if voters is settled and not content(voters):
        needed = (len(voters) + 1) // 2
    below = sum(witness.below > 0 for witness in voters)
    scouts = {c.id: c for w in voters if not w.members for c in w.contacts.values()}
    hints = sorted(witness.hint for witness in voters if witness.below)
    return ShardView(
        shard=shard,
        salt=salt,
        members=_voted(voters, needed),
        contacts={f: c for w in voters if w.members for f, c in w.contacts.items()},
        scouts=tuple(scouts.values()),
        witnesses=tuple(witness.replica for witness in voters),
        settled=bool(settled) and voters is settled,
        interior=2 * sum(witness.interior for witness in voters) > len(voters),
        below=below >= needed,
        hint=hints[len(hints) // 2] if hints else shard.depth,
    )


def _voted(voters: Sequence[Witness], needed: int) -> frozenset[int]:
    """The members that enough of them hold."""
    if needed == 1:
        return frozenset[int]().union(*(witness.members for witness in voters))
    votes: dict[int, int] = {}
    for witness in voters:
        for member in witness.members:
            votes[member] = votes.get(member, 0) + 1
    return frozenset(member for member, count in votes.items() if count >= needed)
