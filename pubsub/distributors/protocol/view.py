"""A view: the distributors that agree to be the system's, and the predicate that orders views (section 3.1).

Views of one group are numbered, and each is agreed on by a majority of the one before it, so that they are
totally ordered. Exactly half of a view counts as its majority if the most senior member is among it, so
that of two distributors one can do without the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.wire import message

Group = tuple[int, bytes]
"""Which group of distributors: its generation, and who founded it with a random ending. The smaller one of
two groups that meet takes the other's members in."""


Ballot = tuple[int, bytes]
"""The round and the id of the coordinator: ballots of one view are totally ordered."""

NO_GROUP: Group = (0, b"")
NO_BALLOT: Ballot = (-1, b"")


@message(0xB0)
class ViewMember:
    """One run of one distributor. One that comes back after a crash, under its identity, is another member:
    it does not know what it promised before."""

    contact: Contact
    run: int

    @property
    def id(self) -> PeerId:
        return self.contact.id


@dataclass(frozen=True, slots=True)
class View:
    """The members, the most senior first; a member keeps its place for as long as it is one."""

    group: Group
    number: int
    members: tuple[ViewMember, ...]
    """No two of them have one id."""

    def __bool__(self) -> bool:
        return bool(self.members)

    def __contains__(self, peer: object) -> bool:
        """Whether a run of this distributor is a member."""
        return any(member.contact.id == peer for member in self.members)

    def has(self, peer: PeerId, run: int) -> bool:
        """Whether this very run is a member."""
        return any(member.contact.id == peer and member.run == run for member in self.members)

    @property
    def first_ballot(self) -> Ballot:
        """The ballot under which only the most senior member may propose the next view, without asking."""
        return (0, self.members[0].id)

    def has_majority(self, peers: Iterable[PeerId] | Mapping[PeerId, object]) -> bool:
        """Whether these peers may agree on the next view: no two disjoint sets of them ever may."""
        present = dict.fromkeys(peers)
        count = sum(member.id in present for member in self.members)
        if 2 * count == len(self.members):
            return self.members[0].id in present
        return 2 * count > len(self.members)


NO_VIEW = View(NO_GROUP, 0, ())
"""What a distributor has that is in no view: nobody is in it."""
