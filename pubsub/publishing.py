"""Publishing: a node's own events are numbered and filled into blocks, and have receipts.

What is published in a topic within one turn of the event loop leaves as one block, or several when it is
much. A block is closed at the end of the turn at the latest and never waits for company: an event that is
published alone is a block of one. All receipts of a block share what is known of its copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from overlay.contact import PeerId
from overlay.entropy import entropy
from pubsub.camcast.community import Spread
from pubsub.event import (
    NUMBER_BYTES,
    RUN_BYTES,
    Block,
    Head,
)
from pubsub.reliable.receipts import Wait, budget, check_wait
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.archive.publishing import DurableOutcome
    from pubsub.sending import BlockCarrier

EVENTS_A_BLOCK = 1024
"""Events of one block, however small they are."""

MOST_RUNS = 65_536
"""Topics of which the run and its latest number are remembered; then the oldest run ends, and the next event
of its topic begins another."""


class OwnBlock:
    """A block of this node's own events: what fills it, and later what is known of its copies."""

    __slots__ = (
        "_ask",
        "_then",
        "acknowledged",
        "awaited",
        "block",
        "complete",
        "copies",
        "failed",
        "first",
        "head",
        "payloads",
        "refused",
        "sent",
        "source",
        "targets",
        "upward",
        "waiter",
        "wants_answers",
    )

    def __init__(
        self, source: bytes, first: int, head: Head, ask: Callable[[OwnBlock], None]
    ) -> None:
        """`ask`: have the members that were sent the block acknowledge it now."""
        self.source = source
        self.first = first
        self.head = head
        self.payloads: list[bytes] = []
        """The events' data, packed; given up when the block is closed."""
        self.block: Block
        """What travels, once the block is closed."""
        self.targets = self.upward = self.copies = self.sent = 0
        self.acknowledged = self.failed = self.refused = 0
        self.awaited: dict[PeerId, int] = {}
        """Copies that each member was sent and has neither acknowledged nor is believed to have lost."""
        self.complete = False
        self.wants_answers = False
        """Somebody waits until its copies are acknowledged."""
        self._ask = ask
        self.waiter: asyncio.Future[None] | None = None
        """What those wait for who are told of any change."""
        self._then: list[Callable[[], None]] = []
        """To be called when the block is settled."""

    @property
    def all_sent(self) -> bool:
        return self.complete and self.sent + self.refused >= self.copies

    @property
    def is_settled(self) -> bool:
        return self.complete and self.acknowledged + self.failed >= self.copies

    def want_answers(self) -> None:
        """Do not wait until members acknowledge the block by themselves, with what else comes."""
        if not (self.wants_answers or self.is_settled):
            self.wants_answers = True
            if self.complete:
                self._ask(self)

    def forget(self, peer: PeerId) -> bool:
        """Whether a copy of the block was waited for; it is no longer."""
        left = self.awaited.pop(peer, 0)
        if left > 1:
            self.awaited[peer] = left - 1
        return left > 0

    def when_settled(self, then: Callable[[], None]) -> None:
        if self.is_settled:
            then()
        else:
            self._then.append(then)

    def wake(self) -> None:
        """Tell those who wait that something has changed."""
        if self._then and self.is_settled:
            settled, self._then = self._then, []
            for then in settled:
                then()
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def change(self) -> None:
        if self.waiter is None:
            self.waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self.waiter)


class Receipt:
    """What became of a published event, as far as its publisher can know.

    It counts the copies that the publishing node itself sends; they are kept up after `publish` returned.
    Once `acknowledged` is 1 or more, another process has the event, and the publisher may leave. What becomes
    of it beyond its direct targets is the work of others, and not known here. Events of one block share their
    copies, and what is said of them: nothing until the block leaves, at the end of the turn of the loop in
    which the event was published (`await receipt.wait_sent()`).
    """

    __slots__ = ("_block", "_place", "durable", "joined")

    def __init__(self, block: OwnBlock, place: int, joined: tuple[str, ...] = ()) -> None:
        self._block = block
        self._place = place
        self.joined = joined
        """Communities that were joined for this event; empty when the node was in its topic already."""
        self.durable: DurableOutcome | None = None
        """With `durable=True`: what is known of the event at its archive."""

    def __repr__(self) -> str:
        return (
            f"Receipt({self.topic} #{self.sequence}: {self.copies} copies, {self.sent} sent, "
            f"{self.acknowledged} acknowledged, {self.failed} failed)"
        )

    @property
    def id(self) -> bytes:
        run = self._block.source[-RUN_BYTES:]
        return run + self.sequence.to_bytes(NUMBER_BYTES, "big")

    @property
    def source(self) -> bytes:
        """The publisher's id and the run."""
        return self._block.source

    @property
    def topic(self) -> str:
        return self._block.head.topic

    @property
    def sequence(self) -> int:
        return self._block.first + self._place

    @property
    def targets(self) -> int:
        """Members of the community that the event went to from here."""
        return self._block.targets

    @property
    def upward(self) -> int:
        """Super-processes that it went to from here."""
        return self._block.upward

    @property
    def copies(self) -> int:
        """Copies to be sent from here; more than targets and upward when one had to be sent elsewhere."""
        return self._block.copies

    @property
    def sent(self) -> int:
        """Copies that have left; others wait for their target to confirm that it is in the community."""
        return self._block.sent

    @property
    def acknowledged(self) -> int:
        """Copies that have arrived; stays 0 with `links="datagram"`, which does not tell."""
        return self._block.acknowledged

    @property
    def failed(self) -> int:
        """Copies whose target is gone, or of which it will never be known."""
        return self._block.failed

    @property
    def complete(self) -> bool:
        """No further copy is being decided on, unless one fails."""
        return self._block.complete

    @property
    def all_sent(self) -> bool:
        """Every copy has left or has failed."""
        return self._block.all_sent

    @property
    def is_settled(self) -> bool:
        """Every copy has been acknowledged or has failed."""
        return self._block.is_settled

    @property
    def is_acked(self) -> bool:
        """Another process or an archive's disk has it, so that its publisher may leave."""
        return self._block.acknowledged > 0 or self.is_safe

    @property
    def is_safe(self) -> bool:
        """It is on as many archives' disks as were asked for; never so without `durable=True`."""
        return self.durable is not None and self.durable.is_safe

    async def wait(self, wait: Wait = "acked", deadline: float | None = None) -> None:
        """Wait until the event has reached the stage `wait`: every copy has left ("sent"), has arrived or has
        failed ("acked"), or, of a durable event, archives have it on their disks ("safe"). `NotInTime` after
        `deadline` seconds."""
        check_wait(wait, deadline, most="acked" if self.durable is None else "safe")
        async with budget(deadline, f'waiting until the event is "{wait}"'):
            if wait == "sent":
                await self.wait_sent()
            elif wait == "acked":
                await self.wait_settled()
            elif self.durable is not None:
                await self.durable.wait_safe()

    async def wait_sent(self) -> None:
        while not self._block.all_sent:
            await self._block.change()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as every copy has been acknowledged or has failed."""
        self._block.when_settled(then)

    async def wait_settled(self) -> None:
        self._block.want_answers()
        while not self._block.is_settled:
            await self._block.change()


class OwnRuns:
    """The runs of one node: for each topic that it publishes in, the source and the next number.

    The events of a run are numbered from 1 without a gap, through however many stays in the topic's
    community: subscribers in order take a number that comes again for old."""

    def __init__(self, publisher: PeerId) -> None:
        self._publisher = publisher
        self._runs: dict[str, tuple[bytes, int]] = {}

    def take(self, topic: str) -> tuple[bytes, int]:
        """The topic's source and next number; they are given back with `put`."""
        known = self._runs.pop(topic, None)
        return known or (self._publisher + entropy().randbytes(RUN_BYTES), 1)

    def put(self, topic: str, source: bytes, number: int) -> None:
        if len(self._runs) >= MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[topic] = (source, number)


class Outlet:
    """Fills blocks with the events that this node publishes in one topic."""

    def __init__(
        self,
        carrier: BlockCarrier,
        topic: Topic,
        publish: Callable[[Block], Spread],
        eager: bool,
    ) -> None:
        """`publish`: spread a block; `eager`: how events spread that do not say so themselves."""
        self.is_open = False
        """An event can be published without waiting for anything."""
        self._carrier = carrier
        self._publish = publish
        self._needs_right = carrier.has_rights
        self._eager = eager
        self.learn(topic)
        self._source, self._next = carrier.runs.take(topic.name)
        self._filling: OwnBlock | None = None
        self._left = 0
        """Bytes of data that the block being filled still takes."""

    def learn(self, topic: Topic) -> None:
        """The topic has these super-topics."""
        self.topic = topic
        self.largest = self._carrier.largest_in(topic)
        """Bytes of packed data that an event may have."""
        self._head = Head(topic.name, topic.lineage, None, self._eager)
        self._room = self._carrier.room_in(topic)

    def add_in_run(
        self, run: bytes, first: int, packed: Sequence[bytes], joined: tuple[str, ...] = ()
    ) -> list[Receipt]:
        """Publish events in this run of this publisher, numbered from `first` on, in blocks of their own; the
        outlet then goes on in the run it was in."""
        self.close()
        before = self._source, self._next
        self._source, self._next = self._source[:-RUN_BYTES] + run, first
        try:
            receipts = [self.add(one, joined=joined) for one in packed]
            self.close()
        finally:
            self._filling = None
            self._source, self._next = before
        return receipts

    def head(self, upward: float | None, eager: bool | None, trace: bytes = b"") -> Head:
        """What is said of events that are published with these options."""
        if upward is None and eager is None and not trace:
            return self._head
        eager = self._eager if eager is None else eager
        return self._head._replace(upward=upward, eager=eager, trace=trace)

    def add(self, packed: bytes, head: Head | None = None, joined: tuple[str, ...] = ()) -> Receipt:
        """Publish an event of data that is packed already; `joined`: what was joined for it.

        `DataError` when it is larger than an event may be on this node's links."""
        size = len(packed)
        left = self._left - size
        filling = self._filling
        if head is None:
            head = self._head
        if filling is None or left < 0 or (filling.head is not head and filling.head != head):
            if size > self.largest:
                self._carrier.check_fits(self.topic, packed)
            filling = self._begin(head)
            left = self._room - size
        payloads = filling.payloads
        place = len(payloads)
        payloads.append(packed)
        self._left = left
        if left < size or place >= EVENTS_A_BLOCK - 1:
            self.close()  # likely the next event does not fit: it need not find out
        return Receipt(filling, place, joined)

    def close(self) -> None:
        """Close the block that is being filled, and have it leave."""
        own, self._filling = self._filling, None
        if own is None:
            return
        payloads, own.payloads = own.payloads, []
        self._next = own.first + len(payloads)
        spread = self._publish(self._carrier.opened(own, payloads))
        own.targets = len(spread.members)
        own.upward = len(spread.upward)
        self._carrier.completed(own)
        if own.sent + own.refused < own.copies:
            self.is_open = False

    def end(self) -> None:
        """The topic is left: the run goes on when the node publishes in it again."""
        self.close()
        self.is_open = False
        self._carrier.runs.put(self.topic.name, self._source, self._next)

    def _begin(self, head: Head) -> OwnBlock:
        if self._needs_right:
            self._carrier.check_right(self.topic)
        if self._filling is not None:
            self.close()
        own = self._filling = OwnBlock(self._source, self._next, head, self._carrier.ask)
        self._carrier.begun(self)
        return own
