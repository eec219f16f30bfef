"""All that a participant knows of its topic: the roster, the matrix, and who says that it sees the same.

Merging is idempotent and does not depend on any order, so knowledge spreads by any path.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.topic_membership.matrix import Matrix
from pubsub.topic_membership.messages import Entry, Row
from pubsub.topic_membership.news import Item, Kind
from pubsub.topic_membership.roster import Roster, as_bytes
from pubsub.topic_membership.sightings import Sightings


class TopicKnowledge:
    """Rows are kept for participants in the boot that the roster names, and for nobody else."""

    def __init__(self, me: PeerId, most_participants: int) -> None:
        self._me = me
        self.roster = Roster(most_participants)
        self.matrix = Matrix()
        self.sightings = Sightings(me)

    @property
    def view_fingerprint(self) -> bytes:
        """Of what decides the views: who has joined, and the states of all channels."""
        return as_bytes(self.roster.digest + self.matrix.digest)

    @property
    def fingerprint(self) -> bytes:
        """Of everything."""
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

    def items_beside_the_view(self) -> list[Item]:
        """What those who have said that they see the same view may still not know."""
        revised = (peer for peer, entry in self.roster.joined.items() if entry.revision)
        return [*(Item(Kind.ENTRY, peer) for peer in revised), Item(Kind.SIGHT, self._me)]

    def items(self) -> list[Item]:
        """Everything there is to tell, of those who left too: one that was away may not know."""
        return [
            *(Item(Kind.ENTRY, peer) for peer in (*self.roster.joined, *self.roster.left)),
            *(Item(Kind.ROW, peer) for peer in self.matrix.rows),
            Item(Kind.SIGHT, self._me),
        ]
