"""Heartbeats: members hear that they are held, holders hear that members live.

At each beat a member sends one heartbeat, to the members of its view in turn, and expects an echo. A member
that does not answer is asked again with each beat, and after `patience` heartbeats in a row it is let go. The
arc that it leaves vacant goes to the member that the next echo hints at, so that views keep their size when
members crash, as they do when members unsubscribe. SCAMP's own heartbeats are one way; the echo is what makes
a crashed member leave the views long before its lease ends, also where no failure detector watches.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.membership.scamp.messages import Echo, Heartbeat
from overlay.membership.scamp.state import Community

LATE = 1.25
"""An in-view entry outlives its holder's promised period by this factor, and by `patience` heartbeats."""

MOST_PERIOD_SECONDS = 3600.0
"""A period that is longer, or no number, counts as none."""


class Heartbeats:
    """A member's own heartbeats, and its answers to those of others."""

    def __init__(self, community: Community) -> None:
        self._community = community
        self._unanswered: dict[PeerId, int] = {}
        self._vacancies = 0

    def beat(self) -> None:
        """Ask the next member in turn, and again those who owe an answer; every `heartbeat_seconds`."""
        community = self._community
        for peer, times in list(self._unanswered.items()):
            if times >= community.config.patience:
                self.suspect(peer)
            elif peer in community.view:
                self._ask(peer, times + 1)
            else:
                del self._unanswered[peer]
        if len(community.view):
            peer = community.view.next_in_turn().contact.id
            if peer not in self._unanswered:
                self._ask(peer, 1)

    def _ask(self, peer: PeerId, times: int) -> None:
        community = self._community
        held = community.view.get(peer)
        assert held is not None
        self._unanswered[peer] = times
        census = community.packed_census()
        period = community.heartbeat_period
        community.context.send(
            held.contact, Heartbeat(community.topic, held.term, period, True, census)
        )

    def suspect(self, peer: PeerId) -> None:
        """A member is dead: let it go, and fill its place when an echo offers somebody."""
        self._community.remember_lost(peer)
        if self._community.lose(peer) and self._community.replaces_lost:
            self._vacancies += 1
        self._community.holders.remove(peer)
        self._unanswered.pop(peer, None)

    def heartbeat(self, sender: Contact, message: Heartbeat) -> None:
        """A member holds this process."""
        community = self._community
        now, config = community.context.now(), community.config
        period = message.period if 0 <= message.period < MOST_PERIOD_SECONDS else 0.0
        slack = config.patience * config.heartbeat_seconds
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
                ),
            )

    def echo(self, sender: Contact, message: Echo) -> None:
        """A held member lives."""
        community = self._community
        self._unanswered.pop(sender.id, None)
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
