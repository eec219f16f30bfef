"""SCAMP as a membership service: the parts put together, and what keeps a community whole.

The rule as published: newcomers subscribe through a contact that a walk has chosen, and again when their
lease ends or nobody holds them; leavers hand their arcs on. The number of members follows from the view's
own size, ln N = |view| / (c + 1).

What is added unless `balance` is False: SCAMP alone can fall apart for good under concurrent joins and
leaves. Against that, a member looks after itself with each heartbeat: when its lease ends it renews its
subscription through a contact of the directory; when clearly fewer members hold it by this subscription than
should, it subscribes for the missing ones; and when none does, it is isolated and goes back to the directory,
again and again. Old holders keep it while the new ones are found, so a renewal that fails harms nobody.
When clearly more members hold it than should, it
has some let go: those whom few hold would else be chosen seldom from views that others fill. That happens
when many join at once through lossy links, and ask again before they are answered. Newcomers make views of
(c + 1) ln N with a wide spread; renewals settle them at ln N + margin: 11.9 at N = 1,000, with a spread of
2.5 (in-views: 2).

Needs of its context: messages may be lost, duplicated and reordered. Over acknowledged channels all of the
above is for crashes and partitions; with unacknowledged messages it makes up for loss as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.membership.interface import FOUND_NOBODY, MembershipListener, TopicDirectory
from overlay.membership.scamp.config import MOST_LEASE_SECONDS, ScampConfig
from overlay.membership.scamp.forwarding import Forwarding
from overlay.membership.scamp.heartbeat import Heartbeats
from overlay.membership.scamp.indirection import Indirection
from overlay.membership.scamp.joining import Joining
from overlay.membership.scamp.messages import (
    Echo,
    Forward,
    Heartbeat,
    Release,
    Spare,
    Subscribe,
    Unsubscribe,
    Walk,
    Welcome,
)
from overlay.membership.scamp.state import Community
from overlay.membership.scamp.unsubscription import unsubscribe, unsubscribed
from overlay.metrics import Metrics

LONGEST_RETRY_SECONDS = 60.0
"""An isolated process goes back to the directory at doubling intervals, up to this."""

RETRY_HEARTBEATS = 1
"""Heartbeats before the first attempt to be held by more members; then the intervals double."""

TOO_FEW = 0.75
"""A member acts when fewer than this part of the members that should hold it do."""

TOO_MANY = 1.5
"""A member acts when more than so many times the members that should hold it do."""

COPIES_TO_THE_LOST = 2
"""Copies of the subscription that a member hands on which seemed to have crashed and is back."""

SPARED_AT_ONCE = 8
"""Holders that are asked to let go with one heartbeat."""


class ScampMembership:
    """One process's membership of one community, by SCAMP."""

    def __init__(
        self,
        topic: str,
        context: Context,
        directory: TopicDirectory,
        listener: MembershipListener,
        config: ScampConfig | None = None,
        metrics: Metrics | None = None,
        *,
        balance: bool = True,
    ) -> None:
        self._balance = balance
        self._context = context
        self._directory = directory
        self._listener = listener
        self._config = config or ScampConfig()
        metrics = metrics or Metrics()
        self._alone = metrics.counter("membership_alone", FOUND_NOBODY)
        community = Community(topic, context, listener, self._config, metrics, balance)
        self._community = community
        self._joining = Joining(community, directory, self._subscribed)
        self._heartbeats = Heartbeats(community)
        self._forwarding = Forwarding(community)
        self._indirection = Indirection(community, self._forwarding)
        self._reactions: dict[type, Callable[[Contact, Any], None]] = {
            Subscribe: self._on_subscribe,
            Walk: self._on_walk,
            Forward: self._on_forward,
            Welcome: self._on_welcome,
            Heartbeat: self._on_heartbeat,
            Echo: self._heartbeats.echo,
            Release: self._on_release,
            Spare: self._on_spare,
            Unsubscribe: self._on_unsubscribe,
        }
        self._beats = 0
        self._is_running = False
        self._has_joined = False
        self._timer: Timer | None = None
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        self._wants_more = False
        """More holders are wanted than before, and have not been looked for yet."""

    @property
    def topic(self) -> str:
        return self._community.topic

    @property
    def table(self) -> tuple[Contact, ...]:
        return self._community.view.table

    @property
    def holders(self) -> list[Contact]:
        """The in-view: the members that hold this process, as far as it knows."""
        return self._community.holders.contacts

    @property
    def size(self) -> float:
        return self._community.size

    @property
    def message_types(self) -> tuple[type, ...]:
        return tuple(self._reactions)

    def start(self) -> None:
        self._is_running = True
        self._community.new_term()
        self._is_content()
        self._joining.begin(copies=None)
        self._next_beat(self._context.random.random())

    def stop(self) -> None:
        if not self._is_running:
            return
        self._is_running = False
        unsubscribe(self._community)
        self._joining.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._has_joined:
            self._directory.withdraw(self.topic)
        self._community.view.clear()
        self._community.holders.clear()

    def reconfigure(self, c: float) -> None:
        self._wants_more = self._wants_more or c > self._config.margin
        self._config = self._community.config = replace(self._config, margin=c)

    def receive(self, sender: Contact, message: object) -> None:
        reaction = self._reactions.get(type(message))
        if reaction is None or not self._is_running:
            self._community.dropped.add("unknown_message" if self._is_running else "not_a_member")
        elif sender.id == self._context.contact.id:
            self._community.dropped.add("from_itself")
        else:
            reaction(sender, message)

    def suspect(self, peer: PeerId) -> None:
        self._heartbeats.suspect(peer)
        self._joining.suspect(peer)

    # What a member does by itself.

    def _next_beat(self, delay: float) -> None:
        self._timer = self._context.call_later(
            delay * self._config.heartbeat_seconds, self._heartbeat
        )

    def _heartbeat(self) -> None:
        community, now = self._community, self._context.now()
        for held in community.view.expired(now):
            community.let_go(held.contact.id)
            self._context.send(held.contact, Release(self.topic))
        community.holders.expire(now)
        self._heartbeats.beat()
        if not self._joining.is_busy:
            self._look_after_itself(now)
        if self._balance:
            self._spare_some()
            self._visit_the_lost()
        self._next_beat(self._context.random.uniform(0.9, 1.1))

    def _look_after_itself(self, now: float) -> None:
        community = self._community
        holders, wanted = community.holders.of_term(community.term), community.wanted_holders
        if not len(community.holders) or not len(community.view):
            if self._may_retry(now):
                community.new_term()
                self._joining.begin(copies=None)
        elif now >= community.renew_at:
            community.new_term()
            if not self._balance:
                self._joining.begin(copies=None)
                return
            # The welcome makes one more arc, unless the contact is held already, as in small communities.
            arcs_by_welcome = 1 - wanted / max(community.size - 1, 1)
            self._joining.begin(self._at_random(wanted - arcs_by_welcome))
        elif self._balance and holders < (wanted if self._wants_more else TOO_FEW * wanted):
            if self._may_retry(now):
                self._wants_more = False
                self._joining.begin(self._at_random(wanted - holders))
        else:
            self._wants_more = False
            self._is_content()

    def _spare_some(self) -> None:
        """Have some of those let go that hold this process beyond its need."""
        community = self._community
        holders = len(community.holders)
        # A newcomer's estimate of the size may be less than the members that it has heard from.
        needed = TOO_MANY * self._config.holders(max(community.size, holders + 1.0))
        count = min(max(math.ceil(holders - needed), 0), SPARED_AT_ONCE)
        for holder in community.holders.to_spare(community.term, count, self._context.random):
            community.holders.remove(holder.id)
            self._context.send(holder, Spare(self.topic))

    def _visit_the_lost(self) -> None:
        """With every second heartbeat subscribe through one that seemed to have crashed.

        Nearly always it has. But after a partition it answers, and hands the subscription on in its half: so
        the halves hold each other again within seconds, without a directory."""
        self._beats += 1
        lost = self._community.some_lost() if self._beats % 2 else None
        if lost is not None:
            subscription = self._community.own_subscription()
            self._context.send(lost, Subscribe(self.topic, subscription, COPIES_TO_THE_LOST, False))

    def _at_random(self, copies: float) -> int:
        """A whole number of copies whose mean is `copies`; at least 1."""
        return max(int(copies + self._context.random.random()), 1)

    def _may_retry(self, now: float) -> bool:
        if now < self._retry_at:
            return False
        self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)
        self._retry_at = now + self._retry_seconds
        return True

    def _is_content(self) -> None:
        """The next time that something is amiss, wait for the shortest time before acting."""
        self._retry_seconds = RETRY_HEARTBEATS * self._config.heartbeat_seconds
        self._retry_at = self._context.now() + self._retry_seconds

    def _subscribed(self) -> None:
        if not len(self._community.view):
            self._alone.add()
        if not self._has_joined:
            self._has_joined = True
            self._directory.announce(self.topic)
            self._listener.joined()

    # What a member does for others.

    def _on_subscribe(self, sender: Contact, message: Subscribe) -> None:
        if message.subscription.subscriber.id != sender.id:
            self._community.dropped.add("unsound_subscription")
        elif self._community.is_sound(message.subscription):
            self._indirection.begin(message)

    def _on_walk(self, sender: Contact, message: Walk) -> None:
        if message.subscription.subscriber.id == self._context.contact.id:
            self._community.dropped.add("from_itself")  # it cannot be its own contact
        elif self._community.is_sound(message.subscription):
            self._indirection.walk(sender, message)

    def _on_forward(self, sender: Contact, message: Forward) -> None:
        if self._community.is_sound(message.subscription):
            self._forwarding.forward(message)

    def _on_welcome(self, sender: Contact, message: Welcome) -> None:
        contact = message.contact
        if contact.subscriber.id != sender.id or not 0 < message.lease <= MOST_LEASE_SECONDS:
            self._community.dropped.add("unsound_subscription")
        elif self._community.is_sound(contact):
            self._community.lost.pop(sender.id, None)
            self._joining.welcome(message)

    def _on_heartbeat(self, sender: Contact, message: Heartbeat) -> None:
        self._heartbeats.heartbeat(sender, message)
        self._joining.held_by_another()

    def _on_release(self, sender: Contact, message: Release) -> None:
        self._community.holders.remove(sender.id)

    def _on_spare(self, sender: Contact, message: Spare) -> None:
        self._community.let_go(sender.id)

    def _on_unsubscribe(self, sender: Contact, message: Unsubscribe) -> None:
        unsubscribed(self._community, sender, message)
