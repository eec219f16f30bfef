"""Heartbeats: members hear that they are held, holders hear that members live.

A member sends one heartbeat at a time, to the members of its view in turn, and expects an echo. A member that
does not answer is asked again, and after `patience` heartbeats in a row it is let go. The arc that it leaves
vacant goes to the member that the next echo hints at, so that views keep their size when members crash, as
they do when members unsubscribe. SCAMP's own heartbeats are one way; the echo is what makes a crashed
member leave the views long before its lease ends, also where no failure detector watches.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.membership.scamp.messages import Echo, Heartbeat
from overlay.membership.scamp.state import Community

MISSED_PERIODS = 3
"""An in-view entry outlives this many of the periods that its holder promised."""

MOST_PERIOD_SECONDS = 3600.0


class Heartbeats:
    """A member's own heartbeats, and its answers to those of others."""

    def __init__(self, community: Community) -> None:
        self._community = community
        self._awaited: PeerId | None = None
        self._unanswered = 0
        self._vacancies = 0

    def beat(self) -> None:
        """Send this round's heartbeat; called every `heartbeat_seconds`."""
        community = self._community
        member = self._whose_turn()
        if member is None:
            return
        self._unanswered += 1
        now = community.context.now()
        census = community.census.packed(now)
        period = community.heartbeat_period
        community.context.send(member, Heartbeat(community.topic, period, True, census))

    def _whose_turn(self) -> Contact | None:
        community = self._community
        view = community.view
        if self._awaited is not None and self._unanswered >= community.config.patience:
            self.suspect(self._awaited)
        awaited = view.get(self._awaited) if self._awaited is not None else None
        if awaited is not None:
            return awaited.contact
        if not len(view):
            return None
        held = view.next_in_turn()
        self._awaited, self._unanswered = held.contact.id, 0
        return held.contact

    def suspect(self, peer: PeerId) -> None:
        """A member is dead: let it go, and fill its place when an echo offers somebody."""
        if self._community.let_go(peer):
            self._vacancies += 1
        self._community.holders.remove(peer)
        if peer == self._awaited:
            self._awaited = None

    def heartbeat(self, sender: Contact, message: Heartbeat) -> None:
        """A member holds this process."""
        community = self._community
        now, config = community.context.now(), community.config
        period = min(max(message.period, 0.0), MOST_PERIOD_SECONDS)
        slack = config.patience * config.heartbeat_seconds
        if not community.holders.heard(sender, now + MISSED_PERIODS * period + slack):
            community.dropped.add("in_view_full")
            return
        if message.census:
            self._take_census(message.census)
        if message.echo:
            hint = community.random_member(other_than=sender.id)
            held = community.view.get(hint.id) if hint is not None else None
            community.context.send(
                sender,
                Echo(
                    community.topic,
                    held.subscription(now) if held is not None else None,
                    community.census.packed(now),
                ),
            )

    def echo(self, sender: Contact, message: Echo) -> None:
        """A held member lives."""
        community = self._community
        if sender.id == self._awaited:
            self._awaited = None
        self._take_census(message.census)
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

    def _take_census(self, packed: bytes) -> None:
        community = self._community
        if not community.census.merge(packed, community.context.now()):
            community.dropped.add("malformed_census")
