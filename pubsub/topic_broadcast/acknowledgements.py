"""Who has acknowledged what, as one participant knows it: the paper's idMessagesReceived.

Each participant states what it has, with a version and the digest of the participants that it knew when it
made the statement. Numbers are only ever added, so statements may arrive in any order; the digest that counts
is that of the latest version. Rows of an earlier boot are forgotten with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.topic_broadcast.messages import StatementOnWire
from pubsub.topic_membership.messages import Entry, NumbersOnWire


class AcknowledgedBy:
    """What one participant has."""

    __slots__ = ("before", "boot", "digest", "grew_at", "numbers", "version")

    def __init__(self, boot: int, now: float) -> None:
        self.boot = boot
        self.version = 0
        self.digest: bytes | None = None
        """None while only its subscription is known, which says what it does not need."""
        self.numbers: dict[bytes, Numbers] = {}
        self.before: dict[bytes, Numbers] = {}
        """Those of them that it has no copy of, for all we know: it did not need them, or lost them."""
        self.grew_at = now

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
    """One row for each participant, this one included."""

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
