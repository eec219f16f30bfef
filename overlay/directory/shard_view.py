"""What is believed of a shard, from what several replicas say of it.

One replica may have come late and hold a part, have been left behind by a change of the DHT, or lie. So a
reader asks two, and is content when both are settled and say the same. Otherwise it asks all, and
believes in a member that two or more name: a lone voice may have made it up. Where most are settled, at
least half of them must name it, too. A replica that holds nothing has no voice, as it may be new.
While fewer than three of those who answer have served for a round of announcements, or the network
has fewer nodes than a shard has replicas, each is believed: the others came too late to hear of all
members. That the tree goes on below is a graver claim, and rarer: it takes three who say the same, or half
of all who answer.
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
    seasoned: bool

    @property
    def knows(self) -> bool:
        return bool(self.members) or self.below > 0

    def agrees(self, other: Witness) -> bool:
        return self.members == other.members and (self.below > 0) == (other.below > 0)


@dataclass(frozen=True)
class ShardView:
    """A shard's members, with the contacts that came along."""

    shard: Shard
    salt: int
    members: frozenset[int]
    contacts: dict[int, Contact]
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


def checked_reply(
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
        if mark not in members or not shard.holds(point_of(shard.topic, contact.id)):
            return None
        contacts[mark] = contact
    if len(members) != count:
        return None
    hint = min(max(reply.hint, shard.depth), 32)
    return Witness(
        replica,
        members,
        contacts,
        reply.settled,
        reply.interior,
        reply.below,
        hint,
        reply.seasoned,
    )


def content(witnesses: Sequence[Witness]) -> bool:
    """Whether no further replica needs to be asked."""
    settled = [witness for witness in witnesses if witness.settled and witness.knows]
    if len(settled) < 2 or not all(settled[0].agrees(other) for other in settled[1:]):
        return False
    return len(settled) >= 3 or not settled[0].below


def combine(
    shard: Shard, witnesses: Sequence[Witness], salt: int, *, trusting: bool = False
) -> ShardView:
    """The common view of all that were asked; `trusting` believes a lone voice."""
    knowing = [witness for witness in witnesses if witness.knows]
    settled = [witness for witness in knowing if witness.settled]
    seasoned = sum(witness.seasoned for witness in witnesses)
    believed = 1 if trusting or seasoned < 3 else 2
    needed = believed
    if 2 * len(settled) > len(knowing):
        needed = max(needed, (len(settled) + 1) // 2)
    hints = sorted(witness.hint for witness in knowing if witness.below)
    return ShardView(
        shard=shard,
        salt=salt,
        members=_named(knowing, needed),
        contacts={mark: c for witness in knowing for mark, c in witness.contacts.items()},
        witnesses=tuple(witness.replica for witness in knowing),
        settled=len(settled) >= believed,
        interior=2 * sum(witness.interior for witness in knowing) > len(knowing),
        below=len(hints) >= 3 or 2 * len(hints) >= max(2, len(witnesses)),
        hint=hints[len(hints) // 2] if hints else shard.depth,
    )


def _named(witnesses: Sequence[Witness], needed: int) -> frozenset[int]:
    """The members that enough of them name."""
    if len(witnesses) == needed == 2:
        return witnesses[0].members & witnesses[1].members
    votes: dict[int, int] = {}
    for witness in witnesses:
        for member in witness.members:
            votes[member] = votes.get(member, 0) + 1
    return frozenset(member for member, count in votes.items() if count >= needed)
