"""When a message need not be kept for others any more (sections 4.2.1 and 4.2.2).

Each distributor tells the others, by source, the highest number that it has, and the highest that all of its
subscribers without gaps have. A message is *stable* when every distributor of the view has it. It may be
let go when, in addition, every subscriber without gaps in the system has it. So no distributor needs to know
the others' subscribers, only how far behind the slowest is. What a distributor that left the view had told
stays a claim for a while: its subscribers without gaps may be about to come here for the rest. A newcomer,
which was not told such claims, lets go of nothing for as long.

When there is no view, nothing is stable: whoever may be there has not said what it has.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.distributors.protocol.view import View

Key = tuple[str, bytes]
"""A service and a source."""


SHORT_PATIENCE = 5.0
"""Seconds for which the claims count of one that left without having told of subscribers without gaps."""


class _Claims:
    """What one distributor has told."""

    __slots__ = ("high", "low", "no_gap", "safe")

    def __init__(self) -> None:
        self.no_gap: dict[str, bool] = {}
        """By service, whether it has subscribers without gaps."""
        self.low: dict[Key, int] = {}
        self.high: dict[Key, int] = {}
        self.safe: dict[Key, int] = {}


class Stability:
    """What the other distributors have, as they told."""

    def __init__(self, me: PeerId, patience: float) -> None:
        """`patience`: seconds for which the claims of one that left the view are kept."""
        self._me = me
        self._patience = patience
        self._view: View | None = None
        self._joined_at: float | None = None
        """When this one came into a view of others, while it may not know of claims that still count."""
        self._others: list[PeerId] = []
        self._runs: dict[PeerId, int] = {}
        self._claims: dict[PeerId, _Claims] = {}
        self._orphans: list[tuple[_Claims, float]] = []
        """The claims of departed distributors, and when they left."""

    def change_view(self, view: View | None, now: float) -> None:
        """Wait for the members of this view from now on."""
        members = view.members if view is not None else ()
        if self._view is None and len(members) > 1:
            self._joined_at = now
        self._view = view
        self._others = [member.id for member in members if member.id != self._me]
        runs = {member.id: member.run for member in members}
        for peer in [one for one in self._claims if runs.get(one) != self._runs.get(one)]:
            self._orphans.append((self._claims.pop(peer), now))
        self._runs = runs

    def told_service(self, peer: PeerId, service: str, no_gap: bool) -> None:
        """A distributor has a service, with or without subscribers without gaps."""
        self._of(peer).no_gap[service] = no_gap

    def told(self, peer: PeerId, key: Key, low: int, high: int, safe: int) -> None:
        """A distributor holds numbers `low` to `high`, and its subscribers without gaps have `safe`."""
        claims = self._of(peer)
        claims.low[key] = low
        claims.high[key] = high
        claims.safe[key] = safe

    def expire(self, now: float) -> None:
        if self._joined_at is not None and now - self._joined_at >= self._patience:
            self._joined_at = None
        longest, short = now - self._patience, now - min(SHORT_PATIENCE, self._patience)
        self._orphans = [
            (claims, left)
            for claims, left in self._orphans
            if left > (longest if any(claims.no_gap.values()) else short)
        ]

    def forget_departed(self) -> None:
        """Keep nothing any more for the subscribers of those who left."""
        self._orphans.clear()
        self._joined_at = None

    def forget(self, key: Key) -> None:
        """The source is gone."""
        for claims in self._claims.values():
            for numbers in (claims.low, claims.high, claims.safe):
                numbers.pop(key, None)

    @property
    def has_heard_all(self) -> bool:
        """Whether every member of the view has told something."""
        return self._view is not None and all(peer in self._claims for peer in self._others)

    def stable(self, key: Key, mine: int) -> int:
        """The highest number that every distributor of the view has."""
        if self._view is None:
            return 0
        return min([mine, *(self._high(peer, key) for peer in self._others)])

    def releasable(self, key: Key, mine: int) -> int:
        """The highest number that neither a distributor nor another one's subscriber may still need."""
        number = self.stable(key, mine) if self._joined_at is None else 0
        for peer in self._others:
            claims = self._claims.get(peer)
            number = min(number, claims.safe.get(key, 0) if claims else 0)
        for claims, _ in self._orphans:
            unknown = 0 if claims.no_gap.get(key[0]) else number
            number = min(number, claims.safe.get(key, unknown))
        return number

    def lowest_held(self, key: Key) -> int:
        """The lowest number of a source that any of the others still holds; above `highest` if none does."""
        held = [
            low
            for peer in self._others
            if (low := self._low(peer, key)) is not None and low <= self._high(peer, key)
        ]
        return min(held, default=self.highest(key) + 1)

    def highest(self, key: Key) -> int:
        return max((self._high(peer, key) for peer in self._others), default=0)

    def holders(self, key: Key, number: int) -> list[PeerId]:
        """Those of the others that hold a message."""
        return [
            peer
            for peer in self._others
            if (low := self._low(peer, key)) is not None and low <= number <= self._high(peer, key)
        ]

    def _of(self, peer: PeerId) -> _Claims:
        claims = self._claims.get(peer)
        if claims is None:
            claims = self._claims[peer] = _Claims()
        return claims

    def _high(self, peer: PeerId, key: Key) -> int:
        claims = self._claims.get(peer)
        return claims.high.get(key, 0) if claims else 0

    def _low(self, peer: PeerId, key: Key) -> int | None:
        claims = self._claims.get(peer)
        return claims.low.get(key) if claims else None
