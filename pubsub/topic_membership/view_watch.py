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
from pubsub.topic_membership.messages import Status
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
        self._serial = 0
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
            self._looked_at = fingerprint
            self._changed_at = self._context.now()
            members = self._knowledge.matrix.reachable(self._me)
            if members != self.view.members:
                self.view = TopicView(members)
                self._listener.view_changed(self.view)
        seen = self._knowledge.statuses.get(self._me)
        if seen is not None and seen.sees == fingerprint:
            self._reach_if_all_see_it(fingerprint)
        elif self._settling is None:
            self._settling = self._context.call_later(self._config.settle, self._settled)

    def _settled(self) -> None:
        """If nothing has changed for a while, say which view this participant sees."""
        self._settling = None
        wait = self._changed_at + self._config.settle - self._context.now()
        if wait > 0.001:
            self._settling = self._context.call_later(wait, self._settled)
            return
        self._serial += 1
        boot = self._knowledge.roster.joined[self._me].boot
        fingerprint = self._knowledge.view_fingerprint
        self._knowledge.merge_status(Status(self._me, boot, self._serial, fingerprint))
        self._spreading.changed(Item(Kind.STATUS, self._me))
        self._reach_if_all_see_it(fingerprint)

    def _reach_if_all_see_it(self, fingerprint: bytes) -> None:
        if self.stable_view is not None and self.stable_view.id == fingerprint:
            return
        statuses = self._knowledge.statuses
        for member in self.view.members:
            status = statuses.get(member)
            if status is None or status.sees != fingerprint:
                return
        self.stable_view = self._seen(fingerprint)
        self._listener.stable(self.stable_view)

    def _seen(self, fingerprint: bytes) -> StableView:
        joined, members = self._knowledge.roster.joined, self.view.members
        return StableView(fingerprint, members, tuple(joined[member].boot for member in members))
