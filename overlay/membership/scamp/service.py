"""SCAMP as a membership service: the parts put together, and what keeps a community whole.

The rule as published: newcomers subscribe through a contact that a walk has chosen, and again when their
lease ends or nobody holds them; leavers hand their arcs on. The number of members follows from the view's
own size, ln N = |view| / (c + 1).

What is added unless `balance` is False: see `balance`. With it or without, a member that nobody holds is
isolated and goes back to the directory, again and again.

Needs of its context: messages may be lost, duplicated and reordered. Over acknowledged channels all of the
above is for crashes and partitions; with unacknowledged messages it makes up for loss as well.
"""

from __future__ import annotations

from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.membership.config import MOST_LEASE_SECONDS, ScampConfig
from overlay.membership.member import Member, Reaction
from overlay.membership.scamp.balance import Balance
from overlay.membership.scamp.community import ScampState
from overlay.membership.scamp.messages import (
    Echo,
    Forward,
    Heartbeat,
    Release,
    ScampSubscribe,
    ScampUnsubscribe,
    Spare,
    SubscriptionWalk,
    Welcome,
)
from overlay.membership.scamp.published import (
    Forwarding,
    Heartbeats,
    Indirection,
    Joining,
    unsubscribe,
    unsubscribed,
)

LONGEST_RETRY_SECONDS = 60.0
"""An isolated process goes back to the directory at doubling intervals, up to this."""

RETRY_HEARTBEATS = 1
"""Heartbeats before the first attempt to be held by more members; then the intervals double."""


class ScampMembership(Member[ScampConfig]):
    """One process's membership of one community, by SCAMP."""

    def _prepare(self) -> dict[type, Reaction]:
        community = self._community = ScampState(
            self._topic, self._context, self._listener, self._config, self._dropped, self._balance
        )
        self._joining = Joining(community, self._directory, self._subscribed)
        self._heartbeats = Heartbeats(community)
        self._forwarding = Forwarding(community)
        self._indirection = Indirection(community, self._forwarding)
        self._improvement = Balance(community) if self._balance else None
        self._timer: Timer | None = None
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        return {
            ScampSubscribe: self._on_subscribe,
            SubscriptionWalk: self._on_walk,
            Forward: self._on_forward,
            Welcome: self._on_welcome,
            Heartbeat: self._on_heartbeat,
            Echo: self._heartbeats.echo,
            Release: self._on_release,
            Spare: self._on_spare,
            ScampUnsubscribe: self._on_unsubscribe,
        }

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

    def start(self) -> None:
        self._is_running = True
        self._community.new_term()
        self._be_content()
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
        if self._improvement is not None and c > self._config.margin:
            self._improvement.want_more()
        self._config = self._community.config = replace(self._config, margin=c)

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
        if self._improvement is not None:
            self._improvement.beat()
        self._next_beat(self._context.random.uniform(0.9, 1.1))

    def _look_after_itself(self, now: float) -> None:
        community, improvement = self._community, self._improvement
        if not len(community.holders) or not len(community.view):
            if self._may_retry(now):
                community.new_term()
                self._joining.begin(copies=None)
        elif now >= community.renew_at:
            community.new_term()
            self._joining.begin(None if improvement is None else improvement.copies_of_renewal())
        elif improvement is not None and improvement.are_too_few():
            if self._may_retry(now):
                self._joining.begin(improvement.take_missing())
        else:
            if improvement is not None:
                improvement.be_content()
            self._be_content()

    def _may_retry(self, now: float) -> bool:
        if now < self._retry_at:
            return False
        self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)
        self._retry_at = now + self._retry_seconds
        return True

    def _be_content(self) -> None:
        """The next time that something is amiss, wait for the shortest time before acting."""
        self._retry_seconds = RETRY_HEARTBEATS * self._config.heartbeat_seconds
        self._retry_at = self._context.now() + self._retry_seconds

    def _subscribed(self) -> None:
        if not len(self._community.view):
            self._alone.add()
        if not self._has_joined:
            self._has_joined = True
            # Ready is who can be found: the next one to come may be a publisher whose first event is for it.
            self._directory.announce(self.topic, self._listener.joined)

    # What a member does for others.

    def _react(self, reaction: Reaction, sender: Contact, message: object) -> None:
        super()._react(reaction, sender, message)
        if self._improvement is not None and self._is_running:
            self._community.lost.heard(sender.id)

    def _on_subscribe(self, sender: Contact, message: ScampSubscribe) -> None:
        if message.subscription.subscriber.id != sender.id:
            self._dropped.add("unsound_subscription")
        elif self._community.is_sound(message.subscription):
            self._indirection.begin(message)

    def _on_walk(self, sender: Contact, message: SubscriptionWalk) -> None:
        if message.subscription.subscriber.id == self._context.contact.id:
            self._dropped.add("from_itself")  # it cannot be its own contact
        elif self._community.is_sound(message.subscription):
            self._indirection.walk(sender, message)

    def _on_forward(self, sender: Contact, message: Forward) -> None:
        if self._community.is_sound(message.subscription):
            self._forwarding.forward(message)

    def _on_welcome(self, sender: Contact, message: Welcome) -> None:
        contact = message.contact
        if contact.subscriber.id != sender.id or not 0 < message.lease <= MOST_LEASE_SECONDS:
            self._dropped.add("unsound_subscription")
        elif self._community.is_sound(contact):
            self._joining.welcome(message)

    def _on_heartbeat(self, sender: Contact, message: Heartbeat) -> None:
        self._heartbeats.heartbeat(sender, message)
        self._joining.held_by_another()

    def _on_release(self, sender: Contact, message: Release) -> None:
        self._community.holders.remove(sender.id)

    def _on_spare(self, sender: Contact, message: Spare) -> None:
        self._community.let_go(sender.id)

    def _on_unsubscribe(self, sender: Contact, message: ScampUnsubscribe) -> None:
        unsubscribed(self._community, sender, message)
