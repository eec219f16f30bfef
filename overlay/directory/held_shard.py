"""One shard as one node holds it: its members, its traces, and when it splits and merges.

A *member* lives in this shard. A *trace* was left by a member that lives deeper on the same path; traces tell
whoever comes to this shard that the tree goes on below. In each period a member refreshes one ancestor, the
one k levels up with probability 2**-k, so that every ancestor of a full leaf hears of about as many
members a period as the leaf has, however large the topic. In the three periods of a record's life that
is a share 1 - (1 - 2**-k)**3 of those who live there, which tells how many they are.

Both are soft state of one common life, so the order of arrival is the order of expiry.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack

from overlay.contact import Address, Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.tree import Shard, by_rank, fingerprint

_SPARSEST = 3
"""Levels: a trace from farther below counts as one from there, so that one trace is never many members."""


@dataclass(frozen=True, slots=True)
class Record:
    """One announcement that was taken; a trace if `leaf_depth` is deeper than the shard."""

    contact: Contact
    fingerprint: int
    leaf_depth: int
    stay: int
    expires: float


class HeldShard:
    """The members and traces of one shard. Bounded by whoever puts into it; see `has_room`."""

    __slots__ = (
        "_at_address",
        "_config",
        "_packed",
        "_shard",
        "_stand_for",
        "heard",
        "interior",
        "members",
        "since",
        "traces",
    )

    def __init__(self, shard: Shard, config: DirectoryConfig, now: float) -> None:
        self._shard = shard
        self._config = config
        self._packed: bytes | None = None
        self._at_address: dict[Address, PeerId] = {}
        self.members: dict[PeerId, Record] = {}
        self.traces: dict[PeerId, Record] = {}
        self._stand_for = 0.0
        """Members that the traces stand for."""
        self.interior = False
        self.since = now
        self.heard = now

    def __len__(self) -> int:
        return len(self.members) + len(self.traces)

    def get(self, member: PeerId) -> Record | None:
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

    def put(self, contact: Contact, leaf_depth: int, stay: int, now: float) -> None:
        """Hold or refresh a record; a member that has moved deeper becomes a trace, and back."""
        packed = self._packed if contact.id in self.members else None
        self.remove(contact.id)
        record = Record(
            contact,
            fingerprint(self._shard.topic, contact),
            leaf_depth,
            stay,
            now + self._config.record_life,
        )
        if leaf_depth == self._shard.depth:
            self.members[contact.id] = record
            self._packed = packed
        else:
            self.traces[contact.id] = record
            self._stand_for += self._stands_for(record)
        self._at_address[contact.address] = contact.id
        self.heard = now

    def remove(self, member: PeerId) -> None:
        record = self.members.pop(member, None)
        if record is not None:
            self._packed = None
        else:
            record = self.traces.pop(member, None)
            if record is None:
                return
            self._stand_for -= self._stands_for(record)
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

    def advise(self) -> bool:
        """Whether members should live deeper than here; between yes and no is a wide gap."""
        config = self._config
        if len(self.members) > config.split or self._stand_for > 1.5 * config.merge:
            self.interior = True
        elif len(self.members) + self._stand_for < config.merge:
            self.interior = False
        return self.interior

    def settled(self, now: float) -> bool:
        """Whether every member must have been heard here, and the members have not moved elsewhere."""
        config = self._config
        return now - self.since >= config.round_time and now - self.heard <= config.silence

    def hint(self) -> int:
        """The depth at which those that left traces live: the middle one."""
        if not self.traces:
            return self._shard.depth
        depths = sorted(trace.leaf_depth for trace in self.traces.values())
        return depths[len(depths) // 2]

    def fingerprints(self) -> bytes:
        """Four bytes for each member; kept until the members change."""
        if self._packed is None:
            values = [record.fingerprint for record in self.members.values()]
            self._packed = pack(f">{len(values)}I", *values)
        return self._packed

    def ranked(self, salt: int, skip: int, want: int) -> list[Contact]:
        """Members in the order of a salt."""
        members = {record.fingerprint: record.contact for record in self.members.values()}
        return [members[mark] for mark in by_rank(members, salt)[skip : skip + want]]

    def _stands_for(self, trace: Record) -> float:
        levels_up = min(trace.leaf_depth - self._shard.depth, _SPARSEST)
        return 1 / (1 - (1 - 2.0**-levels_up) ** 3)
