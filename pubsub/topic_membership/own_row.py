"""A participant's own channels, and its row of the matrix, which states them to all."""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import PeerId
from overlay.context import Timer
from pubsub.topic_membership.config import MembershipConfig
from pubsub.topic_membership.context import TopicContext
from pubsub.topic_membership.knowledge import TopicKnowledge
from pubsub.topic_membership.messages import Row
from pubsub.topic_membership.news import Item, Kind
from pubsub.topic_membership.spreading import Spreading


class OwnRow:
    """What one participant says of its channels; `on_due` is called when it is time to say it anew."""

    def __init__(
        self,
        context: TopicContext,
        config: MembershipConfig,
        knowledge: TopicKnowledge,
        spreading: Spreading,
        on_due: Callable[[], None],
    ) -> None:
        self.suspected: dict[PeerId, None] = {}
        self.unheard: dict[PeerId, None] = {}
        """Those whose own voice in the topic is awaited, since this participant, or their node, began or was
        cut off: their channels are not open yet."""
        self._me: PeerId = context.contact.id
        self._context = context
        self._config = config
        self._knowledge = knowledge
        self._spreading = spreading
        self._on_due = on_due
        self._timer: Timer | None = None
        self._version = 0
        self._waits = False
        """Whether there is no row yet, for the others are about to be heard: so it is not said of one after
        the other that its channel is open."""

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

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
        if self._timer is not None and self._waits and not self.unheard:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            wait = self._config.settle if self.unheard else self._config.rumour_interval / 2
            self._timer = self._context.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
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
        self._spreading.changed(Item(Kind.ROW, self._me))
