"""Check & forward (DACE, section 6.2.3 and appendix 1, lines 19 to 24): bring each what it lacks.

After a change of the channels, and now and then while messages are held, a participant looks for every
other one at what that one has not acknowledged, and sends those messages of which it is first participant.
One that was away is sent nothing before it has said what it has. What was sent counts as sent until the
channel reports it lost or the receiver begins anew.

First participant: of those who hold a message, the one that sends it to a participant that lacks it.

The paper (DACE, section 6.2.2 and appendix 1, lines 8 to 13) takes the holder with the lowest id that has
an open channel to the receiver. A publisher sends to all its neighbours at once (lines 25 to 30); holders
with lower ids, which cannot know yet who else received the message, would then all send it once more. So
here the *publisher* comes first wherever it has an open channel to the receiver, and the lowest id only
where it has not. While a message is young, everybody with an open channel to the publisher is taken for a
holder: they receive it just now. In a stable phase exactly one participant sends a message to each other
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from overlay.contact import Contact, PeerId
from pubsub.reliable.batches import batches
from pubsub.topics.messages import Cast, Item
from pubsub.topics.state import BroadcastState, HeldMessage


def publisher_reaches(state: BroadcastState, held: HeldMessage, receiver: PeerId) -> bool:
    """Whether the publisher is still in the run in which it published, and can send it there itself."""
    item, membership = held.item, state.membership
    entry = membership.participants.get(item.publisher)
    return (
        entry is not None and entry.run == item.run and membership.is_open(item.publisher, receiver)
    )


def is_first(state: BroadcastState, held: HeldMessage, receiver: PeerId, young: bool) -> bool:
    """Whether this participant is the one to send a message to `receiver`, which it can talk to."""
    item, me = held.item, state.me
    if item.publisher == me:
        return True
    if publisher_reaches(state, held, receiver):
        return False
    membership = state.membership
    payload_needed = item.is_for(receiver)
    for peer in sorted(membership.participants):
        if peer >= me:
            break
        if payload_needed and not item.is_for(peer):
            continue
        if not membership.is_open(peer, receiver):
            continue
        if _holds(state, held, peer) or (young and membership.is_open(item.publisher, peer)):
            return False
    return True


def _holds(state: BroadcastState, held: HeldMessage, peer: PeerId) -> bool:
    item = held.item
    row = state.acknowledged.rows.get(peer)
    return peer in held.holders or (row is not None and row.holds(item.source, item.number))


BATCH_BYTES = 32 * 1024
"""Messages that are forwarded together."""

FEW_RANGES = 16
"""Of garbage that travel with a message: whatever is told beside it, the largest payload must fit."""

WAITS_LONG = 5
"""Patiences: what a participant still lacks this long after it has spoken, though its publisher cannot send
it, is sent by a holder drawn at random, should the one that is first not know that it is."""


class CheckAndForward:
    """Sends messages, new ones to all and held ones to those who lack them."""

    def __init__(self, state: BroadcastState) -> None:
        self._state = state
        self.spoken: dict[PeerId, float] = {}
        """The participants that have said what they have since their channel opened, and when."""
        self._stubs: dict[PeerId, list[HeldMessage]] = {}
        self._unstable_since: float | None = None

    # New messages.

    def publish(self, held: HeldMessage) -> None:
        """Send a new message to everybody who can be talked to (lines 25 to 30)."""
        state, item = self._state, held.item
        cast = self._cast((item,))
        for contact in state.others():
            if item.is_for(contact.id):
                self._send(contact, cast, (held,))
            else:
                self._stubs.setdefault(contact.id, []).append(held)

    @property
    def has_stubs(self) -> bool:
        return bool(self._stubs)

    def send_stubs(self) -> None:
        """Tell those to whom messages were not addressed which numbers to skip."""
        state, waiting = self._state, self._stubs
        self._stubs = {}
        for peer, messages in waiting.items():
            entry = state.membership.participants.get(peer)
            if entry is not None and state.membership.can_talk_to(peer):
                self._send_batches(entry.contact, messages)

    # Held messages.

    def check(self) -> None:
        """Look at every participant that can be talked to and has spoken."""
        if not len(self._state.held):
            return
        for contact in self._state.others():
            if contact.id in self.spoken:
                self._send_batches(contact, self._lacked_by(contact.id))

    def _lacked_by(self, peer: PeerId) -> Iterator[HeldMessage]:
        """The held messages that a peer lacks and that this participant is to send it."""
        state = self._state
        row = state.acknowledged.rows.get(peer)
        now, patience = state.context.now(), state.config.patience
        waits_since = now - WAITS_LONG * patience
        has_waited = self.spoken[peer] < waits_since and self._is_drawn()
        calm = self._is_calm()
        for source, messages in list(state.held.by_source.items()):
            oldest = next(iter(messages.values()))
            is_others = oldest.item.publisher != state.me
            if is_others and (not calm or publisher_reaches(state, oldest, peer)):
                continue
            has = row.numbers.get(source) if row is not None else None
            for number, held in messages.items():
                if (has is not None and number in has) or self._cannot_send(held, peer):
                    continue
                waits_long = has_waited and held.since < waits_since
                if waits_long or is_first(state, held, peer, held.since > now - patience):
                    yield held

    def _is_drawn(self) -> bool:
        """One participant of all, on average, each time that all of them ask."""
        people = len(self._state.membership.participants)
        return self._state.context.random.random() * people < 1

    def _cannot_send(self, held: HeldMessage, peer: PeerId) -> bool:
        """It is on its way to this peer, came from it, or is here without the payload that it needs."""
        item = held.item
        return (
            peer in held.sent
            or peer in held.holders
            or (item.payload is None and item.is_for(peer))
        )

    def _is_calm(self) -> bool:
        """Whether it is settled who can send to whom, or has not been settled for too long.

        Before, several would believe to be first. Publishers do not wait: they come first anyway.
        """
        state, now = self._state, self._state.context.now()
        if state.membership.is_stable:
            self._unstable_since = None
            return True
        if self._unstable_since is None:
            self._unstable_since = now
        return now - self._unstable_since > 2 * state.config.patience

    def _send_batches(self, contact: Contact, messages: Iterable[HeldMessage]) -> None:
        """Send messages until the channel is full; one that is too large for it keeps no other back."""

        def size(held: HeldMessage) -> int:
            return held.size if held.item.is_for(contact.id) else held.stub_size

        for batch in batches(messages, size, BATCH_BYTES):
            is_large = size(batch[0]) > BATCH_BYTES
            if not self._send_batch(contact, batch) and not is_large:
                return

    def _send_batch(self, contact: Contact, messages: list[HeldMessage]) -> bool:
        items = tuple(
            held.item if held.item.is_for(contact.id) else held.item.stub() for held in messages
        )
        if not self._send(contact, self._cast(items), tuple(messages)):
            return False
        self._state.counts["forwarded"] += len(items)
        return True

    def _cast(self, items: tuple[Item, ...]) -> Cast:
        state = self._state
        sources = dict.fromkeys(item.source for item in items)
        garbage = tuple(
            (source, mark, ranges[:FEW_RANGES])
            for source, mark, ranges in state.garbage_wire(sources)
        )
        return Cast(state.topic, items, garbage, state.membership.digest)

    def _send(self, contact: Contact, cast: Cast, messages: tuple[HeldMessage, ...]) -> bool:
        peer = contact.id
        self._state.membership.tell_along(contact)
        if not self._state.context.try_send(contact, cast, partial(_outcome, peer, messages)):
            return False
        for held in messages:
            held.sent[peer] = None
        return True


def _outcome(peer: PeerId, messages: tuple[HeldMessage, ...], arrived: bool) -> None:
    if not arrived:
        for held in messages:
            held.sent.pop(peer, None)
