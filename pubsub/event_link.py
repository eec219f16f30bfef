"""The way events leave a node, and how a publisher's receipts learn what became of its copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from overlay.contact import Contact
from overlay.context import Randomness, Timer
from pubsub.attachment import Attachment
from pubsub.event import Gossip
from pubsub.receipt import Receipt


class EventLink:
    """The events' `Context` of a process, and the `Fate` of their copies."""

    def __init__(self, attachment: Attachment, acknowledged: bool) -> None:
        """`acknowledged`: whether it can be known that a copy has arrived."""
        self._attachment = attachment
        self._acknowledged = acknowledged
        self._control = attachment.control
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

    def accepted(self, gossip: Gossip) -> None:
        receipt = self._receipts.get(gossip.id)
        if receipt is not None:
            receipt.copies += 1

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

    @property
    def contact(self) -> Contact:
        return self._control.contact

    @property
    def random(self) -> Randomness:
        return self._control.random

    def now(self) -> float:
        return self._control.now()

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._control.call_later(delay, action)

    def send(self, to: Contact, message: object) -> None:
        assert type(message) is Gossip
        receipt = self._receipts.get(message.id)
        if receipt is None:
            self._attachment.send_event(to, message, None)
            return
        receipt.copy_sent()
        on_ack = partial(self._settled, receipt) if self._acknowledged else None
        self._attachment.send_event(to, message, on_ack)
        self._close_if_done(receipt)
