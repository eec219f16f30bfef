"""What the parts of one participant's broadcast share: the messages that it holds, who has acknowledged what,
and what it knows again when it comes back with its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from overlay.bounded import remember
from overlay.contact import ID_BYTES, Contact, PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.runs import source_of
from pubsub.topics.config import BroadcastConfig
from pubsub.topics.context import TopicContext
from pubsub.topics.log import Restored, TopicLog
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import Entry, Item, NumbersOnWire, StatementOnWire

OVERHEAD = 256
"""Bytes that a held message is charged beyond its payload and those whom it names."""

NAME_BYTES = ID_BYTES + 2


@dataclass(slots=True)
class HeldMessage:
    """One message, since when, who is known to hold it beside those who say so, and to whom it was sent."""

    item: Item
    since: float
    holders: dict[PeerId, None] = field(default_factory=dict)
    sent: dict[PeerId, None] = field(default_factory=dict)
    """It is on its way to these, or was received there; taken back when it turns out to be lost."""
    revived: bool = False
    """Everybody had it, and then one appeared that began the topic apart and does not."""

    @property
    def size(self) -> int:
        return self.stub_size + len(self.item.payload or b"")

    @property
    def stub_size(self) -> int:
        """What it takes to tell those to whom it is not addressed."""
        return OVERHEAD + NAME_BYTES * len(self.item.named)


class HeldMessages:
    """The messages that a participant holds because somebody may still lack them: the paper's
    messagesReceived. By source and number, each source's in the order of arrival.
    """

    def __init__(self) -> None:
        self.by_source: dict[bytes, dict[int, HeldMessage]] = {}
        self.bytes = 0
        self._bytes_of: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_source.values()))

    def __iter__(self) -> Iterator[HeldMessage]:
        for messages in self.by_source.values():
            yield from messages.values()

    def add(self, held: HeldMessage) -> None:
        source = held.item.source
        self.by_source.setdefault(source, {})[held.item.number] = held
        self.bytes += held.size
        self._bytes_of[source] = self._bytes_of.get(source, 0) + held.size

    def drop(self, source: bytes, number: int) -> bool:
        messages = self.by_source.get(source)
        held = messages.pop(number, None) if messages is not None else None
        if held is None:
            return False
        self.bytes -= held.size
        self._bytes_of[source] -= held.size
        if not messages:
            del self.by_source[source]
            del self._bytes_of[source]
        return True

    def bytes_of(self, source: bytes) -> int:
        return self._bytes_of.get(source, 0)

    def get(self, source: bytes, number: int) -> HeldMessage | None:
        return self.by_source.get(source, {}).get(number)

    def of(self, source: bytes) -> dict[int, HeldMessage]:
        return self.by_source.get(source, {})

    def older_than(self, since: float) -> list[bytes]:
        """The sources of which a message is held since before a time."""
        return [
            source
            for source, messages in self.by_source.items()
            if next(iter(messages.values())).since < since
        ]

    def unsend(self, peer: PeerId) -> None:
        """Nothing counts as sent to this peer any more."""
        for held in self:
            held.sent.pop(peer, None)
            held.holders.pop(peer, None)


class KeptMessages:
    """Messages that everybody has, of the last moments: one may appear that began the topic apart from those
    who are known, and took part when they were published."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._kept: dict[tuple[bytes, int], tuple[Item, float]] = {}
        """The messages, with the time since which each is kept, the oldest first."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, held: HeldMessage, now: float) -> None:
        key = (held.item.source, held.item.number)
        if key not in self._kept:
            self._kept[key] = (held.item, now)
            self._bytes += held.size
            self._forget_old(now)

    def take_lacked(
        self, has: Callable[[bytes, int], bool], known_since: float, now: float
    ) -> list[Item]:
        """Take out what a participant lacks of what was let go before it was known."""
        self._forget_old(now)
        lacked = [
            item
            for item, since in self._kept.values()
            if since <= known_since and not has(item.source, item.number)
        ]
        for item in lacked:
            self._forget((item.source, item.number))
        return lacked

    def _forget_old(self, now: float) -> None:
        while self._kept:
            key, (_, since) = next(iter(self._kept.items()))
            if self._bytes <= self._most_bytes and now - since < self._seconds:
                return
            self._forget(key)

    def _forget(self, key: tuple[bytes, int]) -> None:
        item, since = self._kept.pop(key)
        self._bytes -= HeldMessage(item, since).size


@dataclass(slots=True)
class AcknowledgedBy:
    """What one participant has."""

    boot: int
    grew_at: float
    version: int = 0
    digest: bytes | None = None
    """None while only its subscription is known, which says what it does not need."""
    numbers: dict[bytes, Numbers] = field(default_factory=dict)
    before: dict[bytes, Numbers] = field(default_factory=dict)
    """Those of them that it has no copy of, for all we know: it did not need them, or lost them."""

    def has(self, source: bytes, number: int) -> bool:
        numbers = self.numbers.get(source)
        return numbers is not None and number in numbers

    def holds(self, source: bytes, number: int) -> bool:
        """Whether it has received a message in this boot, and can send it to others."""
        before = self.before.get(source)
        return self.has(source, number) and (before is None or number not in before)

    def of(self, source: bytes) -> Numbers:
        numbers = self.numbers.get(source)
        if numbers is None:
            numbers = self.numbers[source] = Numbers()
        return numbers

    def add(self, wire: NumbersOnWire, now: float) -> bool:
        grew = False
        for source, mark, ranges in wire:
            grew = self.of(source).update(mark, ranges) or grew
        if grew:
            self.grew_at = now
        return grew

    def wire(self, sources: Iterable[bytes] | None = None) -> NumbersOnWire:
        """What is stated of some sources, or of all."""
        chosen = self.numbers if sources is None else [s for s in sources if s in self.numbers]
        return tuple((source, *self.numbers[source].wire()) for source in chosen)


class Acknowledgements:
    """Who has acknowledged what, as one participant knows it: the paper's idMessagesReceived.

    Each participant, this one included, states what it has, with a version and the digest of the
    participants that it knew when it made the statement. Numbers are only ever added, so statements may
    arrive in any order; the digest that counts is that of the latest version. Rows of an earlier boot are
    forgotten with it.
    """

    def __init__(self) -> None:
        self.rows: dict[PeerId, AcknowledgedBy] = {}

    def begin(self, entry: Entry, now: float) -> AcknowledgedBy:
        """A participant has joined, or begun anew: what it does not need counts as acknowledged."""
        row = self.rows[entry.id] = AcknowledgedBy(entry.boot, now)
        row.add(entry.before, now)
        row.before = {source: Numbers(mark, ranges) for source, mark, ranges in entry.before}
        return row

    def has(self, peer: PeerId, source: bytes, number: int) -> bool:
        row = self.rows.get(peer)
        return row is not None and row.has(source, number)

    def merge(self, statement: StatementOnWire, now: float) -> bool:
        """Take a statement; False when it says nothing new, or is of another boot than is known."""
        owner, boot, version, digest, numbers = statement
        row = self.rows.get(owner)
        if row is None or row.boot != boot:
            return False
        news = row.add(numbers, now)
        if version > row.version:
            news = news or row.digest != digest
            row.version, row.digest = version, digest
        return news

    def statements(self, sources: Iterable[bytes]) -> tuple[StatementOnWire, ...]:
        """What is known of everybody who has made a statement, about some sources."""
        chosen = list(sources)
        return tuple(
            (owner, row.boot, row.version, row.digest, row.wire(chosen))
            for owner, row in self.rows.items()
            if row.digest is not None
        )


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
"""Times `most_sources`: sources of which the highest number alone is remembered, some 120 bytes each."""


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
        self.counts = counts
        for what in COUNTED:
            counts.setdefault(what, 0)

    @property
    def own_source(self) -> bytes:
        return source_of(self.me, self.membership.run)

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
            most = FORGOTTEN * self.config.most_sources
            remember(self.forgotten, source, taken.highest, most)
        for by_source in (self.taken, self.garbage):
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


def restore(state: BroadcastState, restored: Restored) -> int:
    """Take what the log holds; the number of the last message that was published."""
    for source, mark, ranges in restored.received:
        state.taken_of(source).update(mark, ranges)
    for item in (*restored.held, *restored.unfinished):
        state.taken_of(item.source).add(item.number)
    for item in restored.held:
        state.held.add(HeldMessage(item, state.context.now(), {item.publisher: None}))
    _restore_garbage(state, restored)
    own = state.taken.get(state.own_source)
    return own.highest if own is not None else 0


def _restore_garbage(state: BroadcastState, restored: Restored) -> None:
    """What was taken and is not held any more, everybody had; save what was there before it began: of that,
    others may hold something for somebody."""
    mine = next((entry for entry in restored.entries if entry.id == state.me), None)
    if mine is None:
        return
    before = {source: (mark, ranges) for source, mark, ranges in mine.before}
    for source, taken in state.taken.items():
        kept = Numbers(0, ((number, number) for number in sorted(state.held.of(source))))
        if source in before and source != state.own_source:
            kept.update(*before[source])
        state.garbage_of(source).update(0, taken.without(kept).spans())
