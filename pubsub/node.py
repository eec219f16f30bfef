"""The front door: a node of the network, which publishes and subscribes.

    async with Node(listen="127.0.0.1:0", bootstrap=["127.0.0.1:4000"]) as node:
        async with node.subscribe("/soccer") as events:
            async for event in events:
                print(event.topic, event.data)

What is promised, with links over channels and no crash or partition: an event reaches every subscriber of its
topic and super-topics that the members know, with the probability that the parameters give (see
`pubsub.camcast.parameters`); nobody else is sent it; nobody is given it twice within
`duplicate_lifetime`. Crashes and partitions are repaired; what was published meanwhile may not reach all.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from overlay.contact import Address, Contact, PeerId
from overlay.errors import ClosedError, UsageError
from overlay.futures import Finish, is_running_here
from overlay.metrics import Metrics
from pubsub.archive.protocol.config import DEADLINE
from pubsub.attach import Attachment, attach
from pubsub.camcast.community import Services
from pubsub.camcast.lazy import LazyGossip
from pubsub.camcast.observer import EventDrops
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.process import Process
from pubsub.config import DisseminationKind, NodeConfig, NodeSettings, config_of
from pubsub.data import pack_data
from pubsub.event import Event
from pubsub.joined_topics import JoinedTopics
from pubsub.protection import Protection
from pubsub.publications import AnyTopic, Options, Publications
from pubsub.publishing import Outlet, OwnRuns, Receipt
from pubsub.reliable.receipts import Wait
from pubsub.rights import REVOCATIONS, Action
from pubsub.sending import BlockCarrier
from pubsub.subscription import Deliveries, Order, Overflow, Subscription
from pubsub.topic import Pattern, Topic
from pubsub.trace import Trace
from pubsub.validation import Validation

if TYPE_CHECKING:  # these services are imported when a node first uses them
    from pubsub.archive.archive import Archive
    from pubsub.archive.durability import Durability
    from pubsub.archive.durable_subscription import DurableOptions, DurableSubscription
    from pubsub.archive.publishing import DurableOutcome
    from pubsub.collections.node_collections import C, NodeCollections
    from pubsub.requests import Reply, Requests, Serving
    from pubsub.telemetry import Telemetry
    from pubsub.threads import ThreadsafeNode

E = TypeVar("E", bound=Event)

DEFAULT_QUEUE = 10_000

CALLBACK_SECONDS = 1.0
"""Seconds that subscribers' callbacks have to finish what they are at when their node closes."""

COLLECTION_CODES = range(0x60, 0x70)
"""The codes of messages between collections (see `overlay.wire`)."""


class Node:
    """One process of the network; enter it with `async with`, and all of it ends with the block."""

    __signature__ = inspect.signature(NodeConfig)

    def __init__(self, **settings: Unpack[NodeSettings]) -> None:
        """The settings are the fields of `NodeConfig`; `UsageError` when they cannot work."""
        self.config = config_of(settings)
        self.metrics = Metrics()
        self._outlets: dict[AnyTopic, Outlet] = {}
        self._attachment: Attachment | None = None
        self._finish: Finish | None = None
        self.closes_first: dict[Callable[[], Awaitable[None]], None] = {}
        """What else runs on this node, and has to be closed before the node is."""
        self._trace: Trace | None = None
        self.telemetry: Telemetry | None = None
        """What makes spans of OpenTelemetry, with the setting `telemetry`."""
        self._durability: Durability | None = None
        self._collections: NodeCollections | None = None
        self._requests: Requests | None = None
        self.callbacks: set[asyncio.Task[None]] = set()
        """Tasks that give subscribers' callbacks their events, and end with this node."""
        self.reporting: dict[str, Callable[[], dict[str, Any]]] = {}
        """What services on this node add to its reports, by their names (see `pubsub.reports`)."""
        self.archive: Archive | None = None
        """The archive that runs on this node, if one does; it sets this itself."""

    @classmethod
    def from_config(cls, config: NodeConfig) -> Node:
        node = cls()
        node.config = config
        return node

    async def __aenter__(self) -> Self:
        """Open the socket and join the network; `NetworkError` when none of `bootstrap` answers."""
        if self._attachment is not None:
            raise UsageError("a node is entered once; make another one")
        self._loop = asyncio.get_running_loop()
        config = self.config
        if config.trace is not None:
            later = asyncio.get_running_loop().call_later
            self._trace = Trace(config.trace, time.time, later)
        try:
            attachment = self._attachment = await attach(config, self.metrics)
        except BaseException:
            if self._trace is not None:
                self._trace.close()
            raise
        self._finish = Finish(self._end)
        # Those who knew this node before it restarted may speak to its collections first.
        attachment.runtime.start_on(COLLECTION_CODES, self._start_collections)
        if self._trace is not None:
            self._trace.of_node(attachment.contact.id)
        self._start(attachment)
        self._answer_reports(attachment)
        self._protection = Protection(attachment, self._process, self._topics, self.metrics)
        return self

    def _start(self, attachment: Attachment) -> None:
        """Make what carries events in and out, from the network to the subscriptions, and let it run."""
        config, gate = self.config, attachment.gate
        self.validation = Validation(
            config.validators, config.signatures, None if gate is None else gate.authority
        )
        """What this node asks of events before it delivers or forwards them."""
        self._drops = EventDrops(self.metrics, self._trace)
        self._deliveries = Deliveries(self.metrics, self._trace)
        if config.telemetry:
            from pubsub.telemetry import Telemetry, TracedDeliveries

            self.telemetry = Telemetry()
            self._deliveries = TracedDeliveries(self.telemetry, self.metrics, self._trace)
        self._carrier = BlockCarrier(
            attachment.ways,
            attachment.runtime.turn,
            OwnRuns(attachment.contact.id),
            self._drops,
            self.metrics,
            signer=attachment.identity if config.signatures else None,
            rights=None if gate is None else gate.own,
            block_size=config.block_size,
            traced=config.telemetry,
        )
        self._process = Process(self._services(attachment), config.parameters)
        self._topics = JoinedTopics(self._process, config, self._carrier, self._drops)
        self._publications = Publications(
            config, self._topics, self._carrier, self._durable, self.telemetry
        )
        self._outlets = self._publications.outlets
        attachment.serve(self._process)

    def _services(self, attachment: Attachment) -> Services:
        """What communities use of this node."""
        services = Services(
            control=attachment.control,
            questions=attachment.questions,
            carrier=self._carrier,
            make_membership=attachment.make_membership,
            end_membership=attachment.end_membership,
            find_contacts=attachment.find_contacts,
            draws_tables=attachment.draws_tables,
            finds_all=attachment.finds_all,
            is_light=attachment.is_light,
            metrics=self.metrics,
            trace=self._trace,
            watch=attachment.watch,
            unwatch=attachment.unwatch,
            refusal=None if self.validation.asks_nothing else self.validation.refusal,
            useless=attachment.runtime.endpoint.useless,
            dissemination=LazyGossip,
        )
        gate = attachment.gate
        if gate is None:
            return services
        return replace(
            services, may_receive=lambda peer, topic: gate.may(peer, Action.SUBSCRIBE, topic)
        )

    def _answer_reports(self, attachment: Attachment) -> None:
        from pubsub.reports import Answering, AskReport, may_ask, report_of

        context = attachment.runtime.context("channel")
        answering = Answering(context, lambda: report_of(self), attachment.known_nodes)
        is_on = self.config.reports
        attachment.runtime.on(AskReport, answering.receive if is_on else answering.ignore)
        if attachment.gate is not None:
            attachment.gate.require({AskReport: may_ask})

    async def decrypted(self, events: AsyncIterable[E]) -> AsyncIterator[E]:
        """Events of a subscription, durable or not, with the data of those that were published with
        `encrypt=True` in the clear; all others as they are.

        An event whose key this node has not yet waits for it, and those behind it. An event that this node
        cannot read is left out and counted (`secret_keys`): it has no right to subscribe to the topic, or
        nobody is left who has the key."""
        self._attached()
        async for event in self._protection.opened(events):
            yield event

    def check_right(self, action: Action, topic: str) -> None:
        """`RightError` unless this node may do this on the topic; without an authority all may."""
        self._attached()
        self._protection.check(action, topic)

    async def revoke(self, revocation: bytes) -> int:
        """Publish that a right was taken back: what `pubsub.rights.revoke` makes, or `camcast right revoke`.

        It returns when those that this node knows have it, with their number; they pass it on. `RightError`
        when it is not valid in this network."""
        self._attached()
        self._protection.take_back(revocation)
        receipt = await self.publish(REVOCATIONS, revocation, wait="acked")
        return receipt.acknowledged

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave: subscriptions end, communities are left, the socket is closed, nothing keeps running.

        More than once is fine. A caller that is cancelled meanwhile stops waiting; the node closes all the
        same."""
        if self._finish is not None:
            closing = asyncio.current_task()
            if closing in self.callbacks:  # it can neither be waited for nor be cancelled here
                self.callbacks.discard(closing)
            await self._finish()

    async def _end(self) -> None:
        attachment, self._attachment = self._attachment, None
        assert attachment is not None
        async with AsyncExitStack() as ending:  # from the last to the first, though one raises
            if self._trace is not None:
                ending.callback(self._trace.close)
            ending.push_async_callback(self._end_callbacks)
            ending.push_async_callback(attachment.close)
            ending.callback(self._process.close)
            ending.callback(self._topics.close)
            ending.callback(self._protection.stop)
            if self._requests is not None:
                ending.callback(self._requests.close)
            if self._durability is not None:
                ending.callback(self._durability.close)
            if self._collections is not None:
                ending.push_async_callback(self._collections.close)
            for close in self.closes_first:
                ending.push_async_callback(close)

    async def _end_callbacks(self) -> None:
        """Wait a moment for those that are at work, then cancel them; on return, all have ended."""
        tasks = set(self.callbacks)
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=CALLBACK_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks)

    def flush_trace(self) -> None:
        """Write what has happened so far to the trace's file; nothing where none is written."""
        if self._trace is not None:
            self._trace.flush()

    @property
    def attachment(self) -> Attachment:
        """This node's place in the network, for further protocols on it."""
        return self._attached()

    @property
    def threadsafe(self) -> ThreadsafeNode:
        """This node for other threads than its event loop's: calls that wait, in place of coroutines."""
        from pubsub.threads import ThreadsafeNode

        self._attached()
        return ThreadsafeNode(self, self._loop)

    @property
    def id(self) -> PeerId:
        """This node's identity, which its events carry as their publisher."""
        return self._attached().contact.id

    @property
    def address(self) -> Address:
        """Where others reach this node."""
        return self._attached().contact.address

    # Subscribing.

    @overload
    def subscribe(
        self,
        topic: AnyTopic | Pattern,
        *,
        order: Order = "none",
        overflow: Overflow = "drop_oldest",
        queue: int = DEFAULT_QUEUE,
        last: bool = False,
    ) -> Subscription: ...

    @overload
    def subscribe(
        self, topic: AnyTopic | Pattern, *, durable: str, **options: Unpack[DurableOptions]
    ) -> DurableSubscription: ...

    def subscribe(
        self,
        topic: str | type | Topic | Pattern,
        *,
        order: Order = "none",
        overflow: Overflow = "drop_oldest",
        queue: int = DEFAULT_QUEUE,
        last: bool = False,
        durable: str | None = None,
        **options: Any,
    ) -> Subscription | DurableSubscription:
        """A subscription to a topic with all its subtopics, present and future, or to a pattern.

        It begins when it is entered with `async with`. `queue` is how many events may wait. `last`: the last
        event of each topic comes first, as far as a member or an archive still has it. With a `durable`
        name, an archive keeps for it what it misses; see `pubsub.archive.durable_subscription`."""
        self._attached()
        self._check_subscribe_options(order, overflow, queue, last, durable, options)
        if durable is not None:
            return self._durable().subscribe(Pattern.of(topic), durable, options)
        pattern = Pattern.of(topic)
        return Subscription(self, pattern, self._deliveries, order, overflow, queue, last)

    def _check_subscribe_options(
        self,
        order: Order,
        overflow: Overflow,
        queue: int,
        last: bool,
        durable: str | None,
        options: dict[str, Any],
    ) -> None:
        if options:
            from pubsub.archive.durable_subscription import DurableOptions
        for name in options:
            if name not in DurableOptions.__annotations__:
                raise UsageError(f"there is no option {name!r} of a subscription")
            if durable is None:
                raise UsageError(f"{name} goes with durable: name the subscription")
        if durable is not None:
            plain = {
                "order": order != "none",
                "overflow": overflow != "drop_oldest",
                "queue": queue != DEFAULT_QUEUE,
                "last": last,
            }
            for name in [name for name, is_given in plain.items() if is_given]:
                raise UsageError(f"{name} does not go with durable: the archive keeps the events")

    async def _open_subscription(self, subscription: Subscription) -> None:
        self._check_loop()
        self.check_right(Action.SUBSCRIBE, subscription.pattern.topic.name)
        await self._topics.open_subscription(subscription)
        if subscription.wants_last:
            from pubsub.last_values import last_values

            try:
                values = await last_values(self, self._process, subscription.pattern)
            except BaseException:
                self._topics.close_subscription(subscription)
                raise
            subscription.begin_with(values)

    async def _close_subscription(self, subscription: Subscription) -> None:
        self._topics.close_subscription(subscription)

    def collection(self, kind: type[C], topic: str | type | Topic, **options: Any) -> C:
        """The topic as a collection (see `pubsub.collections`), open inside `async with`."""
        self._attached()
        return self._start_collections().make(kind, topic, **options)

    def _start_collections(self) -> NodeCollections:
        if self._collections is None:
            from pubsub.collections.node_collections import NodeCollections

            self._collections = NodeCollections(self)
            self._collections.start()
        return self._collections

    # Requests.

    async def request(self, name: str, data: Any = None, *, timeout: float = 5.0) -> Any:
        """The reply of one of the nodes that serve the name (see `pubsub.requests`); `NoReply` when none has
        replied within `timeout` seconds, `RequestFailed` when the server says that it cannot. `data` is what
        `publish` takes."""
        self.check_right(Action.PUBLISH, Topic.of(name).name)
        return await self._start_requests().request(Topic.of(name).name, data, timeout)

    async def request_all(
        self, name: str, data: Any = None, *, timeout: float = 5.0
    ) -> list[Reply]:
        """The replies of all nodes that serve the name, as soon as everyone who is found has replied, or
        those that have come within `timeout` seconds; `NoReply` when none has."""
        self.check_right(Action.PUBLISH, Topic.of(name).name)
        return await self._start_requests().request_all(Topic.of(name).name, data, timeout)

    def serve(self, name: str) -> Serving:
        """The requests of this name that come to this node: in `async for`, which ends with an `async with`
        around it, if there is one."""
        from pubsub.requests import Serving

        self.check_right(Action.SUBSCRIBE, Topic.of(name).name)
        return Serving(self._start_requests(), Topic.of(name).name)

    def _start_requests(self) -> Requests:
        attachment = self._attached()
        self._check_loop()
        if self._requests is None:
            from pubsub.requests import Answer, Question, Requests

            context = attachment.runtime.context("channel")
            self._requests = Requests(context, attachment.directory, self.metrics)
            if attachment.gate is not None:
                attachment.gate.require(
                    {Question: self._requests.may_ask, Answer: self._requests.may_answer}
                )
            attachment.runtime.on(Question, self._requests.receive_question)
            attachment.runtime.on(Answer, self._requests.receive_answer)
        return self._requests

    # Publishing.

    async def publish(
        self,
        topic: str | type | Topic,
        data: Any = None,
        *,
        wait: Wait | None = None,
        durable: bool = False,
        copies: int | None = None,
        deadline: float | None = None,
        upward: float | None = None,
        dissemination: DisseminationKind | None = None,
        encrypt: bool = False,
    ) -> Receipt:
        """Publish an event; the first one of a topic joins its community.

        `data` is anything msgpack carries, to 1 MiB, or to what a datagram takes with `links="datagram"`:
        `DataError` for anything else. The event leaves at the end of this turn of the loop at the latest.
        `wait="sent"` returns when its copies are given to the network, and "acked" when their receivers have
        them or are known to be gone. `upward` is this event's own probability of being sent up by a process
        that has it, in place of g/N; `dissemination` says how this event spreads, if not as configured.

        `durable`: also send it to an archive of the topic, and wait until it is "safe", on stable storage
        at `copies` replicas (1); `NoArchiveFound`, `NoRoom` or `NotSafe` when that takes too long.

        `deadline`: seconds for the whole call, whatever it has to wait for; 30 for durable events, and for
        others as long as it takes. `NotInTime` says what took longer; the event may be published after all.

        `encrypt`: only those with the right to subscribe to the topic can read the data, through `decrypted`;
        archives and distributors cannot (see `pubsub.secrets`).
        """
        if encrypt:
            self._attached()
            data = self._protection.seal(Topic.of(topic).name, data)
        try:
            outlet = self._outlets.get(topic)
        except TypeError:  # what cannot be a key is not a topic either, as is said below
            outlet = None
        if (
            outlet is not None
            and outlet.is_open
            and wait is None
            and upward is None
            and dissemination is None
            and not durable
            and copies is None
            and deadline is None
        ):
            receipt = outlet.add(pack_data(data))
            if self._carrier.is_pace_due:
                await self._carrier.pace()
            return receipt
        options = Options(wait, durable, copies, deadline, upward, dissemination)
        return await self._open_publications().publish(topic, data, options)

    def publish_now(self, topic: str, data: Any) -> Receipt | None:
        """As `publish` without options, where nothing has to be waited for; None where something has, and
        then nothing was published. For callers that have no task for each event."""
        outlet = self._outlets.get(topic)
        if outlet is None or not outlet.is_open or self._carrier.is_pace_due:
            return None
        return outlet.add(pack_data(data))

    async def keep(
        self, topic: str | type | Topic, data: Any, *, deadline: float = DEADLINE
    ) -> DurableOutcome:
        """Have an archive of the topic keep an event that nobody else is sent; return when it is safe.

        It comes to durable subscriptions. `NoArchiveFound`, `NoRoom` or `ArchiveError` when that takes more
        than `deadline` seconds; it may become safe after all."""
        return await self._open_publications().keep(topic, data, deadline)

    async def publish_many(
        self,
        topic: str | type | Topic,
        data: Iterable[Any],
        *,
        wait: Wait | None = None,
        durable: bool = False,
        copies: int | None = None,
        deadline: float | None = None,
        upward: float | None = None,
        dissemination: DisseminationKind | None = None,
    ) -> list[Receipt]:
        """Publish an event for each of the data, in their order; the options are as for `publish`.

        The events leave in as few blocks as they fit, and publishing is paced like anything else. With
        `wait="acked"` or "safe" it returns when this is so of all events; "safe" is what `durable` ones wait
        for unless told otherwise. `deadline`: seconds for all of them together. When one of the data cannot
        travel, those before it may have been published."""
        options = Options(wait, durable, copies, deadline, upward, dissemination)
        if durable:
            return await self._open_publications().publish_many_durable(topic, data, options)
        options.check(self.config.links)
        receipts: list[Receipt] = []
        async with options.budget().spend(f"publishing to {Topic.of(topic)}"):
            for one in data:
                receipt = await self.publish(topic, one, upward=upward, dissemination=dissemination)
                receipts.append(receipt)
            for receipt in receipts if wait == "acked" else ():
                await receipt.wait_settled()
        return receipts

    def may_repeat(self) -> None:
        """Durable events of this node may have been archived before, published by whichever node: archives
        are to know them by their ids. Call it before the node publishes anything durable."""
        self._open_publications().may_repeat()

    async def publish_in_run(
        self,
        topic: str | type | Topic,
        run: bytes,
        first: int,
        data: Sequence[Any],
        *,
        durable: bool = True,
        copies: int | None = None,
        deadline: float | None = None,
    ) -> list[Receipt]:
        """Publish in the run of this name (8 bytes), numbered from `first` on; wait until all is "safe", or
        without `durable` until it has left.

        For a publisher that may publish an event again after a crash and names its runs by what it publishes:
        an archive does not store an event twice that has the same run and number, whichever node publishes
        it. That holds if the node has published nothing durable in another way before. What else is published
        in the topic meanwhile goes on in its own run."""
        options = Options(None, durable, copies, deadline)
        return await self._open_publications().publish_in_run(topic, run, first, data, options)

    def _open_publications(self) -> Publications:
        self._attached()
        self._check_loop()
        return self._publications

    async def stop_publishing(self, topic: str | type | Topic) -> None:
        """Leave a topic's community that this node is in for publishing only."""
        joined = self._topics.get(Topic.of(topic).name) if self.is_running else None
        if joined is not None:
            joined.publishing = False
            self._topics.leave_if_unneeded(joined)

    def rekey(self, keys: Sequence[bytes]) -> None:
        """Replace the ring of network keys while running: the first one seals, and all of them open.

        A network changes its key without a stop: add the new key behind the old one on every node, then move
        it to the front everywhere, then take the old one away. A node that began without a key has none."""
        self._attached().runtime.endpoint.rekey(tuple(keys))

    # Communities.

    def set_parameters(self, topic: str | type | Topic, parameters: Parameters) -> None:
        """Change the parameters of a community that this node is in, while it runs.

        All members should raise `c`: with SCAMP, a node's table grows with that of the others."""
        if not isinstance(parameters, Parameters):
            raise UsageError(f"{parameters!r} are no Parameters: write Parameters(c=7)")
        self._attached()
        joined = self._topics.get(Topic.of(topic).name)
        if joined is None:
            raise UsageError(f"this node is not in {Topic.of(topic)}: subscribe or publish first")
        joined.community.parameters = parameters

    @property
    def is_running(self) -> bool:
        return self._attachment is not None

    def status(self) -> dict[str, Any]:
        """Who this node is, what protects its traffic, its communities with their tables and sizes, and all
        counters."""
        contact = self._attached().contact
        return {
            "id": contact.id.hex(),
            "address": str(contact.address),
            "mode": self.config.mode,
            "links": self.config.links,
            "protection": self._attached().runtime.endpoint.protection(),
            "rights": self._protection.describe(),
            "communities": self._topics.describe(),
            "counters": self.metrics.as_dict(),
            **({} if self.archive is None else {"archive": self.archive.status()}),
        }

    def problems(self) -> list[str]:
        """Why this node cannot do its work, in sentences; none when it can."""
        if self._attachment is None:
            return ["the node is not running"]
        found: list[str] = []
        if self.config.bootstrap and not self._attachment.known_nodes():
            found.append("no other node of the network is known")
        for name, joined in self._topics.describe().items():
            if not joined["ready"]:
                found.append(f"{name} is not joined yet")
        for name, kept in ({} if self.archive is None else self.archive.status()).items():
            if kept["failure"]:
                found.append(f"the archive of {name} has failed: {kept['failure']}")
        return found

    async def archives_of(self, topic: Topic) -> tuple[str, tuple[Contact, ...]]:
        """The nearest managed topic that includes this one, and its archives; none where there is none."""
        return await self._durable().client.managers(topic)

    def _durable(self) -> Durability:
        if self._durability is None:
            from pubsub.archive.durability import Durability

            self._durability = Durability(self)
        return self._durability

    def _attached(self) -> Attachment:
        if self._attachment is None:
            raise ClosedError(
                "the node is not running: use it inside `async with`"
                if self._finish is None
                else "the node was closed"
            )
        return self._attachment

    def _check_loop(self) -> None:
        """`UsageError` on another event loop than the node's own, where what is waited for never comes.

        Events of an open topic are published without this check, which would be made for each."""
        if not is_running_here(self._loop):
            raise UsageError("this node runs on another event loop: use node.threadsafe")
