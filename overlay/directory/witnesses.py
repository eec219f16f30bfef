"""What the replicas of a shard say of it, and the view that a reader makes of that.

One replica may have come late and hold a part, have been left behind by a change of the DHT, or lie. So a
reader asks two, and is content when both are settled and say the same. Otherwise it asks a third one, or all
(see `is_content`), and believes in a member that two or more name: a lone voice may have made it up. Where
most are settled, at least half of them must name it, too. A replica that holds nothing has no voice, as it
may be new.
While fewer than three of those who answer have served for a round of announcements, or the network
has fewer nodes than a shard has replicas, each is believed: the others came too late to hear of all
members. That the tree goes on below is a graver claim, and rarer: it takes three who say the same, or half
of all who answer.

**Liars.** Who draws many identities has some next to the key of a topic's root, and may outvote those who
hold it. So where nodes are *crowded* around that key, those who announce themselves tell the nodes of the
whole region (see `region`), and who reads asks them. Where two camps of these, of two or more each, name
members that have little in common, a view has about as many of each: who is invented does not answer, and
the others do. Below a root, liars spoil a part of a topic only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from struct import unpack

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.messages import ShardReply
from overlay.directory.tree import Shard, by_rank, fingerprint_and_point

_CAMP = 20
"""Members that each of two camps gives to a view at least, if it has as many."""


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
    near: tuple[Contact, ...] = ()
    young: bool = False

    @property
    def knows(self) -> bool:
        return bool(self.members) or self.below > 0

    def agrees(self, other: Witness) -> bool:
        return self.members == other.members and (self.below > 0) == (other.below > 0)

    def nearly_agrees(self, other: Witness) -> bool:
        """Whether the two differ by no more than who comes and goes while they are asked."""
        if self.agrees(other):
            return True
        differing = len(self.members ^ other.members)
        either = (len(self.members) + len(other.members) + differing) // 2
        return differing <= max(2, either // 8) and (self.below > 0) == (other.below > 0)


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
    young: bool = False
    """Members may still live above."""

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
        mark, point = fingerprint_and_point((shard.topic, contact))
        if mark not in members or not shard.holds(point):
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
        reply.near[: config.root_replicas],
        reply.young,
    )


def is_content(witnesses: Sequence[Witness]) -> bool:
    """Whether no further replica needs to be asked: two settled ones say the same, or three nearly the same.

    Of three, two tell whom the third one invents or leaves out. Where a shard is new none is settled; three
    that came late, each at another time, would not say the same. In a network that has just begun two are
    enough, as whoever is named by either is believed."""
    knowing = [witness for witness in witnesses if witness.knows]
    settled = [witness for witness in knowing if witness.settled]
    if len(settled) == 2 and settled[0].agrees(settled[1]) and not settled[0].below:
        return True
    voices = settled if len(settled) > 2 else knowing
    needed = 3 if any(witness.seasoned for witness in voices) else 2
    return len(voices) >= needed and all(a.nearly_agrees(b) for a, b in combinations(voices, 2))


def how_many(witnesses: Sequence[Witness], left: int) -> int:
    """How many of the replicas that are left are asked next: two, then a third to decide, then all."""
    knowing = [witness for witness in witnesses if witness.knows]
    if len(witnesses) < 2 or not knowing:
        return min(2, left)
    if len(knowing) < 3 and all(a.nearly_agrees(b) for a, b in combinations(knowing, 2)):
        return min(3 - len(knowing), left)
    return left


def combine(
    shard: Shard,
    witnesses: Sequence[Witness],
    salt: int,
    *,
    trusting: bool = False,
    crowded: bool = False,
) -> ShardView:
    """The common view of all that were asked; `trusting` believes a lone voice.

    `crowded`: liars may be the majority, so what each camp says is taken for possible."""
    knowing = [witness for witness in witnesses if witness.knows]
    settled = [witness for witness in knowing if witness.settled]
    seasoned = sum(witness.seasoned for witness in witnesses)
    believed = 1 if trusting or seasoned < 3 else 2
    needed = believed
    if 2 * len(settled) > len(knowing):
        needed = max(needed, (len(settled) + 1) // 2)
    hints = sorted(witness.hint for witness in knowing if witness.below)
    camps = camps_of(witnesses, apart=True) if crowded else []
    contacts = {mark: c for witness in knowing for mark, c in witness.contacts.items()}
    return ShardView(
        shard=shard,
        salt=salt,
        members=_some_of_each(camps, contacts, salt) if len(camps) > 1 else _named(knowing, needed),
        contacts=contacts,
        witnesses=tuple(witness.replica for witness in knowing),
        settled=len(settled) >= believed,
        interior=2 * sum(witness.interior for witness in knowing) > len(knowing),
        below=len(hints) >= 3 or 2 * len(hints) >= max(2, len(witnesses)),
        hint=hints[len(hints) // 2] if hints else shard.depth,
        young=bool(knowing) and 2 * sum(witness.young for witness in knowing) >= len(knowing),
    )


def camps_of(witnesses: Sequence[Witness], *, apart: bool) -> list[frozenset[int]]:
    """What each camp of two or more witnesses names; one camp where all have much in common.

    Two have when they agree on half of what the one names that names less: it may have come late. `apart`: of
    what the one names that names more, which may be the true members and many invented ones."""
    camps: list[list[Witness]] = []
    knowing = [witness for witness in witnesses if witness.members]
    for witness in sorted(knowing, key=lambda one: -len(one.members)):
        for camp in camps:
            most = camp[0].members
            if 2 * len(most & witness.members) >= len(most if apart else witness.members):
                camp.append(witness)
                break
        else:
            camps.append([witness])
    return [_named(camp, (len(camp) + 1) // 2) for camp in camps if len(camp) > 1]


def other_order(salt: int) -> int:
    """The salt by which contacts are asked for where nodes are crowded.

    Not the reader's own: the first few of many invented members would come before all of the true ones."""
    return salt ^ 0xFFFFFFFF


def _some_of_each(
    camps: Sequence[frozenset[int]], contacts: dict[int, Contact], salt: int
) -> frozenset[int]:
    """As many of each, of those whose contacts came along: liars give none when they are asked later."""
    orders = [by_rank([m for m in camp if m in contacts], other_order(salt)) for camp in camps]
    most = max(_CAMP, min(map(len, orders)))
    return frozenset(member for order in orders for member in order[:most])


def _named(witnesses: Sequence[Witness], needed: int) -> frozenset[int]:
    """The members that enough of them name."""
    if len(witnesses) == needed == 2:
        return witnesses[0].members & witnesses[1].members
    votes = Counter(chain.from_iterable(witness.members for witness in witnesses))
    return frozenset(member for member, count in votes.items() if count >= needed)
