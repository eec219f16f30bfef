"""What became of a published event, as far as its publisher can know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pubsub.archive.publishing import DurableOutcome


class Receipt:
    """Counts of the copies that the publishing node itself sends; they are kept up after `publish` returned.

    Once `acknowledged` is 1 or more, another process has the event, and the publisher may leave. What becomes
    of it beyond its direct targets is the work of others, and not known here.
    """

    __slots__ = (
        "_refused",
        "_waiter",
        "acknowledged",
        "complete",
        "copies",
        "durable",
        "failed",
        "id",
        "joined",
        "sent",
        "sequence",
        "targets",
        "topic",
        "upward",
    )

    def __init__(self, id: bytes, topic: str, sequence: int, joined: tuple[str, ...]) -> None:
        self.id = id
        self.topic = topic
        self.sequence = sequence
        self.joined = joined
        """Communities that were joined for this event; empty when the node was in its topic already."""
        self.targets = 0
        """Members of the community that the event went to from here."""
        self.upward = 0
        """Super-processes that it went to from here."""
        self.copies = 0
        """Copies to be sent from here; more than targets and upward when one had to be sent elsewhere."""
        self.sent = 0
        """Copies that have left; others wait for their target to confirm that it is in the community."""
        self.acknowledged = 0
        """Copies that have arrived; stays 0 with `links="datagram"`, which does not tell."""
        self.failed = 0
        """Copies whose target is gone, or of which it will never be known."""
        self.complete = False
        """No further copy is being decided on, unless one fails."""
        self.durable: DurableOutcome | None = None
        """With `durable=True`: what is known of the event at its archive."""
        self._refused = 0
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return (
            f"Receipt({self.topic} #{self.sequence}: {self.copies} copies, {self.sent} sent, "
            f"{self.acknowledged} acknowledged, {self.failed} failed)"
        )

    @property
    def all_sent(self) -> bool:
        """Every copy has left or has failed."""
        return self.sent + self._refused >= self.copies

    @property
    def is_settled(self) -> bool:
        """Every copy has been acknowledged or has failed."""
        return self.acknowledged + self.failed >= self.copies

    def copies_sent(self, count: int) -> None:
        self.sent += count
        if self._waiter is not None:
            self._wake()

    def copy_settled(self, arrived: bool) -> None:
        if arrived:
            self.acknowledged += 1
        else:
            self.failed += 1
        if self._waiter is not None:
            self._wake()

    def copy_refused(self) -> None:
        """A copy was given up before it left."""
        self._refused += 1
        self.copy_settled(False)

    async def wait_sent(self) -> None:
        while not self.all_sent:
            await self._change()

    async def wait_settled(self) -> None:
        while not self.is_settled:
            await self._change()

    async def _change(self) -> None:
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)

    def _wake(self) -> None:
        assert self._waiter is not None
        waiter, self._waiter = self._waiter, None
        if not waiter.done():
            waiter.set_result(None)


def settle(receipts: Iterable[Receipt], arrived: bool) -> list[Receipt]:
    """A copy of each of these has arrived, or never will; those that are settled with it."""
    settled = []
    for receipt in receipts:
        if arrived:
            receipt.acknowledged += 1
        else:
            receipt.failed += 1
        if receipt._waiter is not None:
            receipt._wake()
        if receipt.complete and receipt.acknowledged + receipt.failed >= receipt.copies:
            settled.append(receipt)
    return settled
