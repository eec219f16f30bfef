"""Watches the views of one participant: says which one it sees, and tells when one is reached.

The views themselves, and why this fulfils TM1 to TM4, are the concern of `stable_views`.
"""

from __future__ import annotations

from typing import Protocol

from overlay.contact import PeerId
from overlay.context import Timer
from pubsub.topic_membership.config import MembershipConfig
from pubsub.topic_membership.context import TopicContext
from pubsub.topic_membership.knowledge import TopicKnowledge
from pubsub.topic_membership.messages import Sight
from pubsub.topic_membership.news import Item, Kind
from pubsub.topic_membership.spreading import Spreading
from pubsub.topic_membership.stable_views import StableView, TopicView


class ViewListener(Protocol):
    """Who is told of views."""

    def view_changed(self, view: TopicView) -> None: ...

    def stable(self, view: StableView) -> None: ...


class ViewWatch:
    """The topic view and the last stable view, kept up to date by `look_again`."""

    def __init__(
        self,
        context: TopicContext,
        config: MembershipConfig,
        knowledge: TopicKnowledge,
        spreading: Spreading,
        listener: ViewListener,
    ) -> None:
        self._me: PeerId = context.contact.id
        self.view = TopicView((self._me,))
        self.stable_view: StableView | None = None
        self._context = context
        self._config = config
        self._knowledge = knowledge
        self._spreading = spreading
        self._listener = listener
        self._looked_at = b""
        self._changed_at = context.now()
        self._settling: Timer | None = None
        self._sight = Item(Kind.SIGHT, self._me)
        self._members = 0
        """Of the view, as bits of the sightings."""
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        if self._settling is not None:
            self._settling.cancel()

    @property
    def is_stable(self) -> bool:
        """Whether the last stable view is what this participant still sees."""
        view = self.stable_view
        return view is not None and view.id == self._knowledge.view_fingerprint

    def look_again(self) -> None:
        """After whatever may have changed the views."""
        if self._stopped:
            return
        fingerprint = self._knowledge.view_fingerprint
        if fingerprint != self._looked_at:
            self._look_at(fingerprint)
        if self._settling is None and not self._knowledge.sightings.is_said:
            self._settling = self._context.call_later(self._config.settle, self._settled)

    def hear(self, peer: PeerId, sight: Sight) -> None:
        """A peer tells who sees a view."""
        sightings = self._knowledge.sightings
        if not self._stopped and sightings.merge(sight):
            self._reach_if_all_see_it()
            self._spreading.changed(self._sight, peer if sightings.is_all_of(sight) else None)

    def _look_at(self, fingerprint: bytes) -> None:
        knowledge = self._knowledge
        self._looked_at = fingerprint
        self._changed_at = self._context.now()
        members = knowledge.matrix.reachable(self._me)
        knowledge.sightings.look_at(fingerprint, knowledge.roster.joined)
        self._members = knowledge.sightings.of(members)
        self._spreading.news.gone(self._sight)
        if members != self.view.members:
            self.view = TopicView(members)
            self._listener.view_changed(self.view)

    def _settled(self) -> None:
        """If nothing has changed for a while, say which view this participant sees."""
        self._settling = None
        wait = self._changed_at + self._config.settle - self._context.now()
        if wait > 0.001:
            self._settling = self._context.call_later(wait, self._settled)
        elif self._knowledge.view_fingerprint != self._looked_at:
            self.look_again()
        else:
            self._knowledge.sightings.say()
            self._reach_if_all_see_it()
            self._spreading.changed(self._sight)

    def _reach_if_all_see_it(self) -> None:
        fingerprint = self._looked_at
        if self.stable_view is not None and self.stable_view.id == fingerprint:
            return
        if not self._knowledge.sightings.include(self._members):
            return
        self.stable_view = self._seen(fingerprint)
        # They see the same entries and rows, so there is nothing to tell them but that all see them.
        self._spreading.news.known_by(self.view.members)
        self._listener.stable(self.stable_view)

    def _seen(self, fingerprint: bytes) -> StableView:
        joined, members = self._knowledge.roster.joined, self.view.members
        return StableView(fingerprint, members, tuple(joined[member].boot for member in members))
