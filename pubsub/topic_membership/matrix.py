"""The states of all channels between the participants of a topic, as one participant knows them.

Every participant owns a row: the states of its own channels, with a logical timestamp that it raises at each
change (DACE, section 7.1). A row that arrives replaces the known one if its timestamp is later; the paper's
appendix compares the other way round (line 50), and would keep the oldest. It also raises the timestamps of
rows that are merely passed on (line 44), which would make an old row look newer than its owner's own: here
only the owner raises it, when its channels change.

A channel is open when both of its ends say so; so a participant that has no row yet is not reachable.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.topic_membership.messages import Row
from pubsub.topic_membership.roster import hashed


class Matrix:
    """One row for each participant that is known to have one."""

    def __init__(self) -> None:
        self.rows: dict[PeerId, Row] = {}
        self.digest = 0
        """Of all timestamps."""
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
