"""All that a participant knows of its topic: the roster, the matrix, and what everybody says it sees.

Merging is idempotent and does not depend on any order, so knowledge spreads by any path.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.topic_membership.matrix import Matrix
from pubsub.topic_membership.messages import Entry, Row, Status
from pubsub.topic_membership.news import Item, Kind
from pubsub.topic_membership.roster import Roster, as_bytes, hashed


class TopicKnowledge:
    """Rows and statuses are kept for participants in the boot that the roster names, and for nobody else."""

    def __init__(self, most_participants: int) -> None:
        self.roster = Roster(most_participants)
        self.matrix = Matrix()
        self.statuses: dict[PeerId, Status] = {}
        self._status_digest = 0

    @property
    def view_fingerprint(self) -> bytes:
        """Of what decides the views: who has joined, and the states of all channels."""
        return as_bytes(self.roster.digest + self.matrix.digest)

    @property
    def fingerprint(self) -> bytes:
        """Of everything."""
        return as_bytes(self.roster.digest + self.matrix.digest + self._status_digest)

    def merge_entry(self, entry: Entry, now: float) -> bool:
        known = self.roster.joined.get(entry.id)
        if not self.roster.merge(entry, now):
            return False
        if known is None or entry.left or known.boot != entry.boot:
            self.matrix.drop(entry.id)
            self._drop_status(entry.id)
        return True

    def merge_row(self, row: Row) -> bool:
        entry = self.roster.joined.get(row.owner)
        return entry is not None and row.boot == entry.boot and self.matrix.merge(row)

    def merge_status(self, status: Status) -> bool:
        entry = self.roster.joined.get(status.owner)
        known = self.statuses.get(status.owner)
        if entry is None or status.boot != entry.boot:
            return False
        if known is not None and status.serial <= known.serial:
            return False
        self._drop_status(status.owner)
        self.statuses[status.owner] = status
        self._status_digest += _hash(status)
        return True

    def items(self) -> list[Item]:
        """Everything there is to tell, of those who left too: one that was away may not know."""
        return [
            *(Item(Kind.ENTRY, peer) for peer in (*self.roster.joined, *self.roster.left)),
            *(Item(Kind.ROW, peer) for peer in self.matrix.rows),
            *(Item(Kind.STATUS, peer) for peer in self.statuses),
        ]

    def _drop_status(self, owner: PeerId) -> None:
        status = self.statuses.pop(owner, None)
        if status is not None:
            self._status_digest -= _hash(status)


def _hash(status: Status) -> int:
    return hashed(status.owner, status.boot, status.serial)
