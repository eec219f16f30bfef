"""Indirection: a contact for a newcomer that is chosen near-uniformly, whomever newcomers ask.

Everybody knows the same few gateways. Were those the contacts, their views would swell and all others starve.
So whoever is asked starts a walk over the arcs, in both directions, and the member at its end is the contact.

SCAMP weighs the arcs so that the walk's stationary distribution is uniform, and exchanges messages to keep
the weights. Here the walk weighs itself (Metropolis and Hastings): a step from a member with d neighbours is
proposed to one of them at random, and one with more neighbours, d', accepts with probability d / d' only;
else the walk stays for that step. The stationary distribution is the same and nothing is kept or exchanged.
"""

from __future__ import annotations

import math
from dataclasses import replace

from overlay.contact import Contact
from overlay.membership.scamp.forwarding import Forwarding
from overlay.membership.scamp.messages import Subscribe, Walk
from overlay.membership.scamp.state import Community

MOST_STEPS = 64


def walk_length(size: float) -> int:
    """Steps of a walk in a community of `size`: ceil(1.5 log2 size)."""
    return min(math.ceil(1.5 * math.log2(max(size, 1.0))), MOST_STEPS)


class Indirection:
    """A member's part in the walks of other members' subscriptions."""

    def __init__(self, community: Community, forwarding: Forwarding) -> None:
        self._community = community
        self._forwarding = forwarding

    def begin(self, message: Subscribe) -> None:
        """Start the walk of a subscription that arrived here first, or be its contact at once."""
        community = self._community
        steps = walk_length(community.size) if message.indirect else 0
        self._step(
            Walk(community.topic, message.subscription, message.copies, steps, 0, refused=False)
        )

    def walk(self, sender: Contact, walk: Walk) -> None:
        """A proposed step arrived here, or one that was refused came back."""
        community = self._community
        degree = len(self._neighbours(walk))
        if walk.refused or community.context.random.random() * degree < walk.degree:
            self._step(walk)
        else:
            community.context.send(sender, replace(walk, refused=True))

    def _step(self, walk: Walk) -> None:
        """The walk is here: propose its next step to a neighbour, or end it."""
        community = self._community
        neighbours = self._neighbours(walk)
        if walk.steps <= 0 or not neighbours:
            self._forwarding.be_contact(walk.subscription, walk.copies)
            return
        steps = min(walk.steps, MOST_STEPS) - 1
        target = community.context.random.choice(neighbours)
        community.context.send(
            target, replace(walk, steps=steps, degree=len(neighbours), refused=False)
        )

    def _neighbours(self, walk: Walk) -> list[Contact]:
        """Members at either end of an arc with this one, but for the subscriber itself."""
        view, subscriber = self._community.view, walk.subscription.subscriber.id
        neighbours = [contact for contact in view.table if contact.id != subscriber]
        neighbours += [
            contact
            for contact in self._community.holders.contacts
            if contact.id not in view and contact.id != subscriber
        ]
        return neighbours
