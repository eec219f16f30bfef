"""The two sides of an arc between members: whom this process holds, and who holds this process.

An arc from i to j is an entry for j in i's *partial view* and one for i in j's *in-view*. The first has a
lease, the second a deadline by which i's next heartbeat must have come. Heartbeats make the in-view follow
the partial views: an entry that is missing appears with the next one, one that is wrong ends at its deadline.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.membership.scamp.messages import Subscription

MOST_HELD = 256
"""The most members of a view, against peers that make up subscriptions; honest views are far smaller."""

MOST_HOLDERS = 1024
"""The most members of an in-view, against peers that make up heartbeats."""


class Held:
    """One member of a partial view."""

    __slots__ = ("contact", "expires", "term")

    def __init__(self, subscription: Subscription, now: float) -> None:
        self.contact = subscription.subscriber
        self.renew(subscription, now)

    def renew(self, subscription: Subscription, now: float) -> None:
        self.term = subscription.term
        self.expires = now + subscription.lease

    def subscription(self, now: float) -> Subscription:
        """What another member needs to hold the same member; the lease is what is left of it."""
        return Subscription(self.contact, self.term, max(self.expires - now, 1.0))


class PartialView:
    """The members that this process holds: its topic table."""

    __slots__ = ("_held", "_table")

    def __init__(self) -> None:
        self._held: OrderedDict[PeerId, Held] = OrderedDict()
        self._table: tuple[Contact, ...] | None = ()

    @property
    def table(self) -> tuple[Contact, ...]:
        if self._table is None:
            self._table = tuple([held.contact for held in self._held.values()])
        return self._table

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._held

    def get(self, peer: PeerId) -> Held | None:
        return self._held.get(peer)

    def add(self, held: Held) -> None:
        self._held[held.contact.id] = held
        self._table = None

    def remove(self, peer: PeerId) -> Held | None:
        held = self._held.pop(peer, None)
        if held is not None:
            self._table = None
        return held

    def next_in_turn(self) -> Held:
        """The member whose turn is the longest ago; its turn is now."""
        held = next(iter(self._held.values()))
        self._held.move_to_end(held.contact.id)
        return held

    def expired(self, now: float) -> list[Held]:
        return [held for held in self._held.values() if held.expires <= now]

    def clear(self) -> None:
        self._held.clear()
        self._table = ()


class InView:
    """The members that hold this process."""

    __slots__ = ("_deadlines",)

    def __init__(self) -> None:
        self._deadlines: dict[PeerId, tuple[Contact, int, float]] = {}

    @property
    def contacts(self) -> list[Contact]:
        return [contact for contact, _, _ in self._deadlines.values()]

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._deadlines

    def of_term(self, term: int) -> int:
        """How many hold this process by a subscription of this term."""
        return sum([held_by == term for _, held_by, _ in self._deadlines.values()])

    def to_spare(self, term: int, count: int, random: Randomness) -> list[Contact]:
        """Some that might let go: those that hold this process by an older subscription first."""
        old = [contact for contact, held_by, _ in self._deadlines.values() if held_by != term]
        new = [contact for contact, held_by, _ in self._deadlines.values() if held_by == term]
        random.shuffle(old)
        random.shuffle(new)
        return (old + new)[:count]

    def heard(self, holder: Contact, term: int, deadline: float) -> bool:
        """`holder` says that it holds this process; False when there is no more room."""
        if len(self._deadlines) >= MOST_HOLDERS and holder.id not in self._deadlines:
            return False
        self._deadlines[holder.id] = (holder, term, deadline)
        return True

    def remove(self, peer: PeerId) -> None:
        self._deadlines.pop(peer, None)

    def expire(self, now: float) -> None:
        late = [peer for peer, (_, _, deadline) in self._deadlines.items() if deadline <= now]
        for peer in late:
            del self._deadlines[peer]

    def clear(self) -> None:
        self._deadlines.clear()
