"""SCAMP's rule as published: subscription, a near-uniform contact, joining, heartbeats, unsubscription.

**Subscription.** The contact of a newcomer sends one copy to each member of its view, and c more to random
ones. A member that receives a copy keeps it with probability 1 / (1 + |view|) and else passes it on to a
random member of its view. Each newcomer so adds (mean view + c + 1) arcs, hence the mean view of (c + 1) ln
N, without anybody counting. The probability must fall with the view's size: with a constant one the mean is
about the same, the views of old members swell, and gossip reaches fewer. A renewal asks for a number of
copies instead, so that ln N + margin members come to hold the subscriber: the rule for newcomers would add c
arcs with each renewal of each member, without end. A member that already holds an older term of the
subscription renews it, so that small communities do not forget each other. No copy walks for ever: after
eight times the expected number of hops it is kept where it is, and a member that has the subscription passes
on few copies more: where all have it, they would go on in vain.

**Indirection.** Everybody knows the same few gateways. Were those the contacts, their views would swell and
all others starve. So the member that is asked starts a walk over the arcs, in both directions, and the member
at its end is the contact. SCAMP weighs the arcs so that the walk's stationary distribution is uniform, and
exchanges messages to keep the weights. Here the walk weighs itself (Metropolis and Hastings): a step from a
member with d neighbours is proposed to one of them at random, and one with more neighbours, d', accepts with
probability d / d' only; else the walk stays for that step. The stationary distribution is the same and
nothing is kept or exchanged.

**Joining.** Contacts come from the directory; a member that has a view can also ask one of its own. Asking
goes on, with a shorter way each time, until a welcome comes or all tries are spent. A process that finds
nobody is the community's first, and keeps looking (see `service`).

**Heartbeats.** At each beat a member sends one heartbeat, to the members of its view in turn, and expects an
echo. A member that does not answer is asked again with each beat, and after `patience` heartbeats in a row it
is let go. SCAMP's own heartbeats are one way; the echo is what makes a crashed member leave the views long
before its lease ends, also where no failure detector watches. With `balance`, the arc that a lost member
leaves vacant goes to the member that the next echo hints at, so that views keep their size when members
crash, as they do when members unsubscribe.

**Unsubscription.** Of the l members that hold a leaver, l - c - 1 put a member of the leaver's view in its
place, taking turns, and c + 1 let go of it without: so the mean view goes on being (c + 1) ln N as N falls.
Those that the leaver holds hear of it too, or their in-views would go stale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.failure.detector import SELDOM
from overlay.membership.interface import TopicDirectory
from overlay.membership.scamp.community import ScampState
from overlay.membership.scamp.messages import (
    Echo,
    Forward,
    Heartbeat,
    ScampSubscribe,
    ScampSubscription,
    ScampUnsubscribe,
    SubscriptionWalk,
    Welcome,
)

COPIES_FACTOR = 2
"""A contact sends at most as many times the copies that it would ask for itself, whatever it is asked for."""

HOP_FACTOR = 8


def keep_probability(view_size: int) -> float:
    """The probability with which a copy of a subscription is kept."""
    return 1 / (1 + view_size)


class Forwarding:
    """A member's part in other members' subscriptions."""

    def __init__(self, community: ScampState) -> None:
        self._community = community

    def be_contact(self, subscription: ScampSubscription, copies: int | None) -> None:
        """Send copies of a subscription on their way, and welcome the subscriber."""
        community = self._community
        if copies is None:
            # A newcomer cannot know the community's size, and so not its lease.
            lease = community.random_lease() + community.config.grace_seconds
            subscription = replace(subscription, lease=lease)
        targets = self._first_targets(subscription.subscriber, copies)
        if not targets:
            community.hold(subscription)
        copy = Forward(community.topic, subscription, self._most_hops)
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

    @property
    def _usual_view(self) -> float:
        return max(len(self._community.view), self._community.wanted_holders)

    @property
    def _most_hops(self) -> int:
        return round(HOP_FACTOR * (1 + self._usual_view))

    def _first_targets(self, subscriber: Contact, copies: int | None) -> list[Contact]:
        """Whom the copies go to first: everyone in the view once, then random ones again."""
        community, random = self._community, self._community.context.random
        view = [contact for contact in community.view.table if contact.id != subscriber.id]
        most = round(COPIES_FACTOR * (self._usual_view + community.config.margin))
        wanted = len(view) + community.config.c if copies is None else min(copies, most)
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
            is_done = held is not None and held.came_in_vain(community.context.now())
            if target is not None and message.hops > 0 and not is_done:
                hops = min(message.hops, self._most_hops) - 1
                community.context.send(target, Forward(community.topic, subscription, hops))
                return
        if may_keep:
            community.hold(subscription)
        else:
            community.dropped.add("copy_to_spare")


MOST_STEPS = 64


def walk_length(size: float) -> int:
    """Steps of a walk in a community of `size`: ceil(1.5 log2 size)."""
    return min(math.ceil(1.5 * math.log2(max(size, 1.0))), MOST_STEPS)


class Indirection:
    """A member's part in the walks of other members' subscriptions."""

    def __init__(self, community: ScampState, forwarding: Forwarding) -> None:
        self._community = community
        self._forwarding = forwarding

    def begin(self, message: ScampSubscribe) -> None:
        """Start the walk of a subscription that arrived here first, or be its contact at once."""
        community = self._community
        steps = walk_length(community.size) if message.indirect else 0
        self._step(
            SubscriptionWalk(
                community.topic, message.subscription, message.copies, steps, 0, refused=False
            )
        )

    def walk(self, sender: Contact, walk: SubscriptionWalk) -> None:
        """A proposed step arrived here, or one that was refused came back."""
        community = self._community
        degree = len(self._neighbours(walk))
        if walk.refused or community.context.random.random() * degree < walk.degree:
            self._step(walk)
        else:
            community.context.send(sender, replace(walk, refused=True))

    def _step(self, walk: SubscriptionWalk) -> None:
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

    def _neighbours(self, walk: SubscriptionWalk) -> list[Contact]:
        """Members at either end of an arc with this one, but for the subscriber itself."""
        view, subscriber = self._community.view, walk.subscription.subscriber.id
        neighbours = [contact for contact in view.table if contact.id != subscriber]
        neighbours += [
            contact
            for contact in self._community.holders.contacts
            if contact.id not in view and contact.id != subscriber
        ]
        return neighbours


CONTACTS = 3
"""How many contacts are asked of the directory at a time."""

TRIES = 4
"""How often a subscriber asks, contact after contact, before it gives up; only the first try is indirect,
for a walk has many hops that may be lost."""

ROUNDS = 2
"""How often a newcomer asks the directory for contacts before it takes itself for alone: members that have
crashed stay in the directory for one time-to-live."""

SETTLE_FRACTION = 0.5
"""A newcomer waits for its copies to be kept for at most this part of `answer_seconds`."""


class Joining:
    """A process's own subscription: `begin` it as often as needed; one at a time is under way."""

    def __init__(
        self, community: ScampState, directory: TopicDirectory, done: Callable[[], None]
    ) -> None:
        self._community = community
        self._directory = directory
        self._done = done
        self._attempt = 0
        self._busy = False
        self._copies: int | None = None
        self._candidates: list[Contact] = []
        self._tries = 0
        self._rounds = 0
        self._silent: set[PeerId] = set()
        self._expected: int | None = None
        self._timer: Timer | None = None

    @property
    def is_busy(self) -> bool:
        return self._busy

    def begin(self, copies: int | None) -> None:
        """Subscribe with `copies` copies, or as a newcomer with None; calls `done` when it is over."""
        self.cancel()
        self._busy = True
        self._copies = copies
        self._rounds = 0
        self._silent.clear()
        self._expected = None
        self._find()

    def _find(self) -> None:
        self._tries = 0
        self._rounds += 1
        attempt = self._attempt
        self._directory.contacts(
            self._community.topic, CONTACTS, lambda contacts: self._found(attempt, contacts)
        )

    def cancel(self) -> None:
        """Give up what is under way; answers that come later are for nobody."""
        self._attempt += 1
        self._busy = False
        self._stop_timer()

    def welcome(self, welcome: Welcome) -> None:
        """A contact took the subscription on: hold the contact."""
        community = self._community
        community.take_census(welcome.census)
        community.hold(welcome.contact)
        if not self._busy:
            return
        self._stop_timer()
        if self._copies is not None:
            self._finish()
            return
        lease = max(welcome.lease - community.config.grace_seconds, 0.0)
        community.renew_at = community.context.now() + lease
        self._expected = welcome.copies
        self._timer = community.context.call_later(
            SETTLE_FRACTION * community.config.answer_seconds, self._settled
        )
        self.held_by_another()

    def held_by_another(self) -> None:
        """Somebody says that it holds this process."""
        if self._expected is None or not self._busy:
            return
        community = self._community
        if len(community.holders) >= min(self._expected, round(community.size) - 1):
            self._finish()

    def suspect(self, peer: PeerId) -> None:
        """Do not wait for a contact that has crashed."""
        self._candidates = [contact for contact in self._candidates if contact.id != peer]

    def _found(self, attempt: int, contacts: tuple[Contact, ...]) -> None:
        if attempt != self._attempt:
            return
        me = self._community.context.contact.id
        self._candidates = [contact for contact in contacts if contact.id != me]
        member = self._community.random_member(other_than=me)
        if member is not None:
            self._candidates.append(member)
        self._candidates.sort(key=lambda contact: contact.id in self._silent)
        self._ask()

    def _ask(self) -> None:
        community = self._community
        if not self._candidates or self._tries >= TRIES:
            is_newcomer = self._copies is None and not len(community.view)
            if self._candidates and is_newcomer and self._rounds < ROUNDS:
                self._silent = {contact.id for contact in self._candidates}
                self._find()
            else:
                self._finish()
            return
        candidate = self._candidates[self._tries % len(self._candidates)]
        message = ScampSubscribe(
            community.topic, community.own_subscription(), self._copies, self._tries == 0
        )
        self._tries += 1
        community.context.send(candidate, message)
        self._timer = community.context.call_later(community.config.answer_seconds, self._ask)

    def _settled(self) -> None:
        if len(self._community.holders):
            self._finish()
        else:
            self._ask()

    def _finish(self) -> None:
        self.cancel()
        self._done()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


LATE = 1.25
"""An in-view entry outlives its holder's promised period by this factor, and by `patience` heartbeats."""

MOST_PERIOD_SECONDS = 3600.0
"""A period that is longer, or no number, counts as none."""


class Heartbeats:
    """A member's own heartbeats, and its answers to those of others."""

    def __init__(self, community: ScampState) -> None:
        self._community = community
        self._unanswered: dict[PeerId, int] = {}
        self._vacancies = 0

    def beat(self) -> None:
        """Ask the next member in turn, and again those who owe an answer; every `heartbeat_seconds`."""
        community = self._community
        now = community.context.now()
        for peer, times in list(self._unanswered.items()):
            if times >= community.config.patience:
                self.suspect(peer)
            elif peer in community.view:
                self._ask(peer, times + 1)
            else:
                del self._unanswered[peer]
        if len(community.view):
            held = community.view.next_in_turn()
            if held.contact.id not in self._unanswered and now >= held.ask_at:
                if held.is_light or community.config.light:
                    # Turns vary by a tenth: one that comes a little early is not to pass.
                    held.ask_at = now + 0.9 * community.heartbeat_period(held)
                self._ask(held.contact.id, 1)

    def _ask(self, peer: PeerId, times: int) -> None:
        community = self._community
        held = community.view.get(peer)
        assert held is not None
        self._unanswered[peer] = times
        census = community.packed_census()
        period = community.heartbeat_period(held)
        community.context.send(
            held.contact, Heartbeat(community.topic, held.term, period, True, census)
        )

    def suspect(self, peer: PeerId) -> None:
        """A member is dead: let it go, and fill its place when an echo offers somebody."""
        community = self._community
        held = community.view.get(peer)
        if held is not None:
            community.lost.remember(held.contact, community.context.now())
        if community.lose(peer) and community.replaces_lost:
            self._vacancies += 1
        community.holders.remove(peer)
        self._unanswered.pop(peer, None)

    def heartbeat(self, sender: Contact, message: Heartbeat) -> None:
        """A member holds this process."""
        community = self._community
        now, config = community.context.now(), community.config
        period = message.period if 0 <= message.period < MOST_PERIOD_SECONDS else 0.0
        slack = config.patience * config.heartbeat_seconds
        if config.light:
            period *= SELDOM  # the holder may not know yet that this is a light member
        if not community.holders.heard(sender, message.term, now + LATE * period + slack):
            community.dropped.add("in_view_full")
            return
        community.take_census(message.census)
        if message.echo:
            hint = community.random_member(other_than=sender.id)
            held = community.view.get(hint.id) if hint is not None else None
            community.context.send(
                sender,
                Echo(
                    community.topic,
                    held.subscription(now) if held is not None else None,
                    community.packed_census(),
                    config.light,
                ),
            )

    def echo(self, sender: Contact, message: Echo) -> None:
        """A held member lives."""
        community = self._community
        self._unanswered.pop(sender.id, None)
        held = community.view.get(sender.id)
        if held is not None:
            held.is_light = message.light
        community.take_census(message.census)
        hint = message.hint
        if (
            self._vacancies
            and hint is not None
            and hint.subscriber.id not in community.view
            and hint.subscriber.id != community.context.contact.id
            and community.is_sound(hint)
        ):
            self._vacancies -= 1
            community.hold(hint)


def unsubscribe(community: ScampState) -> None:
    """Tell everyone on either end of an arc with this process that it leaves."""
    context, topic = community.context, community.topic
    now = context.now()
    offered = [
        held.subscription(now)
        for contact in community.view.table
        if (held := community.view.get(contact.id)) is not None
    ]
    holders = community.holders.contacts
    context.random.shuffle(holders)
    context.random.shuffle(offered)
    replaced = len(holders) - community.config.c - 1
    for turn, holder in enumerate(holders):
        replacement = _replacement(offered, turn, holder) if turn < replaced else None
        context.send(holder, ScampUnsubscribe(topic, replacement))
    for contact in community.view.table:
        if contact.id not in community.holders:
            context.send(contact, ScampUnsubscribe(topic, None))


def _replacement(
    offered: list[ScampSubscription], turn: int, holder: Contact
) -> ScampSubscription | None:
    for shift in range(len(offered)):
        choice = offered[(turn + shift) % len(offered)]
        if choice.subscriber.id != holder.id:
            return choice
    return None


def unsubscribed(community: ScampState, leaver: Contact, message: ScampUnsubscribe) -> None:
    """A member leaves: forget it, and hold the one in its place."""
    was_held = community.lose(leaver.id)
    community.holders.remove(leaver.id)
    replacement = message.replacement
    if (
        was_held
        and replacement is not None
        and replacement.subscriber.id not in (leaver.id, community.context.contact.id)
        and replacement.subscriber.id not in community.view
        and community.is_sound(replacement)
    ):
        community.hold(replacement)
