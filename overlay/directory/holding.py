"""The shards that a node holds for others: their members, their traces, and when they split and merge.

A *member* lives in a shard. A *trace* was left by a member that lives deeper on the same path; traces tell a
process that comes to the shard that the tree goes on below. In each period a member refreshes one ancestor,
the one k levels up with probability 2**-k, so that every ancestor of a full leaf hears of about as many
members a period as the leaf has, however large the topic. With n announcements in a record's life that is a
share 1 - (1 - 2**-k)**n of those who live there, which tells how many they are. Where few live below, chance
might leave no trace at all; so members of a shard that is nearly empty leave one every time, at each ancestor
up to the first one below which more live. Such a trace is *sure* and stands for one member.

Both are soft state of one common life. A node that begins to hold a shard fetches from others what they hold
of it, so that it knows all members at once (`adopt`); such records live no longer for being copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from struct import pack

from overlay.contact import Address, Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.messages import HELD_ELSEWHERE
from overlay.directory.tree import Shard, by_rank, fingerprint
from overlay.transport.address import block_of

STORE_FULL = "store_full"
"""Why an announcement is refused: too many are held, and the sender's block of addresses has its share."""

_SPARSEST = 3
"""Levels: a trace from farther below counts as one from there, so that one trace is never many members."""


@dataclass(frozen=True, slots=True)
class AnnouncedMember:
    """One announcement that was taken; a trace if `leaf_depth` is deeper than the shard."""

    contact: Contact
    fingerprint: int
    leaf_depth: int
    stay: int
    sure: bool
    """The member leaves this trace every time."""
    expires: float


@dataclass(frozen=True, slots=True)
class ShardCopy:
    """A record as another replica tells of it; `left`: the seconds that it has left to live."""

    contact: Contact
    leaf_depth: int
    stay: int
    sure: bool
    left: float


class HeldShard:
    """The members and traces of one shard. The code that puts into it keeps it bounded; see `has_room`."""

    __slots__ = (
        "_at_address",
        "_by_chance",
        "_config",
        "_listed",
        "_shard",
        "_stand_for",
        "_trace_depths",
        "born",
        "heard",
        "interior",
        "members",
        "since",
        "traces",
    )

    def __init__(self, shard: Shard, config: DirectoryConfig, now: float) -> None:
        self._shard = shard
        self._config = config
        self._listed: tuple[bytes, dict[int, Contact]] | None = None
        """The members' fingerprints as they are sent, and whom each stands for."""
        self._at_address: dict[Address, PeerId] = {}
        self.members: dict[PeerId, AnnouncedMember] = {}
        self.traces: dict[PeerId, AnnouncedMember] = {}
        self._stand_for = 0.0
        """Members that the traces stand for."""
        self._trace_depths: dict[int, int] = {}
        """How many traces there are of members that live at a depth."""
        self._by_chance = 0
        """Traces that are not sure: more than `merge` members lived below when they were left."""
        self.interior = False
        self.since = now
        """All who announced themselves since then did so here."""
        self.born = now
        """When the shard began, at whichever replica."""
        self.heard = now

    def __len__(self) -> int:
        return len(self.members) + len(self.traces)

    def get(self, member: PeerId) -> AnnouncedMember | None:
        return self.members.get(member) or self.traces.get(member)

    def at(self, address: Address) -> PeerId | None:
        """Who is held under that address; one at most, so a flood from one address is one record."""
        return self._at_address.get(address)

    def has_room(self, member: PeerId, leaf_depth: int) -> bool:
        """Whether the record fits. Traces always do: a new one takes the place of the oldest."""
        return (
            leaf_depth > self._shard.depth
            or member in self.members
            or len(self.members) < self._config.capacity
        )

    def oldest_trace_above(self, limit: int) -> Contact | None:
        """The trace that has to go if there may be no more than `limit`."""
        return next(iter(self.traces.values())).contact if len(self.traces) > limit else None

    def put(self, contact: Contact, leaf_depth: int, stay: int, sure: bool, now: float) -> None:
        """Hold or refresh a record; a member that has moved deeper becomes a trace, and back."""
        before = self.members.get(contact.id)
        listed = self._listed if before is not None and before.contact == contact else None
        self.remove(contact.id)
        record = AnnouncedMember(
            contact,
            fingerprint(self._shard.topic, contact),
            leaf_depth,
            stay,
            sure,
            now + self._config.record_life,
        )
        if leaf_depth == self._shard.depth:
            self.members[contact.id] = record
            self._listed = listed
        else:
            self.traces[contact.id] = record
            self._count_trace(record, +1)
        self._at_address[contact.address] = contact.id
        self.heard = now

    def adopt(self, record: AnnouncedMember) -> None:
        """Hold a copy of another replica's record."""
        kind = self.members if record.leaf_depth == self._shard.depth else self.traces
        kind[record.contact.id] = record
        if kind is self.traces:
            self._count_trace(record, +1)
        self._at_address[record.contact.address] = record.contact.id
        self._listed = None

    def complete(self, since: float, born: float) -> None:
        """All that others hold, `since` when, is held here as well; records are ordered by expiry again."""
        self.since = min(self.since, since)
        self.born = min(self.born, born)
        for kind in (self.members, self.traces):
            ordered = sorted(kind.items(), key=lambda held: held[1].expires)
            kind.clear()
            kind.update(ordered)
        self._listed = None

    def remove(self, member: PeerId) -> None:
        record = self.members.pop(member, None)
        if record is not None:
            self._listed = None
        else:
            record = self.traces.pop(member, None)
            if record is None:
                return
            self._count_trace(record, -1)
        del self._at_address[record.contact.address]

    def next_expiry(self) -> float:
        """When the next record is past its life; at once for a shard that holds none."""
        first = [next(iter(kind.values())).expires for kind in (self.members, self.traces) if kind]
        return min(first, default=float("-inf"))

    def expire(self, now: float) -> list[Address]:
        """Drop what is past its life; the addresses that were dropped."""
        gone: list[Address] = []
        for kind in (self.members, self.traces):
            while kind:
                record = next(iter(kind.values()))
                if record.expires > now:
                    break
                gone.append(record.contact.address)
                self.remove(record.contact.id)
        return gone

    def advise(self, now: float) -> bool:
        """Whether members should live deeper than here; between yes and no is a wide gap.

        An estimate from traces by chance may be too low, and those who then moved up would not be found from
        below. So one such trace keeps the shard interior, for a period: those who left it may have crashed.
        """
        config = self._config
        last = next((t for t in reversed(self.traces.values()) if not t.sure), None)
        counts = last is not None and last.expires - now > config.record_life - config.period
        sure = len(self.traces) - self._by_chance
        below = self._stand_for if counts else sure
        if len(self.members) > config.split or below > 1.5 * config.merge:
            self.interior = True
        elif not counts and len(self.members) + sure < config.merge:
            self.interior = False
        return self.interior

    def settled(self, now: float) -> bool:
        """Whether every announcement to this shard must have been heard here, and they still come."""
        config = self._config
        return now - self.since >= config.round_time and now - self.heard <= config.silence

    def young(self, now: float) -> bool:
        """Whether members of the shard may not have come down yet."""
        return self._shard.depth > 0 and now - self.born < self._config.round_time

    def hint(self) -> int:
        """The depth at which those that left traces live: the middle one."""
        if not self.traces:
            return self._shard.depth
        left, depths = len(self.traces) // 2, self._trace_depths
        for depth in sorted(depths):
            left -= depths[depth]
            if left < 0:
                break
        return depth

    def fingerprints(self) -> bytes:
        """Four bytes for each member."""
        return self._list()[0]

    def ranked(self, salt: int, skip: int, want: int) -> list[Contact]:
        """Members in the order of a salt."""
        members = self._list()[1]
        return [members[mark] for mark in by_rank(members, salt)[skip : skip + want]]

    def _list(self) -> tuple[bytes, dict[int, Contact]]:
        """Kept until the members change: a shard is asked for hundreds of times as often."""
        if self._listed is None:
            members = {record.fingerprint: record.contact for record in self.members.values()}
            self._listed = (pack(f">{len(members)}I", *members), members)
        return self._listed

    def _count_trace(self, trace: AnnouncedMember, by: int) -> None:
        self._by_chance += 0 if trace.sure else by
        self._stand_for += by * self._stands_for(trace)
        at = trace.leaf_depth
        self._trace_depths[at] = self._trace_depths.get(at, 0) + by

    def _stands_for(self, trace: AnnouncedMember) -> float:
        if trace.sure:
            return 1.0
        levels_up = min(trace.leaf_depth - self._shard.depth, _SPARSEST)
        missed: float = (1 - 2.0**-levels_up) ** self._config.announcements_a_life
        return 1 / (1 - missed)


class ShardStore:
    """Shards by their place in the tree; one record for each member in each shard.

    What does not fit is refused, since records expire by themselves within one time-to-live: a flood cannot
    push out those that were there before. Only the block of addresses with the most records makes way for
    others, so that no host with many ports has all the room.
    """

    def __init__(self, config: DirectoryConfig) -> None:
        self._config = config
        self._shards: dict[Shard, HeldShard] = {}
        self._per_address: dict[Address, int] = {}
        self._in_block: Counter[str] = Counter()
        """Records of each block of addresses."""
        self._withdrawn: dict[tuple[Shard, PeerId], tuple[int, float]] = {}
        self._swept = float("-inf")
        self.records = 0

    def __len__(self) -> int:
        return len(self._shards)

    def held(self, shard: Shard) -> HeldShard | None:
        """The shard as it is, with what may have expired just now."""
        return self._shards.get(shard)

    def get(self, shard: Shard, now: float) -> HeldShard | None:
        """The shard, without what has expired; None where nothing is held."""
        self._sweep(now)
        held = self._shards.get(shard)
        if held is not None and held.next_expiry() <= now:
            self._expire(shard, held, now)
            return self._shards.get(shard)
        return held

    def put(
        self, shard: Shard, sender: Contact, leaf_depth: int, stay: int, sure: bool, now: float
    ) -> str:
        """Hold the sender; an empty string, or the reason why not."""
        held = self.get(shard, now)
        former = held.get(sender.id) if held else None
        if self._withdrawn.get((shard, sender.id), (None, 0.0))[0] == stay:
            return "withdrawn"
        if former is not None and former.contact != sender:
            return HELD_ELSEWHERE
        if held is not None and not held.has_room(sender.id, leaf_depth):
            return "shard_full"
        if former is None:
            self._replace_at(held, sender)
            refusal = self._no_room(sender)
            if refusal == STORE_FULL and self._make_way_for(sender):
                refusal = self._no_room(sender)
            if refusal:
                return refusal
            self._count(sender)
            held = self._shards.get(shard)  # it may have lost its last record to make room
        if held is None:
            held = self._shards[shard] = HeldShard(shard, self._config, now)
        held.put(sender, leaf_depth, stay, sure, now)
        surplus = held.oldest_trace_above(self._config.capacity)
        if surplus is not None:
            self._drop(shard, held, surplus)
        return ""

    def remove(self, shard: Shard, sender: Contact, stay: int, now: float) -> None:
        """Forget the sender, and remember for a while that this stay of its is over."""
        held = self.get(shard, now)
        record = held.get(sender.id) if held else None
        if record is not None and record.contact != sender:
            return
        self._withdrawn.pop((shard, sender.id), None)
        self._withdrawn[shard, sender.id] = (stay, now + self._config.record_life)
        if len(self._withdrawn) > self._config.max_records // 4:
            del self._withdrawn[next(iter(self._withdrawn))]
        if held is not None and record is not None:
            self._drop(shard, held, sender)

    def adopt(
        self, shard: Shard, copies: Iterable[ShardCopy], age: float, lived: float, now: float
    ) -> None:
        """Take what others hold, since `age` seconds, of a shard that is held here since a moment ago, and
        that began `lived` seconds ago."""
        held = self.get(shard, now)
        if held is None:
            return
        for copy in copies:
            sender = copy.contact
            is_over = self._withdrawn.get((shard, sender.id), (None, 0.0))[0] == copy.stay
            is_known = held.get(sender.id) is not None or held.at(sender.address) is not None
            fits = held.has_room(sender.id, copy.leaf_depth) and not self._no_room(sender)
            if is_over or is_known or not fits or len(held.traces) >= self._config.capacity:
                continue
            self._count(sender)
            expires = now + min(copy.left, self._config.record_life)
            mark = fingerprint(shard.topic, sender)
            held.adopt(
                AnnouncedMember(sender, mark, copy.leaf_depth, copy.stay, copy.sure, expires)
            )
        held.complete(now - age, now - lived)

    def forget(self, shard: Shard, member: Contact) -> None:
        """Drop a member that has crashed."""
        held = self._shards.get(shard)
        record = held.get(member.id) if held is not None else None
        if held is not None and record is not None and record.contact == member:
            self._drop(shard, held, member)

    def _replace_at(self, held: HeldShard | None, sender: Contact) -> None:
        """A process that came back with another id takes the place of what it was before."""
        former = held.at(sender.address) if held else None
        if held is not None and former is not None:
            held.remove(former)
            self._forget([sender.address])

    def _no_room(self, sender: Contact) -> str:
        if self.records >= self._config.max_records:
            return STORE_FULL
        if self._per_address.get(sender.address, 0) >= self._config.max_records_per_address:
            return "address_full"
        return ""

    def _make_way_for(self, sender: Contact) -> bool:
        """Whether the block of addresses with the most records has lost some for another block: several,
        since they have to be looked for."""
        ((largest, most),) = self._in_block.most_common(1)
        surplus = most - self._in_block[block_of(sender.host)] - 1
        if surplus <= 0:
            return False
        theirs = (
            (shard, held, record.contact)
            for shard, held in self._shards.items()
            for record in (*held.members.values(), *held.traces.values())
            if block_of(record.contact.host) == largest
        )
        for one in list(islice(theirs, min(surplus, max(1, self._config.max_records // 64)))):
            self._drop(*one)
        return True

    def _count(self, sender: Contact) -> None:
        """One more record is held."""
        self.records += 1
        self._per_address[sender.address] = self._per_address.get(sender.address, 0) + 1
        self._in_block[block_of(sender.host)] += 1

    def _drop(self, shard: Shard, held: HeldShard, sender: Contact) -> None:
        held.remove(sender.id)
        self._forget([sender.address])
        if not held:
            del self._shards[shard]

    def _sweep(self, now: float) -> None:
        """Expire everywhere, now and then: shards that nobody asks for must go too."""
        if now - self._swept < self._config.period / 4:
            return
        self._swept = now
        for shard, held in list(self._shards.items()):
            if held.next_expiry() <= now:
                self._expire(shard, held, now)
        while self._withdrawn:
            oldest = next(iter(self._withdrawn))
            if self._withdrawn[oldest][1] > now:
                break
            del self._withdrawn[oldest]

    def _expire(self, shard: Shard, held: HeldShard, now: float) -> None:
        self._forget(held.expire(now))
        if not held:
            del self._shards[shard]

    def _forget(self, addresses: list[Address]) -> None:
        for address in addresses:
            self.records -= 1
            block = block_of(address.host)
            self._in_block[block] -= 1
            if not self._in_block[block]:
                del self._in_block[block]
            left = self._per_address[address] - 1
            if left:
                self._per_address[address] = left
            else:
                del self._per_address[address]
