"""Members that seemed to have crashed, and when to visit one of them.

Nearly always they have, so all members together make a visit a second, and not each of them. After a
partition the visited one answers. Then both know that there may be more, and visit those: so the halves find
each other again within seconds, without a directory.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.context import Randomness

MOST_LOST = 16
"""How many a member remembers, the last ones."""

LOST_SECONDS = 600.0
"""How long they are visited."""

VISITS_A_SECOND = 1.0
"""Visits to the lost that all members of a community make together; in a small one a member makes
`MOST_VISITS` at most."""

MOST_VISITS = 1 / 2
"""Visits of one member with each beat."""

HURRIED_AT_ONCE = 4
"""The lost that are visited with one beat after one of them is back."""

CALM_SECONDS = 30.0
"""How long a visit by others has no such effect again, whoever makes it."""


class Lost:
    """The members that one member has lost."""

    def __init__(self, random: Randomness, beat_seconds: float) -> None:
        """`beat_seconds`: how often `visits` is called."""
        self._random = random
        self._beat_seconds = beat_seconds
        self._kept: dict[PeerId, tuple[Contact, float]] = {}
        """Each with when it is visited no more, in the order of their turns."""
        self._hurried = 0
        """How many are to be visited soon, because another one is back."""
        self._calm_until = 0.0

    def remember(self, member: Contact, now: float) -> None:
        """A member seems to have crashed; but the network may only have been cut in two."""
        self._kept.pop(member.id, None)
        self._kept[member.id] = (member, now + LOST_SECONDS)
        if len(self._kept) > MOST_LOST:
            del self._kept[next(iter(self._kept))]

    def __bool__(self) -> bool:
        return bool(self._kept)

    def heard(self, peer: PeerId) -> bool:
        """Whether it was lost and is back: the network may have been cut in two, and others are back, too."""
        if self._kept.pop(peer, None) is None:
            return False
        if not self._hurried:
            self._hurried = len(self._kept)
        return True

    def visited(self, now: float) -> None:
        """Another member had lost this one: it is as if one of its own were back."""
        if now >= self._calm_until:
            self._calm_until = now + CALM_SECONDS
            self._hurried = len(self._kept)

    @property
    def is_hurried(self) -> bool:
        return self._hurried > 0

    def visits(self, now: float, size: float) -> list[Contact]:
        """Whom to visit with this beat, in a community of `size`."""
        self._kept = {peer: kept for peer, kept in self._kept.items() if kept[1] > now}
        visits = min(self._hurried, HURRIED_AT_ONCE)
        self._hurried -= visits
        if not visits and self._kept:
            chance = min(VISITS_A_SECOND * self._beat_seconds / size, MOST_VISITS)
            visits = int(self._random.random() < chance)
        chosen = list(self._kept)[:visits]
        for peer in chosen:
            self._kept[peer] = self._kept.pop(peer)  # its turn comes last from now on
        return [self._kept[peer][0] for peer in chosen]
