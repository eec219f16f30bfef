"""What one process knows of its community, shared by the parts of the protocol."""

from __future__ import annotations

import math

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.membership.interface import MembershipListener
from overlay.membership.scamp.census import Census
from overlay.membership.scamp.config import MOST_LEASE_SECONDS, ScampConfig
from overlay.membership.scamp.messages import Heartbeat, Subscription
from overlay.membership.scamp.views import MOST_HELD, Held, InView, PartialView
from overlay.metrics import Metrics

MOST_LOST = 16
"""Members that seemed to have crashed and are visited now and then, the last ones."""

LOST_SECONDS = 600.0
"""How long they are visited."""


class Community:
    """The views, the census, and the two things that every part does: hold a member, let go of one."""

    def __init__(
        self,
        topic: str,
        context: Context,
        listener: MembershipListener,
        config: ScampConfig,
        metrics: Metrics,
        balance: bool,
    ) -> None:
        self._balances = balance
        self.topic = topic
        self.context = context
        self.listener = listener
        self.config = config
        self.dropped = metrics.family(
            "membership_dropped", "reason", "Membership messages that were not acted upon"
        )
        self.view = PartialView()
        self.holders = InView()
        self.lost: dict[PeerId, tuple[Contact, float]] = {}
        """Members that seemed to have crashed, and until when they are visited."""
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

    def own_subscription(self) -> Subscription:
        """This process's subscription; its lease leaves time for the renewal to be answered."""
        lease = max(self.renew_at - self.context.now(), 0.0) + self.config.grace_seconds
        return Subscription(self.context.contact, self.term, lease)

    def new_term(self) -> None:
        """Begin another subscription of this process."""
        self.term = self.context.random.getrandbits(32)
        self.renew_at = self.context.now() + self.random_lease()

    def random_lease(self) -> float:
        """Seconds until a renewal: random, so that those who joined together drift apart."""
        return self.config.lease(self.size) * self.context.random.uniform(0.5, 1.0)

    def is_sound(self, subscription: Subscription) -> bool:
        """Whether a peer's subscription makes sense; one that does not is counted."""
        if 0 < subscription.lease <= MOST_LEASE_SECONDS:
            return True
        self.dropped.add("unsound_subscription")
        return False

    def hold(self, subscription: Subscription) -> None:
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
            self.view.add(Held(subscription, now))
            self.listener.member_added(contact)
        period = self.heartbeat_period
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

    def remember_lost(self, peer: PeerId) -> None:
        """A held member seems to have crashed; but the network may only have been cut in two."""
        held = self.view.get(peer)
        if held is not None:
            self.lost.pop(peer, None)
            self.lost[peer] = (held.contact, self.context.now() + LOST_SECONDS)
            if len(self.lost) > MOST_LOST:
                del self.lost[next(iter(self.lost))]

    def some_lost(self) -> Contact | None:
        """One of those that were lost lately; another one each time."""
        now = self.context.now()
        self.lost = {peer: kept for peer, kept in self.lost.items() if kept[1] > now}
        if not self.lost:
            return None
        peer = next(iter(self.lost))
        kept = self.lost.pop(peer)
        self.lost[peer] = kept
        return kept[0]

    @property
    def heartbeat_period(self) -> float:
        """Seconds between two heartbeats to the same member."""
        return self.config.heartbeat_seconds * max(len(self.view), 1)

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
