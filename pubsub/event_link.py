"""The way events leave a node: gathered into one message a member, paced by the channels, and accounted for.

What is sent to a member within one turn of the event loop leaves in one message, as far as it fits one
datagram. A publisher is held back while too much waits for any member that its events went to; forwarding
never is. Receipts learn what became of a publisher's own copies.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from functools import partial

from overlay.contact import Contact, PeerId
from pubsub.attachment import Attachment
from pubsub.camcast.event_drops import EventDrops
from pubsub.event import Copies, Gossip
from pubsub.receipt import Receipt, settle

EVENTS_A_TURN = 64
"""Events that publishers may publish before others on the loop get a turn, and before they are paced."""

BYTES_A_TURN = 256 * 1024
"""Bytes of copies that may be gathered before they are handed over."""

_BYTES_AROUND_A_COPY = 16

Batch = tuple[Copies, Sequence[Receipt]]


class _Handover:
    """Copies of own events that one member was sent in one message."""

    __slots__ = ("receipts",)

    def __init__(self, receipts: Sequence[Receipt]) -> None:
        self.receipts = receipts


class EventLink:
    """The `Carrier` of a process's events."""

    def __init__(self, attachment: Attachment, drops: EventDrops, acknowledged: bool) -> None:
        """`acknowledged`: whether it can be known that a copy has arrived."""
        self._attachment = attachment
        self._drops = drops
        self._acknowledged = acknowledged
        self._room = attachment.copies_room
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        """Where copies are handed over, whoever sent them: on a virtual network they die with the host."""
        self._receipts: dict[bytes, Receipt] = {}
        self._gathered: dict[PeerId, tuple[Contact, list[Gossip]]] = {}
        self._gathered_bytes = 0
        self._flush_is_due = False
        self._published = 0
        self._published_to: dict[PeerId, Contact] = {}
        self._held_back = 0
        self._awaited: dict[PeerId, dict[_Handover, None]] = {}
        """What was handed over for each member and is neither acknowledged nor given up."""

    def open(self, receipt: Receipt) -> None:
        """Count the copies of an event that is about to be published, for as long as any is open."""
        self._receipts[receipt.id] = receipt

    def completed(self, receipt: Receipt) -> None:
        """All copies of the event have been decided on, unless one fails."""
        receipt.complete = True
        self._close_if_done(receipt)

    def accepted(self, gossips: Sequence[Gossip], copies: int) -> None:
        for receipt in self._receipts_of(gossips):
            receipt.copies += copies

    def refused(self, gossip: Gossip) -> None:
        receipt = self._receipts.get(gossip.id)
        if receipt is not None:
            receipt.copy_refused()
            self._close_if_done(receipt)

    def send(self, to: Sequence[Contact], gossips: Sequence[Gossip]) -> None:
        gathered = self._gathered
        for contact in to:
            waiting = gathered.get(contact.id)
            if waiting is None:
                gathered[contact.id] = (contact, [*gossips])
            else:
                waiting[1].extend(gossips)
        for receipt in self._receipts_of(gossips):
            receipt.copies_sent(len(to))
        for gossip in gossips:
            self._gathered_bytes += len(to) * len(gossip.body)
        if self._gathered_bytes > BYTES_A_TURN:
            self.flush()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush_in_time, context=self._context)

    def suspect(self, peer: PeerId) -> None:
        """Give up the copies that are on their way to a member that seems to have crashed.

        Its channel goes on for longer, and they may arrive after all; that changes no receipt any more."""
        if peer in self._gathered:
            self.flush()
        for handover in self._awaited.pop(peer, ()):
            self._settle(handover, False)

    @property
    def is_pace_due(self) -> bool:
        """Whether a publisher is to call `pace` after its event."""
        self._published += 1
        return (
            self._published >= EVENTS_A_TURN
            or self._gathered_bytes > BYTES_A_TURN // 2
            or self._held_back > 0
        )

    async def pace(self) -> None:
        """Give others a turn, and wait while too much waits for those published to."""
        self._published = 0
        self.flush()
        to, self._published_to = self._published_to, {}
        self._held_back += 1
        try:
            await self._attachment.writable(to.values())
        finally:
            self._held_back -= 1

    def flush(self) -> None:
        """Hand over what was gathered."""
        gathered, self._gathered = self._gathered, {}
        self._gathered_bytes = 0
        alike: list[Gossip] = []
        batches: list[Batch] = []
        for contact, gossips in gathered.values():
            if gossips != alike:
                alike = gossips
                parts = split(gossips, self._room)
                batches = [(Copies.of(part), self._receipts_of(part)) for part in parts]
            for copies, receipts in batches:
                self._hand_over(contact, copies, receipts)

    def _flush_in_time(self) -> None:
        self._flush_is_due = False
        if self._gathered:
            self.flush()

    def _receipts_of(self, gossips: Sequence[Gossip]) -> Sequence[Receipt]:
        """Those of own events that are not settled yet."""
        if not self._receipts:
            return ()
        if len(gossips) == 1:
            receipt = self._receipts.get(gossips[0].id)
            return () if receipt is None else (receipt,)
        found = [self._receipts.get(gossip.id) for gossip in gossips]
        return [receipt for receipt in found if receipt is not None]

    def _hand_over(self, contact: Contact, copies: Copies, receipts: Sequence[Receipt]) -> None:
        if receipts:
            self._published_to[contact.id] = contact
            if self._acknowledged:
                handover = _Handover(receipts)
                self._awaited.setdefault(contact.id, {})[handover] = None
                on_ack = partial(self._answered, contact.id, handover)
                self._attachment.send_copies(contact, copies, on_ack)
                return
            for receipt in receipts:
                self._close_if_done(receipt)
        if not self._attachment.send_copies(contact, copies, None):
            self._drops.add("too_large", copies.community, copies.ids, contact.id)

    def _answered(self, peer: PeerId, handover: _Handover, arrived: bool) -> None:
        awaited = self._awaited.get(peer)
        if awaited is not None and handover in awaited:
            del awaited[handover]
            if not awaited:
                del self._awaited[peer]
            self._settle(handover, arrived)

    def _settle(self, handover: _Handover, arrived: bool) -> None:
        for receipt in settle(handover.receipts, arrived):
            self._receipts.pop(receipt.id, None)

    def _close_if_done(self, receipt: Receipt) -> None:
        done = receipt.is_settled if self._acknowledged else receipt.all_sent
        if done and receipt.complete:
            self._receipts.pop(receipt.id, None)


def split(gossips: Sequence[Gossip], room: int) -> Iterator[Sequence[Gossip]]:
    """Parts that can travel together: to one community in one direction, and within `room` bytes."""
    first, start = gossips[0], 0
    size = len(first.community.encode())
    for place, gossip in enumerate(gossips):
        own = len(gossip.body) + len(gossip.signature) + _BYTES_AROUND_A_COPY
        alike = gossip.community == first.community and gossip.upward == first.upward
        if place > start and (size + own > room or not alike):
            yield gossips[start:place]
            first, start = gossip, place
            size = len(first.community.encode())
        size += own
    yield gossips[start:]
