"""Saying what was received: to the publisher soon and together, to others by gossip while anybody lacks it.

With a log, what is acknowledged is on the disk before: one sync for all that is acknowledged together. While
the disk fails, nothing is stated; it is tried again, and what is due is said when it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.topic_broadcast.messages import Item, Received, StatementOnWire
from pubsub.topic_broadcast.state import BroadcastState
from pubsub.topic_broadcast.topic_log import LogError, SourceNumbers
from pubsub.topic_membership.messages import Entry
from pubsub.topic_membership.parts import numbers_size, parts, pieces

MOST_SOURCES = 64
"""Sources that one gossip speaks of."""

STATEMENT_BYTES = 64
"""Of a statement without its numbers, at most."""


class Acknowledging:
    """This participant's statements."""

    def __init__(self, state: BroadcastState, on_synced: Callable[[], None]) -> None:
        """`on_synced` is called when what was received is on the disk."""
        self._state = state
        self._on_synced = on_synced
        self._due: dict[PeerId, dict[bytes, None]] = {}
        self._count = 0
        self._version = 0
        self._unsynced: dict[bytes, None] = {}
        self._is_unsynced = False
        self._timer: Timer | None = None
        self._refused = False
        self._retrying: Timer | None = None
        """Runs while the disk takes nothing."""
        self._owed: dict[PeerId, bool] = {}
        """Whom everything must be stated to when it does again, and whether they are to send again."""

    def stop(self) -> None:
        for timer in (self._timer, self._retrying):
            if timer is not None:
                timer.cancel()

    def acknowledge(self, item: Item, came_from: PeerId) -> None:
        """This participant has a message for good; its publisher, or who sent it, is told soon."""
        state = self._state
        state.mine.of(item.source).add(item.number)
        self._unsynced[item.source] = None
        if item.publisher == state.me:
            return
        to = item.publisher if state.membership.can_talk_to(item.publisher) else came_from
        self._due.setdefault(to, {})[item.source] = None
        self._count += 1
        if self._count >= state.config.ack_every:
            self.flush()
        elif self._timer is None:
            self._timer = state.context.call_later(state.config.ack_delay, self.flush)

    def refuse(self) -> None:
        """Something had to be refused: ask everybody again when there is room."""
        self._refused = True

    def ask_again_if_refused(self) -> None:
        state = self._state
        if self._refused and state.held.bytes < state.config.most_held_bytes // 2:
            self._refused = False
            for contact in state.others():
                self.state_to(contact, again=True)

    def flush(self) -> None:
        """Sync, and send what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.sync():
            return
        due, self._due = self._due, {}
        self._count = 0
        statements: dict[tuple[bytes, ...], tuple[StatementOnWire, ...]] = {}
        for peer, sources in due.items():
            entry = self._state.membership.participants.get(peer)
            if entry is not None:
                key = tuple(sources)
                if key not in statements:
                    statements[key] = (self.statement(key),)
                self._send(entry.contact, statements[key], ())

    def statement(self, sources: Iterable[bytes] | None = None) -> StatementOnWire:
        """What this participant has, of some sources or of all; with a log, only right after a sync."""
        self._version += 1
        state, mine = self._state, self._state.mine
        mine.version, mine.digest = self._version, state.membership.digest
        return (state.me, mine.boot, mine.version, mine.digest, mine.wire(sources))

    def sync(self) -> bool:
        """Put on the disk what was received and who takes part, if there is a log; whether it is there."""
        if self._retrying is not None:
            return False
        if not self._unsynced and not self._is_unsynced:
            return True
        state = self._state
        try:
            state.log.sync(map(self.numbers_of, self._unsynced))
        except LogError:
            state.counts["unsynced"] += 1
            self._retrying = state.context.call_later(state.config.check_interval, self._retry)
            return False
        self._unsynced.clear()
        self._is_unsynced = False
        self._on_synced()
        return True

    def _retry(self) -> None:
        self._retrying = None
        if not self.sync():
            return
        self.flush()
        owed, self._owed = self._owed, {}
        for peer, again in owed.items():
            entry = self._state.membership.participants.get(peer)
            if entry is not None:
                self.state_to(entry.contact, again=again)

    def changed(self, sources: Iterable[bytes] = ()) -> None:
        """The log was told something, or numbers of these sources are new: there is something to sync."""
        self._is_unsynced = True
        self._unsynced.update(dict.fromkeys(sources))

    def finish(self, item: Item) -> None:
        """The application is done with a message."""
        self._state.log.finished(item)
        self.changed()

    def know(self, entry: Entry) -> None:
        """Remember a participant: no statement is made with it in its digest before it is on the disk."""
        self._state.log.knows(entry)
        self.changed()

    def numbers_of(self, source: bytes) -> SourceNumbers:
        return SourceNumbers(source, *self._state.mine.of(source).wire())

    def skip(self, source: bytes, first: int, last: int) -> None:
        """Count as received what never came, and never will."""
        self._state.mine.of(source).add_span(first, last)
        self._unsynced[source] = None

    def state_to(self, contact: Contact, *, again: bool = False) -> None:
        """Tell a peer everything that this participant has, and what it knows to be garbage."""
        if self.sync():
            self._send(contact, (self.statement(),), tuple(self._state.garbage), again=again)
        else:
            self._owed[contact.id] = again or self._owed.get(contact.id, False)

    def tell_garbage(self) -> None:
        """Tell everybody what may be forgotten of this publisher's messages."""
        for contact in self._state.others():
            self._send(contact, (), (self._state.own_source,))

    def gossip(self, sources: list[bytes]) -> None:
        """Exchange with one participant, drawn at random, what is known about some sources."""
        state = self._state
        others = state.others()
        if others:
            contact = state.context.random.choice(others)
            self.answer(contact, sources[:MOST_SOURCES], asks=True)

    def answer(self, contact: Contact, sources: list[bytes], *, asks: bool = False) -> None:
        """Tell a peer what is known of everybody, about some sources."""
        if not self.sync():
            return
        self.statement(())  # with the digest of today
        statements = self._state.acknowledged.statements(sources)
        self._send(contact, statements, sources, asks=asks)

    def _send(
        self,
        contact: Contact,
        statements: tuple[StatementOnWire, ...],
        garbage: Iterable[bytes],
        *,
        asks: bool = False,
        again: bool = False,
    ) -> None:
        """In as many messages as it takes; statements and garbage say the same in any pieces."""
        state = self._state
        told = list(parts(_in_pieces(statements), _statement_size))
        gone = list(parts(pieces(state.garbage_wire(garbage)), numbers_size))
        count = max(1, len(told), len(gone))
        for place in range(count):
            is_last = place == count - 1
            message = Received(
                state.topic,
                tuple(told[place]) if place < len(told) else (),
                tuple(one for (one,) in gone[place]) if place < len(gone) else (),
                state.membership.digest,
                asks and is_last,
                again and is_last,
            )
            state.context.send(contact, message)


def _in_pieces(statements: tuple[StatementOnWire, ...]) -> Iterator[StatementOnWire]:
    for owner, boot, version, digest, numbers in statements:
        for part in list(parts(pieces(numbers), numbers_size)) or [[]]:
            some = tuple(one for (one,) in part)
            yield owner, boot, version, digest, some


def _statement_size(statement: StatementOnWire) -> int:
    return STATEMENT_BYTES + numbers_size(statement[4])
