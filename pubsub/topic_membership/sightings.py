"""Who has said that it sees the view which this participant sees.

A fingerprint stands for all participants in their boots, so those who have the same one have the same
participants in the same order, and tell each other who has spoken as one bit a participant: merging is a
bitwise or, whatever the size of the topic.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import PeerId
from pubsub.topic_membership.messages import Sight
from pubsub.topic_membership.roster import hashed

MOST_EARLY = 8
"""Fingerprints of others that are remembered, for they are often what will be seen here in a moment."""


class Sightings:
    """Of one view at a time, the one last looked at. Views do not come back, so what was said of others is
    of no use to anybody."""

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
        bits |= self._early.pop(fingerprint, 0)
        self._early[fingerprint] = bits
        if len(self._early) > MOST_EARLY:
            del self._early[next(iter(self._early))]
