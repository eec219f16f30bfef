"""Subscription forwarding: how copies of a subscription find the views that keep them.

The contact of a newcomer sends one copy to each member of its view, and c more to random ones. Whoever
receives a copy keeps it with probability 1 / (1 + |view|) and else passes it on to a random member of its
view. Each newcomer so adds (mean view + c + 1) arcs, hence the mean view of (c + 1) ln N, without anybody
counting. The probability must fall with the view's size: with a constant one the mean is about the same, the
views of old members swell, and gossip reaches fewer.

A renewal asks for a number of copies instead, so that ln N + margin members come to hold the subscriber: the
rule for newcomers would add c arcs with each renewal of each member, without end. A member that already holds
an older term of the subscription renews it, so that small communities do not forget each other.

No copy walks for ever: after eight times the expected number of hops it is kept where it is.
"""

from __future__ import annotations

from dataclasses import replace

from overlay.contact import Contact
from overlay.membership.scamp.messages import Forward, Subscription, Welcome
from overlay.membership.scamp.state import Community

MOST_COPIES = 256
"""The most copies that one subscription is sent in, whatever it asks for."""

HOP_FACTOR = 8
MOST_HOPS = HOP_FACTOR * 257


def keep_probability(view_size: int) -> float:
    """The probability with which a copy of a subscription is kept."""
    return 1 / (1 + view_size)


class Forwarding:
    """A member's part in other members' subscriptions."""

    def __init__(self, community: Community) -> None:
        self._community = community

    def be_contact(self, subscription: Subscription, copies: int | None) -> None:
        """Send copies of a subscription on their way, and welcome the subscriber."""
        community = self._community
        if copies is None:
            # A newcomer cannot know the community's size, and so not its lease.
            lease = community.random_lease() + community.config.grace_seconds
            subscription = replace(subscription, lease=lease)
        targets = self._first_targets(subscription.subscriber, copies)
        if not targets:
            community.hold(subscription)
        hops = round(HOP_FACTOR * (1 + max(len(community.view), community.wanted_holders)))
        copy = Forward(community.topic, subscription, hops)
        for target in targets:
            community.context.send(target, copy)
        welcome = Welcome(
            community.topic,
            community.own_subscription(),
            subscription.lease,
            max(len(targets), 1),
            community.packed_census(),
        )
        community.context.send(subscription.subscriber, welcome)

    def _first_targets(self, subscriber: Contact, copies: int | None) -> list[Contact]:
        """Whom the copies go to first: everyone in the view once, then random ones again."""
        community, random = self._community, self._community.context.random
        view = [contact for contact in community.view.table if contact.id != subscriber.id]
        wanted = len(view) + community.config.c if copies is None else min(copies, MOST_COPIES)
        if not view or wanted <= 0:
            return []
        if wanted <= len(view):
            return random.sample(view, wanted)
        return view + [random.choice(view) for _ in range(wanted - len(view))]

    def forward(self, message: Forward) -> None:
        """Keep a copy, or pass it on."""
        community, subscription = self._community, message.subscription
        subscriber = subscription.subscriber
        held = community.view.get(subscriber.id)
        if subscriber.id == community.context.contact.id:
            may_keep, keep = False, False
        elif held is not None:
            may_keep = keep = held.term != subscription.term
        else:
            may_keep = True
            keep = community.context.random.random() < keep_probability(len(community.view))
        if not keep:
            target = community.random_member(other_than=subscriber.id)
            if target is not None and message.hops > 0:
                hops = min(message.hops, MOST_HOPS) - 1
                community.context.send(target, Forward(community.topic, subscription, hops))
                return
        if may_keep:
            community.hold(subscription)
        else:
            community.dropped.add("copy_to_spare")
