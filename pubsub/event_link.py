"""The way events leave a node, and how a publisher's receipts learn what became of its copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from overlay.contact import Contact
from pubsub.attachment import Attachment
from pubsub.event import Gossip
from pubsub.receipt import Receipt


class EventLink:
    """The `Carrier` of a process's events."""

    def __init__(self, attachment: Attachment, acknowledged: bool) -> None:
        """`acknowledged`: whether it can be known that a copy has arrived."""
        self._attachment = attachment
        self._acknowledged = acknowledged
        self._receipts: dict[bytes, Receipt] = {}

    @contextmanager
    def counting(self, receipt: Receipt) -> Iterator[None]:
        """Count the copies of an event that is published in this block, for as long as any is open."""
        self._receipts[receipt.id] = receipt
        try:
            yield
        finally:
            receipt.complete = True
            self._close_if_done(receipt)

    def accepted(self, gossip: Gossip, copies: int) -> None:
        receipt = self._receipts.get(gossip.id)
        if receipt is not None:
            receipt.copies += copies

    def refused(self, gossip: Gossip) -> None:
        receipt = self._receipts.get(gossip.id)
        if receipt is not None:
            receipt.copy_refused()
            self._close_if_done(receipt)

    def _settled(self, receipt: Receipt, arrived: bool) -> None:
        receipt.copy_settled(arrived)
        self._close_if_done(receipt)

    def _close_if_done(self, receipt: Receipt) -> None:
        done = receipt.is_settled if self._acknowledged else receipt.all_sent
        if done and receipt.complete:
            self._receipts.pop(receipt.id, None)

    def send(self, to: Sequence[Contact], gossip: Gossip) -> None:
        receipt = self._receipts.get(gossip.id)
        if receipt is None:
            self._attachment.send_event(to, gossip, None)
            return
        receipt.copies_sent(len(to))
        on_ack = partial(self._settled, receipt) if self._acknowledged else None
        self._attachment.send_event(to, gossip, on_ack)
        self._close_if_done(receipt)
