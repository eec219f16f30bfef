"""Publishing with options: events that wait for something, or go to an archive too.

`Node.publish` hands an event that says nothing of itself straight to its topic's `Outlet`. Everything else
comes here: the first event of a topic, which joins the community; events with a probability or a
dissemination of their own; durable ones; runs that their publisher names; events that carry a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.errors import UsageError
from pubsub.archive.protocol.config import DEADLINE
from pubsub.config import DisseminationKind, NodeConfig
from pubsub.data import DATA_LIMIT, pack_data
from pubsub.event import LAST_NUMBER, RUN_BYTES, Head
from pubsub.joined_topics import JoinedTopics
from pubsub.publishing import EVENTS_A_BLOCK, Outlet, Receipt
from pubsub.reliable.receipts import Budget, Wait, check_seconds
from pubsub.sending import BlockCarrier
from pubsub.topic import Topic

if TYPE_CHECKING:  # imported when a node first publishes a durable event, or makes its first span
    from pubsub.archive.durability import Durability
    from pubsub.archive.publishing import DurableOutcome, DurablePublishing
    from pubsub.telemetry import Telemetry

AnyTopic = str | type | Topic

MOST_OUTLETS = 65_536
"""Names of topics that are known without a look at the topic itself."""


class Options(NamedTuple):
    """What a publisher asks for its events; `Node.publish` says what each means."""

    wait: Wait | None = None
    durable: bool = False
    copies: int | None = None
    deadline: float | None = None
    upward: float | None = None
    dissemination: DisseminationKind | None = None

    def check(self, links: str) -> None:
        """`UsageError` that names what cannot be, on links of this kind."""
        wait, upward = self.wait, self.upward
        if wait not in (None, "sent", "acked", "safe") or (wait == "safe" and not self.durable):
            raise UsageError(f'wait is "sent", "acked", or with durable=True "safe", not {wait!r}')
        if wait == "acked" and links == "datagram":
            raise UsageError('wait="acked" needs links="channel": datagrams are not acknowledged')
        is_number = isinstance(upward, int | float) and not isinstance(upward, bool)
        if upward is not None and not (is_number and 0 <= upward <= 1):
            raise UsageError(f"upward is a probability, 0 to 1, not {upward!r}")
        if self.dissemination not in (None, "eager", "lazy"):
            raise UsageError(f'dissemination is "eager" or "lazy", not {self.dissemination!r}')
        if self.copies is not None and not self.durable:
            raise UsageError("copies goes with durable=True: no archive is sent this event")
        if self.deadline is not None:
            check_seconds("deadline", self.deadline)

    @property
    def until(self) -> Wait:
        """What is waited for: durable events are safe when `publish` returns, unless told otherwise."""
        return self.wait or ("safe" if self.durable else "sent")

    def budget(self) -> Budget:
        """The seconds that the call has in all."""
        default = DEADLINE if self.durable else None
        return Budget(default if self.deadline is None else self.deadline)

    def head(self, outlet: Outlet, trace: bytes) -> Head:
        """What events that are published with these options say of themselves."""
        eager = None if self.dissemination is None else self.dissemination == "eager"
        return outlet.head(None if self.upward is None else float(self.upward), eager, trace)


class Publications:
    """What one node publishes with options."""

    def __init__(
        self,
        config: NodeConfig,
        topics: JoinedTopics,
        carrier: BlockCarrier,
        durable: Callable[[], Durability],
        telemetry: Telemetry | None,
    ) -> None:
        """`durable`: the node's durable side, made when it is first asked for."""
        self._config = config
        self._topics = topics
        self._carrier = carrier
        self._durable = durable
        self._telemetry = telemetry
        self.outlets: dict[AnyTopic, Outlet] = {}
        """Where events are published without a detour, by the topic as callers name it."""

    async def publish(self, topic: AnyTopic, data: Any, options: Options) -> Receipt:
        """Publish an event that has options, or has to wait for its topic."""
        options.check(self._config.links)
        packed = pack_data(data)
        known = self._check_topic(topic, packed)
        copies = 1 if options.copies is None else options.copies
        budget = options.budget()
        publishing: DurablePublishing | None = None
        with self._span(topic) as trace:
            if options.durable:
                publishing = await self._durable().publishers.open(known, copies, budget)
            outlet, joined = await self._ready_outlet(known, budget)
            flows = outlet.is_open
            head = options.head(outlet, trace)
            receipt = outlet.add(packed, head, joined)
            if publishing is not None:
                self._archive(receipt, publishing, head, packed, copies)
            if self._topics.has_blocking:
                outlet.close()  # the next publisher sees what this event takes of the room
            waits = options.wait == "sent" or (options.until != "acked" and not flows)
            if waits or self._carrier.is_pace_due:
                async with budget.spend(f"publishing to {known}"):
                    if self._carrier.is_pace_due:
                        await self._carrier.pace()
                    if waits:
                        await receipt.wait_sent()
            await self._wait([receipt], options.until, budget)
        self._open_outlet(topic, outlet)
        return receipt

    async def publish_many_durable(
        self, topic: AnyTopic, data: Iterable[Any], options: Options
    ) -> list[Receipt]:
        """Publish a durable event for each of the data, in their order."""
        options.check(self._config.links)
        copies = 1 if options.copies is None else options.copies
        budget = options.budget()
        known = self._check_topic(topic, b"")
        publishers = self._durable().publishers
        receipts: list[Receipt] = []
        publishing: DurablePublishing | None = None
        with self._span(topic) as trace:
            for one in data:
                packed = pack_data(one)
                self._carrier.check_fits(known, packed)
                if publishing is None or not publishing.core.has_room:
                    publishing = await publishers.open(known, copies, budget)
                    outlet, joined = await self._ready_outlet(known, budget)
                    head = options.head(outlet, trace)
                receipt = outlet.add(packed, head, joined)
                receipts.append(receipt)
                self._archive(receipt, publishing, head, packed, copies)
                if self._topics.has_blocking:
                    outlet.close()
                if self._carrier.is_pace_due:
                    await self._carrier.pace()
                    publishing = None  # anything may have happened meanwhile
            await self._wait(receipts, options.until, budget)
        return receipts

    def may_repeat(self) -> None:
        """See `Node.may_repeat`."""
        self._durable().publishers.repeats = True

    async def publish_in_run(
        self, topic: AnyTopic, run: bytes, first: int, data: Sequence[Any], options: Options
    ) -> list[Receipt]:
        """See `Node.publish_in_run`."""
        from pubsub.reliable.batches import batches

        if not isinstance(run, bytes) or len(run) != RUN_BYTES:
            raise UsageError(f"the name of a run is {RUN_BYTES} bytes, not {run!r}")
        if not 0 < first < LAST_NUMBER - len(data):
            raise UsageError(f"the events of a run are numbered from 1 on, not from {first!r}")
        copies = 1 if options.copies is None else options.copies
        budget = options.budget()
        self.may_repeat()
        known = self._check_topic(topic, b"")
        packed = [pack_data(one) for one in data]
        for one in packed:
            self._carrier.check_fits(known, one)
        publishers = self._durable().publishers
        receipts: list[Receipt] = []
        publishing: DurablePublishing | None = None
        for part in batches(packed, len, DATA_LIMIT, EVENTS_A_BLOCK):
            if options.durable:
                publishing = await publishers.open(known, copies, budget)
            outlet, joined = await self._ready_outlet(known, budget)
            added = outlet.add_in_run(run, first + len(receipts), part, joined)
            if publishing is not None:
                head = outlet.head(None, None)
                for receipt, one in zip(added, part, strict=True):
                    self._archive(receipt, publishing, head, one, copies)
            receipts += added
            if self._carrier.is_pace_due:
                await self._carrier.pace()
        if not options.durable:
            for receipt in receipts:
                await receipt.wait_sent()
        await self._wait(receipts, options.until, budget)
        return receipts

    async def keep(self, topic: AnyTopic, data: Any, deadline: float) -> DurableOutcome:
        """See `Node.keep`."""
        from pubsub.archive.errors import ArchiveError

        packed = pack_data(data)
        known = self._check_topic(topic, packed)
        budget = Budget(deadline)
        publishing = await self._durable().publishers.open(known, 1, budget)
        self._carrier.check_right(known)
        block = self._carrier.make_kept(known, packed)
        outcome = publishing.add(block.encoded, block.signature, 1)
        try:
            await outcome.wait_safe(budget.left)
        except TimeoutError:
            raise ArchiveError(f"{outcome} is not known to be safe after {deadline:g} s") from None
        return outcome

    def _archive(
        self,
        receipt: Receipt,
        publishing: DurablePublishing,
        head: Head,
        packed: bytes,
        copies: int,
    ) -> None:
        """Send an event that is being published to its archive too, as a block of one, signed alone."""
        alone = self._carrier.make(receipt.source, receipt.sequence, head, (packed,))
        receipt.durable = publishing.add(alone.encoded, alone.signature, copies)

    async def _wait(self, receipts: Sequence[Receipt], until: Wait, budget: Budget) -> None:
        """Wait until all of them are acknowledged or safe; there is nothing to wait for if "sent" is all."""
        if until == "acked":
            async with budget.spend("waiting until what was published is acknowledged"):
                for receipt in receipts:
                    await receipt.wait_settled()
        elif until == "safe":
            from pubsub.archive.publishing import wait_until_safe

            for receipt in receipts:
                await wait_until_safe(receipt, budget)

    def _check_topic(self, topic: AnyTopic, packed: bytes) -> Topic:
        """The topic as it is known here, after a check that the data can travel in it."""
        known = self._topics.as_known(Topic.of(topic))
        self._carrier.check_fits(known, packed)
        return known

    async def _ready_outlet(self, topic: Topic, budget: Budget) -> tuple[Outlet, tuple[str, ...]]:
        """Where events of the topic are published, once it is joined; and what was joined for it."""
        joined_now = () if self._topics.get(topic.name) is not None else (topic.name,)
        joined = self._topics.join(topic)
        if not self._topics.may_publish(joined):
            async with budget.spend(f"publishing to {topic}"):
                await self._topics.wait_to_publish(joined)
        return joined.outlet, joined_now

    def _span(self, topic: AnyTopic) -> AbstractContextManager[bytes]:
        """What is said of a trace in events that are published within it."""
        return nullcontext(b"") if self._telemetry is None else self._telemetry.publishing(topic)

    def _open_outlet(self, topic: AnyTopic, outlet: Outlet) -> None:
        """Have further events of the topic published without a detour, if they need not wait and have no
        span of their own."""
        if self._telemetry is not None:
            return
        joined = self._topics.get(outlet.topic.name)
        if joined is not None and joined.outlet is outlet and self._topics.may_publish(joined):
            outlet.is_open = True
            if len(self.outlets) >= MOST_OUTLETS:
                self.outlets.clear()
            self.outlets[topic] = outlet
