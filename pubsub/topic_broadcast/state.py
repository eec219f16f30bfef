"""What the parts of one participant's broadcast share."""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import Contact, PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.topic_broadcast.acknowledgements import AcknowledgedBy, Acknowledgements
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_broadcast.held_messages import HeldMessages, KeptMessages
from pubsub.topic_broadcast.messages import source_of
from pubsub.topic_broadcast.topic_log import TopicLog
from pubsub.topic_membership.context import TopicContext
from pubsub.topic_membership.membership import TopicMembership
from pubsub.topic_membership.messages import NumbersOnWire

COUNTED = (
    "taken",
    "duplicates",
    "forwarded",
    "refused",
    "wrong",
    "expelled",
    "unsynced",
    "revived",
)
"""Messages taken, and dropped as duplicates, for want of room, or as a peer's mistake; those forwarded;
participants expelled; how often the disk failed; messages held again for one that began apart."""

FORGOTTEN = 16
"""Times `most_sources`: sources of which the highest number alone is remembered, some 100 bytes each."""


class BroadcastState:
    """The variables of the algorithm (DACE, appendix 1, lines 1 to 7), and what it stands on."""

    def __init__(
        self,
        topic: str,
        context: TopicContext,
        config: BroadcastConfig,
        membership: TopicMembership,
        log: TopicLog,
        counts: dict[str, int],
    ) -> None:
        self.topic = topic
        self.me: PeerId = context.contact.id
        self.context = context
        self.config = config
        self.membership = membership
        self.log = log
        self.held = HeldMessages()
        self.kept = KeptMessages(config.kept_seconds, config.kept_bytes)
        self.acknowledged = Acknowledgements()
        self.garbage: dict[bytes, Numbers] = {}
        """What everybody has, as far as is known here: fewer are claimed where this one came later."""
        self.taken: dict[bytes, Numbers] = {}
        """What this participant has received; it acknowledges it when the application or the log has it."""
        self.forgotten: dict[bytes, int] = {}
        """The highest numbers of sources of which nothing else is remembered, the latest last."""
        self.sources: dict[bytes, tuple[PeerId, int]] = {}
        """Publisher and life of every source of which a message was seen."""
        self.counts = counts
        for what in COUNTED:
            counts.setdefault(what, 0)

    @property
    def own_source(self) -> bytes:
        return source_of(self.me, self.membership.life)

    @property
    def mine(self) -> AcknowledgedBy:
        """What this participant has acknowledged."""
        return self.acknowledged.rows[self.me]

    @property
    def is_full(self) -> bool:
        """Whether this publisher has to wait."""
        config, source = self.config, self.own_source
        return (
            len(self.held.of(source)) >= config.window_messages
            or self.held.bytes_of(source) >= config.window_bytes
            or self.held.bytes >= config.most_held_bytes // 2
        )

    def forget(self, source: bytes) -> None:
        """Forget all of a source but its highest number: what is at most that counts as received, should
        anybody speak of it again."""
        taken = self.taken.get(source)
        if taken is not None:
            self.forgotten[source] = taken.highest
            if len(self.forgotten) > FORGOTTEN * self.config.most_sources:
                del self.forgotten[next(iter(self.forgotten))]
        for by_source in (self.taken, self.garbage, self.sources):
            by_source.pop(source, None)
        for row in self.acknowledged.rows.values():
            row.numbers.pop(source, None)

    def taken_of(self, source: bytes) -> Numbers:
        numbers = self.taken.get(source)
        if numbers is None:
            highest = self.forgotten.pop(source, 0)
            numbers = self.taken[source] = Numbers(highest)
            if highest and self.me in self.acknowledged.rows:
                self.mine.of(source).update(highest, ())
        return numbers

    def garbage_of(self, source: bytes) -> Numbers:
        garbage = self.garbage.get(source)
        if garbage is None:
            garbage = self.garbage[source] = Numbers()
        return garbage

    def acknowledged_by(self, peer: PeerId) -> NumbersOnWire | None:
        """What a participant has; with what everybody has, for its last words may not have come here."""
        row = self.acknowledged.rows.get(peer)
        if row is None:
            return None
        for source, garbage in self.garbage.items():
            row.of(source).update(*garbage.wire())
        return row.wire()

    def acknowledged_here(self) -> NumbersOnWire:
        row = self.acknowledged.rows.get(self.me)
        if row is not None:
            return row.wire()
        return tuple((source, *numbers.wire()) for source, numbers in self.taken.items())

    def without_garbage(self, numbers: NumbersOnWire) -> NumbersOnWire:
        """Some numbers without what everybody has: should others hold that still, they will be told."""
        known = self.garbage
        rest = (
            (source, Numbers(mark, ranges).without(known.get(source, Numbers())))
            for source, mark, ranges in numbers
        )
        return tuple((source, *left.wire()) for source, left in rest if left)

    def garbage_wire(self, sources: Iterable[bytes]) -> NumbersOnWire:
        known = self.garbage
        return tuple(
            (source, *known[source].wire())
            for source in sources
            if source in known and known[source].highest
        )

    def others(self) -> list[Contact]:
        """The other participants that can be talked to."""
        membership = self.membership
        return [
            entry.contact
            for peer, entry in membership.participants.items()
            if peer != self.me and membership.can_talk_to(peer)
        ]
