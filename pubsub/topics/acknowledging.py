"""Saying what was received: to the publisher soon and together, to others by gossip while anybody lacks it.

With a log, what is acknowledged is on the disk before: one sync for all that is acknowledged together. While
the disk fails, nothing is stated; what is due is said when it works again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from overlay.contact import Contact, PeerId
from overlay.context import OneTimer
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers
from pubsub.topics.messages import (
    PART_BYTES,
    Entry,
    Item,
    Received,
    SourceNumbers,
    StatementOnWire,
    numbers_size,
    pieces,
)
from pubsub.topics.state import BroadcastState

MOST_SOURCES = 64
"""Sources that one gossip speaks of."""

STATEMENT_BYTES = 64
"""Bytes of a statement without its numbers, at most."""

ACK_EVERY = 32
"""Acknowledgements that are sent at once, before the delay for which they are collected."""


Action = Callable[[], None]


def _nothing() -> None:
    """Where nothing waits for a sync."""


class Acknowledging:
    """Sends this participant's statements of what it has."""

    def __init__(self, state: BroadcastState, on_sync: Callable[[], Action]) -> None:
        """`on_sync` is called when a sync begins; what it returns is called when that has ended, and all that
        the log was told before is on the disk."""
        self._state = state
        self._on_sync = on_sync
        self._due: dict[PeerId, dict[bytes, None]] = {}
        self._count = 0
        self._version = 0
        self._unsynced: dict[bytes, list[tuple[int, int]]] = {}
        """Numbers that this participant has, and that a sync has not begun for, by source."""
        self._ahead: dict[bytes, Numbers] = {}
        """What the log was told of sources while syncs are under way."""
        self._is_unsynced = False
        self._syncs = 0
        """Under way."""
        self._timer = OneTimer(state.context.call_later, self.flush)
        self._refused = False
        self._owed: dict[PeerId, bool] = {}
        """Whom everything is to be stated to after a sync, and whether they are to send again."""
        self._answers: dict[PeerId, tuple[dict[bytes, None], bool]] = {}
        """Whom some sources are to be answered to after a sync, and whether they are asked."""
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._timer.close()

    def acknowledge(self, item: Item, came_from: PeerId) -> None:
        """This participant has a message for good; its publisher, or who sent it, is told soon."""
        state = self._state
        self._has(item.source, item.number, item.number)
        if item.publisher == state.me:
            return
        to = item.publisher if state.membership.can_talk_to(item.publisher) else came_from
        self._due.setdefault(to, {})[item.source] = None
        self._count += 1
        if self._count >= ACK_EVERY:
            self.flush()
        else:
            self._timer.set(state.config.ack_delay)

    def _has(self, source: bytes, first: int, last: int) -> None:
        """These messages are here; with a log that is stated when they are on the disk."""
        if self._state.log.is_durable:
            self._unsynced.setdefault(source, []).append((first, last))
        else:
            self._state.mine.of(source).add_span(first, last)

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
        self._timer.cancel()
        due, self._due = self._due, {}
        self._count = 0
        self.sync(lambda: self._send_due(due))

    def _send_due(self, due: dict[PeerId, dict[bytes, None]]) -> None:
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

    def sync(self, then: Action = _nothing) -> None:
        """Put on the disk what was received and who takes part, if there is a log; then do something."""
        if not self._unsynced and not self._is_unsynced and not self._syncs:
            then()
            return
        state = self._state
        unsynced, self._unsynced = self._unsynced, {}
        self._is_unsynced = False
        self._syncs += 1
        synced = self._on_sync()

        def done() -> None:
            self._syncs -= 1
            if not self._syncs:
                self._ahead.clear()
            if self._stopped:
                return
            for source, spans in unsynced.items():
                state.mine.of(source).update(0, spans)
            synced()
            then()

        state.log.sync([self._numbers(source, spans) for source, spans in unsynced.items()], done)

    def _numbers(self, source: bytes, more: list[tuple[int, int]]) -> SourceNumbers:
        """All that the log is to know of a source: others' syncs may be under way."""
        ahead = self._ahead.get(source)
        if ahead is None:
            ahead = self._ahead[source] = Numbers(*self._state.mine.of(source).wire())
        for first, last in more:
            ahead.add_span(first, last)
        return (source, *ahead.wire())

    def changed(self, sources: Iterable[bytes] = ()) -> None:
        """The log was told something, or numbers of these sources are new: there is something to sync."""
        self._is_unsynced = True
        if self._state.log.is_durable:
            for source in sources:
                self._unsynced.setdefault(source, [])

    def finish(self, item: Item) -> None:
        """The application is done with a message."""
        self._state.log.finished(item)
        self.changed()

    def know(self, entry: Entry) -> None:
        """Remember a participant: no statement is made with it in its digest before it is on the disk."""
        self._state.log.knows(entry)
        self.changed()

    def skip(self, source: bytes, first: int, last: int) -> None:
        """Count as received what never came, and never will."""
        self._has(source, first, last)
        self.changed()

    def state_to(self, contact: Contact, *, again: bool = False) -> None:
        """Tell a peer everything that this participant has, and what it knows to be garbage."""
        is_first = contact.id not in self._owed
        self._owed[contact.id] = again or self._owed.get(contact.id, False)
        if is_first:
            self.sync(lambda: self._state_owed(contact))

    def _state_owed(self, contact: Contact) -> None:
        again = self._owed.pop(contact.id, False)
        self._send(contact, (self.statement(),), tuple(self._state.garbage), again=again)

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
        known, asked = self._answers.get(contact.id, ({}, False))
        is_first = contact.id not in self._answers
        self._answers[contact.id] = ({**known, **dict.fromkeys(sources)}, asks or asked)
        if is_first:
            self.sync(lambda: self._answer_now(contact))

    def _answer_now(self, contact: Contact) -> None:
        sources, asks = self._answers.pop(contact.id, ({}, False))
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
        told = batches(_in_pieces(statements), _statement_size, PART_BYTES)
        gone = batches(pieces(state.garbage_wire(garbage)), numbers_size, PART_BYTES)
        parts = list(zip_longest(told, gone, fillvalue=())) or [((), ())]
        for place, (said, garbage_said) in enumerate(parts, 1):
            is_last = place == len(parts)
            message = Received(
                state.topic,
                tuple(said),
                tuple(one for (one,) in garbage_said),
                state.membership.digest,
                asks and is_last,
                again and is_last,
            )
            state.context.send(contact, message)


def _in_pieces(statements: tuple[StatementOnWire, ...]) -> Iterator[StatementOnWire]:
    for owner, boot, version, digest, numbers in statements:
        for part in list(batches(pieces(numbers), numbers_size, PART_BYTES)) or [[]]:
            some = tuple(one for (one,) in part)
            yield owner, boot, version, digest, some


def _statement_size(statement: StatementOnWire) -> int:
    return STATEMENT_BYTES + numbers_size(statement[4])
