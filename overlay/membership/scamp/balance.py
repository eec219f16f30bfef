"""What SCAMP is improved by, unless `balance` is False: every member is held by about as many others.

SCAMP alone can fall apart for good under concurrent joins and leaves. Against that, a member looks after
itself with each heartbeat. When its lease ends it renews its subscription in as many copies as it needs; when
clearly fewer members hold it by this subscription than should, it subscribes for the missing ones. Old
holders keep it while the new ones are found, so a renewal that fails harms nobody. When clearly more members
hold it than should, it has some let go: members that few hold would else be chosen seldom from views that
others fill. That happens when many join at once through lossy links, and ask again before they are answered.
Newcomers make views of (c + 1) ln N with a wide spread; renewals settle them at ln N + margin: 11.9 at
N = 1,000, with a spread of 2.5 (in-views: 2).

The census (`census.py`) is the other improvement: it says how many members there are.
"""

from __future__ import annotations

import math

from overlay.membership.scamp.community import ScampState
from overlay.membership.scamp.messages import ScampSubscribe, Spare

TOO_FEW = 0.75
"""A member acts when fewer than this part of the members that its copies should bring hold it."""

TOO_MANY = 1.5
"""A member acts when more than this many times the members that should hold it do."""

COPIES_TO_THE_LOST = 2
"""Copies of the subscription that a member hands on which seemed to have crashed and is back."""

SPARED_AT_ONCE = 8
"""Holders that are asked to let go with one heartbeat."""


class Balance:
    """One member's care for the number of those that hold it."""

    def __init__(self, community: ScampState) -> None:
        self._community = community
        self._wants_more = False
        """More holders are wanted than before, and have not been looked for yet."""

    def want_more(self) -> None:
        """More members are to hold this process than before."""
        self._wants_more = True

    def are_too_few(self) -> bool:
        """Whether clearly fewer members hold this process than should.

        One less than wanted is right after a renewal, until this process welcomes others."""
        community = self._community
        holders = community.holders.of_term(community.term)
        if self._wants_more:
            return holders < community.wanted_holders
        return holders < TOO_FEW * self._wanted_by_copies()

    def take_missing(self) -> int:
        """For how many holders to subscribe anew; they count as looked for from now on."""
        community = self._community
        self.be_content()
        return self._at_random(community.wanted_holders - community.holders.of_term(community.term))

    def be_content(self) -> None:
        """Enough members hold this process, or are being looked for."""
        self._wants_more = False

    def copies_of_renewal(self) -> int:
        """In how many copies a subscription is renewed."""
        return self._at_random(self._wanted_by_copies())

    def _wanted_by_copies(self) -> float:
        """How many members should hold this process because of its subscription, and not of its welcomes."""
        community = self._community
        wanted = community.wanted_holders
        # The welcome makes one more arc, unless the contact is held already, as in small communities.
        arcs_by_welcome = 1 - wanted / max(community.size - 1, 1)
        return wanted - arcs_by_welcome

    def beat(self) -> None:
        """Do what is due with every heartbeat."""
        self._spare_some()
        self._visit_the_lost()

    def _spare_some(self) -> None:
        """Have some of those let go that hold this process beyond its need."""
        community, context = self._community, self._community.context
        holders = len(community.holders)
        # A newcomer's estimate of the size may be less than the members that it has heard from.
        needed = TOO_MANY * community.config.holders(max(community.size, holders + 1.0))
        count = min(max(math.ceil(holders - needed), 0), SPARED_AT_ONCE)
        for holder in community.holders.to_spare(community.term, count, context.random):
            community.holders.remove(holder.id)
            context.send(holder, Spare(community.topic))

    def _visit_the_lost(self) -> None:
        """Now and then subscribe through one that seemed to have crashed (see `Lost`).

        One that answers hands the subscription on in its half of the network."""
        community = self._community
        for lost in community.lost.visits(community.context.now(), community.size):
            subscription = community.own_subscription()
            visit = ScampSubscribe(community.topic, subscription, COPIES_TO_THE_LOST, False)
            community.context.send(lost, visit)

    def _at_random(self, copies: float) -> int:
        """A whole number of copies whose mean is `copies`; at least 1."""
        return max(int(copies + self._community.context.random.random()), 1)
