"""All that a participant knows of its topic, and what of it the others were not told.

The *roster* says who has subscribed, the *matrix* which channels between them are open, *sightings* who says
that it sees the same. Merging is idempotent and does not depend on any order, so knowledge spreads by any
path; *news* says which of it each participant was not told yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from overlay.bounded import remember
from overlay.contact import PeerId
from pubsub.topics.messages import FINGERPRINT_BYTES, Entry, Row, Sight

_MODULUS = 1 << (8 * FINGERPRINT_BYTES)


def hashed(*parts: bytes | int) -> int:
    """A 64-bit hash. Sums of such hashes are digests that do not depend on any order."""
    text = b"".join(
        part if isinstance(part, bytes) else part.to_bytes(8, "big", signed=True) for part in parts
    )
    return int.from_bytes(hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES).digest(), "big")


def as_bytes(digest: int) -> bytes:
    return (digest % _MODULUS).to_bytes(FINGERPRINT_BYTES, "big")


class Roster:
    """The participants, and for a while those who left.

    Two rosters that have seen the same entries, in whatever order and however often, are equal.
    """

    def __init__(self, most: int) -> None:
        self.joined: dict[PeerId, Entry] = {}
        """The participants, reachable or not."""
        self.digest = 0
        """A digest of who has joined, with their boots; those who left do not count."""
        self.revisions = 0
        """Digest of the filters that were changed."""
        self.left: dict[PeerId, tuple[Entry, float]] = {}
        """The participants that left, and when this was heard."""
        self._most = most

    @property
    def is_full(self) -> bool:
        """Whether one more participant is refused."""
        return len(self.joined) >= self._most

    def get(self, peer: PeerId) -> Entry | None:
        """The entry of a participant, or of one that left."""
        entry = self.joined.get(peer)
        if entry is None and peer in self.left:
            entry = self.left[peer][0]
        return entry

    def merge(self, entry: Entry, now: float) -> bool:
        """Take an entry; False when it is not news, or there is no room for one more participant.

        Of those who left, as many are remembered as may take part; the one that left first is forgotten."""
        known = self.get(entry.id)
        if known is not None and entry.stamp <= known.stamp:
            return False
        if not entry.left and entry.id not in self.joined and self.is_full:
            return False
        self._remove(entry.id)
        if entry.left:
            remember(self.left, entry.id, (entry, now), self._most)
        else:
            self.joined[entry.id] = entry
            self.digest += hashed(entry.id, entry.boot)
            self.revisions += _hash_of_revision(entry)
        return True

    def forget_left(self, before: float) -> list[PeerId]:
        """Forget those of whom it was heard before a time that they left."""
        old = [peer for peer, (_, heard) in self.left.items() if heard < before]
        for peer in old:
            del self.left[peer]
        return old

    def _remove(self, peer: PeerId) -> None:
        self.left.pop(peer, None)
        entry = self.joined.pop(peer, None)
        if entry is not None:
            self.digest -= hashed(entry.id, entry.boot)
            self.revisions -= _hash_of_revision(entry)


def _hash_of_revision(entry: Entry) -> int:
    return hashed(entry.id, entry.boot, entry.revision) if entry.revision else 0


class Matrix:
    """The states of all channels: one row for each participant that is known to have one.

    Every participant owns a row: the states of its own channels, with a logical timestamp that it raises at
    each change (DACE, section 7.1). A row that arrives replaces the known one if its timestamp is later;
    the paper's appendix compares the other way round (line 50), and would keep the oldest. It also raises
    the timestamps of rows that are merely passed on (line 44), which would make an old row look newer than
    its owner's own: here only the owner raises it, when its channels change.

    A channel is open when both of its ends say so; so a participant that has no row yet is not reachable.
    """

    def __init__(self) -> None:
        self.rows: dict[PeerId, Row] = {}
        self.digest = 0
        """A digest of all timestamps."""
        self._closed: dict[PeerId, frozenset[PeerId]] = {}

    def merge(self, row: Row) -> bool:
        """Take a row if it is later than the known one."""
        known = self.rows.get(row.owner)
        if known is not None and (row.boot, row.version) <= (known.boot, known.version):
            return False
        self.drop(row.owner)
        self.rows[row.owner] = row
        self._closed[row.owner] = frozenset(row.closed)
        self.digest += _hash(row)
        return True

    def drop(self, owner: PeerId) -> None:
        """Forget the row of one that left or began anew."""
        row = self.rows.pop(owner, None)
        if row is not None:
            del self._closed[owner]
            self.digest -= _hash(row)

    def is_open(self, one: PeerId, other: PeerId) -> bool:
        """Whether the channel between the two is open, as far as is known here."""
        closed = self._closed
        return (
            one in closed
            and other in closed
            and other not in closed[one]
            and one not in closed[other]
        )

    def reachable(self, start: PeerId) -> tuple[PeerId, ...]:
        """All that can communicate with `start` over open channels, directly or through others, in order."""
        if start not in self.rows:
            return (start,)
        found = [start]
        left = [peer for peer in self.rows if peer != start]
        closed = self._closed
        for peer in found:  # it grows meanwhile
            if not left:
                break
            shut = closed[peer]
            far = [other for other in left if other in shut or peer in closed[other]]
            if len(far) < len(left):
                still = set(far)
                found += [other for other in left if other not in still]
                left = far
        return tuple(sorted(found))


def _hash(row: Row) -> int:
    return hashed(row.owner, row.boot, row.version)


MOST_EARLY = 8
"""Fingerprints of others that are remembered, for they are often what will be seen here in a moment."""


class Sightings:
    """Who has said that it sees the view which this participant sees: one view at a time, the one last looked
    at. Views do not come back, so what was said of others is of no use to anybody.

    A fingerprint stands for all participants in their boots, so those who have the same one have the same
    participants in the same order, and tell each other who has spoken as one bit a participant: merging is a
    bitwise or, whatever the size of the topic.
    """

    def __init__(self, me: PeerId) -> None:
        self._me = me
        self._sees = b""
        self._places: dict[PeerId, int] = {}
        self._bits = 0
        self._early: dict[bytes, int] = {}

    def look_at(self, fingerprint: bytes, participants: Iterable[PeerId]) -> None:
        """Another view is seen from now on: nobody has said so, but those whose word was here before."""
        self._sees = fingerprint
        self._places = {peer: place for place, peer in enumerate(sorted(participants))}
        self._bits = self._of_others(self._early.pop(fingerprint, 0))

    def say(self) -> None:
        """This participant says that it sees the view."""
        self._bits |= self.of((self._me,))

    @property
    def is_said(self) -> bool:
        """Whether it has."""
        return self.include_one(self._me)

    def merge(self, sight: Sight) -> bool:
        """Take what a peer says; True if anything of it is news about the view that is seen here."""
        bits = int.from_bytes(sight.by, "big")
        if sight.sees != self._sees:
            self._remember(sight.sees, bits)
            return False
        before = self._bits
        self._bits |= self._of_others(bits)
        return self._bits != before

    def is_all_of(self, sight: Sight) -> bool:
        """Whether a peer's sight says all that is known here."""
        return sight == self.wire()

    def of(self, peers: Iterable[PeerId]) -> int:
        """The bits of some participants."""
        places = self._places
        return sum(1 << places[peer] for peer in peers if peer in places)

    def include(self, bits: int) -> bool:
        """Whether all of these, and at least one, have said that they see the view."""
        return bits != 0 and self._bits & bits == bits

    def include_one(self, peer: PeerId) -> bool:
        """Whether a participant has said that it sees the view."""
        return self.include(self.of((peer,)))

    def wire(self) -> Sight | None:
        """What can be told; None while nobody has said anything."""
        if not self._bits:
            return None
        return Sight(self._sees, self._bits.to_bytes((len(self._places) + 7) // 8, "big"))

    @property
    def digest(self) -> int:
        sight = self.wire()
        return 0 if sight is None else hashed(sight.sees, sight.by)

    def _of_others(self, bits: int) -> int:
        """What this participant sees, it says itself."""
        others = (1 << len(self._places)) - 1 & ~self.of((self._me,))
        return bits & others

    def _remember(self, fingerprint: bytes, bits: int) -> None:
        remember(self._early, fingerprint, bits | self._early.get(fingerprint, 0), MOST_EARLY)


class Kind(IntEnum):
    ENTRY = 0
    ROW = 1
    SIGHT = 2


class NewsItem(NamedTuple):
    kind: Kind
    of: PeerId
    """The participant that the item is about; a sight is one item, of the participant that tells it."""


class News:
    """What changed, in order, and how far each peer was told: only changed rows go on the wire.

    Everything known has a place in one list, in the order in which it was learned or last changed; for each
    participant one number says up to where it was told. So the memory is one place per item and one number
    per participant, and what is new for somebody is found without looking at anything else.
    """

    def __init__(self) -> None:
        self.latest = 0
        self._places: dict[NewsItem, tuple[int, PeerId | None]] = {}
        self._told: dict[PeerId, int] = {}

    def changed(self, item: NewsItem, learned_from: PeerId | None = None) -> None:
        """An item is new, or another than before; it is not told back to whom it came from."""
        self._places.pop(item, None)
        self.latest += 1
        self._places[item] = (self.latest, learned_from)

    def gone(self, item: NewsItem) -> None:
        """There is no such item any more."""
        self._places.pop(item, None)

    def forget(self, peer: PeerId) -> None:
        """A participant left: there is nothing to tell of it but that, and nothing to tell to it."""
        self.gone(NewsItem(Kind.ROW, peer))
        self._told.pop(peer, None)

    def untold(self, peer: PeerId) -> list[NewsItem]:
        """What a peer was not told yet, the earliest first."""
        told = self._told.get(peer, 0)
        items: list[NewsItem] = []
        for item, (place, learned_from) in reversed(self._places.items()):
            if place <= told:
                break
            if learned_from != peer:
                items.append(item)
        items.reverse()
        return items

    def told(self, peer: PeerId) -> None:
        """A peer has just been told everything."""
        self._told[peer] = self.latest

    def known_by(self, peers: Iterable[PeerId]) -> None:
        """These peers know all that there is, from this participant or from another."""
        self._told.update(dict.fromkeys(peers, self.latest))

    def not_told(self, peer: PeerId) -> None:
        """Something that a peer was told may have been lost: tell it everything again."""
        self._told.pop(peer, None)


class TopicKnowledge:
    """Rows are kept for participants in the boot that the roster names, and for nobody else."""

    def __init__(self, me: PeerId, most_participants: int) -> None:
        self._me = me
        self.roster = Roster(most_participants)
        self.matrix = Matrix()
        self.sightings = Sightings(me)

    @property
    def view_fingerprint(self) -> bytes:
        """A fingerprint of what decides the views: who has joined, and the states of all channels."""
        return as_bytes(self.roster.digest + self.matrix.digest)

    @property
    def fingerprint(self) -> bytes:
        """A fingerprint of everything."""
        roster = self.roster
        return as_bytes(
            roster.digest + roster.revisions + self.matrix.digest + self.sightings.digest
        )

    def merge_entry(self, entry: Entry, now: float) -> bool:
        known = self.roster.joined.get(entry.id)
        if not self.roster.merge(entry, now):
            return False
        if known is None or entry.left or known.boot != entry.boot:
            self.matrix.drop(entry.id)
        return True

    def merge_row(self, row: Row) -> bool:
        entry = self.roster.joined.get(row.owner)
        return entry is not None and row.boot == entry.boot and self.matrix.merge(row)

    def items_beside_the_view(self) -> list[NewsItem]:
        """What those who have said that they see the same view may still not know."""
        revised = (peer for peer, entry in self.roster.joined.items() if entry.revision)
        return [*(NewsItem(Kind.ENTRY, peer) for peer in revised), NewsItem(Kind.SIGHT, self._me)]

    def items(self) -> list[NewsItem]:
        """Everything there is to tell, of those who left too: one that was away may not know."""
        return [
            *(NewsItem(Kind.ENTRY, peer) for peer in (*self.roster.joined, *self.roster.left)),
            *(NewsItem(Kind.ROW, peer) for peer in self.matrix.rows),
            NewsItem(Kind.SIGHT, self._me),
        ]
