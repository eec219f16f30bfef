"""Topic view and stable topic view (DACE, section 5).

The *topic view* is whom a participant believes reachable now. A *stable topic view* is one on which all its
members have converged. A participant says which view it sees, by the fingerprint of everything that it knows
(who has joined, and the timestamps of all rows), and **reaches** the view when it still sees it and every
member has said that it sees the same. So there is a chain of messages from every member to every other
between the last change and the moment at which the view is reached, as section 5.1.2 asks.

    (TM1) agreement      if p reaches the views v1 and then v2, both with q in them, and q reaches v1, then q
                         does so before p reaches v2: when p reaches v2, q has said that it sees v2, and
                         what was seen never comes back, so q does not see v1 again. The paper's sentence says
                         this of every q, its formula of those that reach v1: q may be overtaken, and skip v1.
    (TM2) accuracy       those who can communicate for ever have the same stable view in the end
    (TM3) completeness   those who cannot be reached for ever are in the end in no stable view
    (TM4) integrity      a participant that reaches a view is in it

A fingerprint never comes back: timestamps only grow, boots only grow, and when somebody leaves, those who
stay raise their timestamps. A participant that restarts, or announces itself anew, counts as another one:
views hold peers with boots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overlay.contact import PeerId
from overlay.context import OneTimer
from pubsub.topics.knowledge import Kind, NewsItem
from pubsub.topics.messages import Row, Sight
from pubsub.topics.spreading import Spreading

if TYPE_CHECKING:
    from pubsub.topics.broadcast import TopicBroadcast


@dataclass(frozen=True, slots=True)
class TopicView:
    """Whom a participant believes reachable, itself included."""

    members: tuple[PeerId, ...]
    """In the order of their ids."""


@dataclass(frozen=True, slots=True)
class StableView:
    """A view that its members have converged on: equal ids mean equal views."""

    id: bytes
    members: tuple[PeerId, ...]
    """In the order of their ids."""
    boots: tuple[int, ...] = field(repr=False)
    """The boots of the members, in the same order."""


class ViewWatch:
    """Watches the views of one participant: says which one it sees, and tells when one is reached. The
    topic view and the last stable view are kept up to date by `look_again`.
    """

    def __init__(self, spreading: Spreading, listener: TopicBroadcast) -> None:
        self._context = spreading.context
        self._config = spreading.config
        self._knowledge = spreading.knowledge
        self._spreading = spreading
        self._listener = listener
        self._me: PeerId = self._context.contact.id
        self.view = TopicView((self._me,))
        self.stable_view: StableView | None = None
        self._looked_at = b""
        self._changed_at = self._context.now()
        self._settling = OneTimer(self._context.call_later, self._settled)
        self._sight = NewsItem(Kind.SIGHT, self._me)
        self._members = 0
        """The members of the view, as bits of the sightings."""
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._settling.close()

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
        if not self._knowledge.sightings.is_said:
            self._settling.set(self._config.settle)

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
        wait = self._changed_at + self._config.settle - self._context.now()
        if wait > 0.001:
            self._settling.set(wait)
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


class OwnRow:
    """What one participant says of its channels, as its row of the matrix; `on_due` is called when it is
    time to say it anew.
    """

    def __init__(self, spreading: Spreading, on_due: Callable[[], None]) -> None:
        self.suspected: dict[PeerId, None] = {}
        self.unheard: dict[PeerId, None] = {}
        """Those whose own voice in the topic is awaited, since this participant, or their node, began or was
        cut off: their channels are not open yet."""
        self._me: PeerId = spreading.context.contact.id
        self._config = spreading.config
        self._knowledge = spreading.knowledge
        self._spreading = spreading
        self._on_due = on_due
        self._timer = OneTimer(spreading.context.call_later, self._ring)
        self._version = 0
        self._waits = False
        """Whether there is no row yet, for the others are about to be heard: so it is not said of one after
        the other that its channel is open."""

    def stop(self) -> None:
        self._timer.close()

    def is_closed(self, peer: PeerId) -> bool:
        return peer in self.suspected or peer in self.unheard

    def begin(self, boot: int) -> None:
        """The first row of a boot: at once, or when those who are there have had time to answer."""
        self._version = 0
        self._waits = bool(self.unheard)
        if self._waits:
            self.renew_soon()
        else:
            self.renew(boot)

    def renew_soon(self) -> None:
        """Channels close and open several at a time: state them together."""
        if self._waits and not self.unheard:
            self._timer.cancel()
        self._timer.set(self._config.settle if self.unheard else self._config.rumour_interval / 2)

    def _ring(self) -> None:
        self._waits = False
        self._on_due()

    def renew(self, boot: int, *, anyway: bool = False) -> None:
        """State the own channels; the timestamp rises only if they are others than before, or `anyway`."""
        if self._waits:
            return
        joined = self._knowledge.roster.joined
        closed = tuple(sorted(p for p in {**self.suspected, **self.unheard} if p in joined))
        known = self._knowledge.matrix.rows.get(self._me)
        unchanged = known is not None and known.boot == boot and known.closed == closed
        if unchanged and not anyway:
            return
        self._version += 1
        self._knowledge.merge_row(Row(self._me, boot, self._version, closed))
        self._spreading.changed(NewsItem(Kind.ROW, self._me))
