"""What one process knows of its SCAMP community: the parameters, whom it holds, who holds it.

An *arc* from i to j is an entry for j in i's *partial view* and one for i in j's *in-view*. The first has a
lease, the second a deadline by which i's next heartbeat must have come. Heartbeats make the in-view follow
the partial views: an entry that is missing appears with the next one, one that is wrong ends at its deadline.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness
from overlay.failure.detector import SELDOM
from overlay.membership.config import MOST_LEASE_SECONDS, ScampConfig
from overlay.membership.interface import MembershipListener
from overlay.membership.lost import Lost
from overlay.membership.scamp.census import Census
from overlay.membership.scamp.messages import Heartbeat, ScampSubscription
from overlay.metrics import CounterFamily

MOST_HELD = 256
"""The most members of a view, against peers that make up subscriptions; honest views are far smaller."""

MOST_HOLDERS = 1024
"""The most members of an in-view, against peers that make up heartbeats."""


MOST_IN_VAIN = 30
"""Copies of one subscription that a member passes on in a row while it has the subscription itself."""

IN_VAIN_SECONDS = 3.0
"""After so many seconds it passes on one more."""


class HeldArcs:
    """One member of a partial view."""

    __slots__ = ("_in_vain_until", "ask_at", "contact", "expires", "is_light", "term")

    def __init__(self, subscription: ScampSubscription, now: float) -> None:
        self.contact = subscription.subscriber
        self.is_light = False
        """It said that it wants to be asked seldom."""
        self.ask_at = now
        """It is not asked before; its turn passes."""
        self._in_vain_until = now
        self.renew(subscription, now)

    def renew(self, subscription: ScampSubscription, now: float) -> None:
        self.term = subscription.term
        self.expires = now + subscription.lease

    def came_in_vain(self, now: float) -> bool:
        """Count a copy that came although there is one here; True when so many did that few are missing.

        Copies come to the others as often as here, and who has none keeps one in about as many as its view
        has members. So all find their places, and one subscription has a member send few messages in vain."""
        until = max(self._in_vain_until, now) + IN_VAIN_SECONDS
        if until - now > MOST_IN_VAIN * IN_VAIN_SECONDS:
            return True
        self._in_vain_until = until
        return False

    def subscription(self, now: float) -> ScampSubscription:
        """What another member needs to hold the same member; the lease is what is left of it."""
        return ScampSubscription(self.contact, self.term, max(self.expires - now, 1.0))


class PartialView:
    """The members that this process holds: its topic table."""

    __slots__ = ("_held", "_table")

    def __init__(self) -> None:
        self._held: OrderedDict[PeerId, HeldArcs] = OrderedDict()
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

    def get(self, peer: PeerId) -> HeldArcs | None:
        return self._held.get(peer)

    def add(self, held: HeldArcs) -> None:
        self._held[held.contact.id] = held
        self._table = None

    def remove(self, peer: PeerId) -> HeldArcs | None:
        held = self._held.pop(peer, None)
        if held is not None:
            self._table = None
        return held

    def next_in_turn(self) -> HeldArcs:
        """The member whose turn is the longest ago; its turn is now."""
        held = next(iter(self._held.values()))
        self._held.move_to_end(held.contact.id)
        return held

    def expired(self, now: float) -> list[HeldArcs]:
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


class ScampState:
    """The views, the census, and the two things that every part does: hold a member, let go of one."""

    def __init__(
        self,
        topic: str,
        context: Context,
        listener: MembershipListener,
        config: ScampConfig,
        dropped: CounterFamily,
        balance: bool,
    ) -> None:
        self._balances = balance
        self.topic = topic
        self.context = context
        self.listener = listener
        self.config = config
        self.dropped = dropped
        self.view = PartialView()
        self.holders = InView()
        self.lost = Lost(context.random, config.heartbeat_seconds)
        self.census = Census(context.random, context.now(), config.heartbeat_seconds)
        self.term = context.random.getrandbits(32)
        self.renew_at = 0.0

    @property
    def size(self) -> float:
        if self._balances:
            return self.census.size(self.context.now())
        return max(math.exp(len(self.view) / (self.config.c + 1)), len(self.view) + 1.0)

    def packed_census(self) -> bytes:
        """What heartbeats, echoes and welcomes carry of the census."""
        return self.census.packed(self.context.now()) if self._balances else b""

    def take_census(self, packed: bytes) -> None:
        """Take in what another member knows; bytes that are not a census are counted."""
        if packed and self._balances and not self.census.merge(packed, self.context.now()):
            self.dropped.add("malformed_census")

    @property
    def replaces_lost(self) -> bool:
        """Whether a member that is lost leaves an arc that the next echo's hint fills."""
        return self._balances

    @property
    def wanted_holders(self) -> float:
        """How many views this process should be in."""
        return self.config.holders(self.size)

    def own_subscription(self) -> ScampSubscription:
        """This process's subscription; its lease leaves time for the renewal to be answered."""
        lease = max(self.renew_at - self.context.now(), 0.0) + self.config.grace_seconds
        return ScampSubscription(self.context.contact, self.term, lease)

    def new_term(self) -> None:
        """Begin another subscription of this process."""
        self.term = self.context.random.getrandbits(32)
        self.renew_at = self.context.now() + self.random_lease()

    def random_lease(self) -> float:
        """Seconds until a renewal: random, so that those who joined together drift apart."""
        return self.config.lease(self.size) * self.context.random.uniform(0.5, 1.0)

    def is_sound(self, subscription: ScampSubscription) -> bool:
        """Whether a peer's subscription makes sense; one that does not is counted."""
        if 0 < subscription.lease <= MOST_LEASE_SECONDS:
            return True
        self.dropped.add("unsound_subscription")
        return False

    def hold(self, subscription: ScampSubscription) -> None:
        """Take a member into the view, or renew its lease, and let it know."""
        now = self.context.now()
        contact = subscription.subscriber
        held = self.view.get(contact.id)
        if held is not None:
            held.renew(subscription, now)
        elif len(self.view) >= MOST_HELD:
            self.dropped.add("view_full")
            return
        else:
            held = HeldArcs(subscription, now)
            self.view.add(held)
            self.listener.member_added(contact)
        period = self.heartbeat_period(held)
        self.context.send(contact, Heartbeat(self.topic, subscription.term, period, False, b""))

    def let_go(self, peer: PeerId) -> bool:
        """Take a member out of the view; False when it was not there."""
        held = self.view.remove(peer)
        if held is None:
            return False
        self.listener.member_removed(held.contact)
        return True

    def lose(self, peer: PeerId) -> bool:
        """Let go of a member that is in the community no more, so that the census hears of it."""
        was_held = self.let_go(peer)
        if was_held:
            self.census.lost_member(len(self.view))
        return was_held

    def heartbeat_period(self, held: HeldArcs) -> float:
        """Seconds between two heartbeats to the same member."""
        seldom = SELDOM if held.is_light or self.config.light else 1
        return self.config.heartbeat_seconds * max(len(self.view), 1) * seldom

    def random_member(self, other_than: PeerId) -> Contact | None:
        """Some member of the view; None when the view holds nobody else."""
        table = self.view.table
        if not table:
            return None
        choice = self.context.random.choice(table)
        if choice.id != other_than:
            return choice
        others = [contact for contact in table if contact.id != other_than]
        return self.context.random.choice(others) if others else None
