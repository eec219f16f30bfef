"""What publishers and subscribers have in common: a light place on the overlay, and the way to distributors.

A light client uses the DHT without being part of it, or does without when it is given addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

from overlay.contact import Address, Contact
from overlay.errors import CamcastError, ClosedError, NetworkError, UsageError
from overlay.futures import Futures
from overlay.identity import Identity
from overlay.membership.interface import TopicDirectory
from overlay.metrics import Metrics
from overlay.overlay import Overlay
from overlay.runtime import Runtime
from pubsub.attach import make_gate, open_runtime
from pubsub.config import NodeConfig, NodeSettings, config_of, unknown_setting
from pubsub.distributors import messages
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.protocol.publishing import PublishingCore
from pubsub.distributors.protocol.subscription import SubscriptionCore
from pubsub.distributors.rules import group_topic, rules_of_client
from pubsub.gate import Gate
from pubsub.introduction import Introduction, ItIsMe, WhoIsThere
from pubsub.reliable.primary import PrimaryKeeper
from pubsub.reliable.receipts import News
from pubsub.reliable.tasks import Tasks
from pubsub.validation import Validation, Validator

if TYPE_CHECKING:
    from pubsub.node import Node

FOUND_AT_ONCE = 16
"""Distributors of a group that a client learns of."""


Finder = Callable[[], Awaitable[list[Contact]]]
"""The well-known place: gives some distributors of a group, some of which may be gone; none where nobody
answers."""


def find_in(directory: TopicDirectory, group: str, count: int = FOUND_AT_ONCE) -> Finder:
    """Draws from all distributors that are announced under the group's topic."""
    topic, futures = group_topic(group), Futures("the node is closed")

    async def find() -> list[Contact]:
        contacts: tuple[Contact, ...] = ()
        with contextlib.suppress(ClosedError):
            contacts = await futures.answer(lambda give: directory.sample(topic, count, give))
        return list(contacts)

    return find


def find_at(runtime: Runtime, addresses: Sequence[Address]) -> Finder:
    """Asks who listens at given addresses."""
    introduction, futures = introduce(runtime), Futures("the client is closed")

    async def ask(address: Address) -> Contact | None:
        return await futures.answer(lambda give: introduction.resolve(address, give))

    async def find() -> list[Contact]:
        found = await asyncio.gather(*map(ask, addresses))
        return [contact for contact in found if contact is not None]

    return find


def introduce(runtime: Runtime) -> Introduction:
    """Have a node say who it is, and able to ask others."""
    introduction = Introduction(runtime.context("datagram"))
    runtime.on(WhoIsThere, introduction.receive_question)
    runtime.on(ItIsMe, introduction.receive_answer)
    return introduction


MOST_OLD_STREAMS = 256
"""Streams of subscriptions that have ended, or that come from another distributor now."""

LOOK_AGAIN_SECONDS = 1.0
"""Until the well-known place is asked again after it named nobody."""


class NoSuchService(CamcastError):
    """No distributor knows the service: a publisher has to create it first."""


class NoDistributor(NetworkError):
    """No distributor has answered."""


class Core(Protocol):
    """What the client needs to know of a publisher's or subscriber's protocol."""

    keeper: PrimaryKeeper
    was_connected: bool
    refusal: str


class ClientSettings(TypedDict, total=False):
    """Those fields of `NodeConfig` that mean something to a client with a socket of its own."""

    bootstrap: Iterable[str]
    listen: str
    advertise: str | None
    keys: Iterable[bytes]
    insecure: bool
    identity: Identity | None
    datagram_size: int | None
    validators: Mapping[str, Validator]
    authority: Iterable[bytes | str]
    rights: Iterable[bytes | str]


def _network(settings: Mapping[str, Any]) -> NodeConfig:
    for name in settings:
        if name not in ClientSettings.__annotations__:
            raise UsageError(unknown_setting(name, ClientSettings.__annotations__))
    return config_of(cast(NodeSettings, settings))


class Desk:
    """Hands what distributors say to the light clients of one node, which share its socket."""

    _all: ClassVar[WeakKeyDictionary[Runtime, Desk]] = WeakKeyDictionary()

    def __init__(self, runtime: Runtime) -> None:
        self.clients: list[LightClient] = []
        self._runtime = runtime
        self._kinds: list[type] = []
        for kind, take in (
            (messages.ClientAnswer, LightClient._receive_answer),
            (messages.Alive, LightClient._receive_alive),
            (messages.PublicationAck, LightClient._receive_published),
            (messages.StreamDeliveries, LightClient._receive_deliveries),
            (messages.Recalled, LightClient._receive_recalled),
        ):
            # A distributor, which may itself be a client of the group above, takes some of them.
            if not runtime.handles(kind):
                self._kinds.append(kind)
                runtime.on(kind, partial(self._pass_on, take))

    @classmethod
    def of(cls, runtime: Runtime) -> Desk:
        """The desk of a node, made when its first client comes."""
        desk = cls._all.get(runtime)
        if desk is None:
            desk = cls._all[runtime] = Desk(runtime)
        return desk

    def groups(self) -> set[str]:
        """The groups whose distributors the clients listen to."""
        return {client.group for client in self.clients}

    def leave(self, client: LightClient) -> None:
        if client in self.clients:
            self.clients.remove(client)
        if not self.clients:
            self._all.pop(self._runtime, None)
            for kind in self._kinds:
                self._runtime.off(kind)

    def _pass_on(
        self, take: Callable[[LightClient, Contact, Any], None], sender: Contact, message: object
    ) -> None:
        for client in list(self.clients):
            take(client, sender, message)


class LightClient:
    """The part that `Publisher` and `Subscriber` share; enter it with `async with`."""

    def __init__(
        self,
        *,
        distributors: Sequence[str] = (),
        group: str = "main",
        finder: Finder | None = None,
        config: ClientConfig | None = None,
        connect_timeout: float = 15.0,
        node: Node | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """`bootstrap`: nodes of the overlay, in whose DHT the distributors of `group` are found;
        or else `distributors`: their addresses, or a `finder` of one's own.

        `node`: a node that runs, which this client uses in place of a socket and an identity of its own; it
        finds distributors in the node's directory, and asks the node's validators. The other settings are for
        a client without one."""
        if isinstance(distributors, str):
            raise UsageError("distributors is a list of addresses, not one")
        places = (settings.get("bootstrap"), distributors, finder)
        if sum(map(bool, places)) != (node is None):
            raise UsageError(
                "say where distributors are found: bootstrap=[...], distributors=[...] or node=..."
            )
        if node is not None and settings:
            raise UsageError("with node=... the settings are those of the node: leave others out")
        group_topic(group)
        self.config = config or ClientConfig()
        self.metrics = node.metrics if node is not None else Metrics()
        self._network = _network(settings)
        self.validation = Validation(self._network.validators, signed=False)
        self._node = node
        self.group = group
        self._addresses = [Address.of(address) for address in distributors]
        self._finder = finder
        self._connect_timeout = connect_timeout
        self._runtime: Runtime | None = None
        self._desk: Desk | None = None
        self._overlay: Overlay | None = None
        self._gate: Gate | None = None
        self._closed = False
        self._publishing: dict[str, PublishingCore] = {}
        self._subscribed: list[SubscriptionCore] = []
        self._streams: dict[int, SubscriptionCore] = {}
        """The streams of all subscriptions, and the latest `MOST_OLD_STREAMS` of those that have ended or
        moved: distributors that still send are told."""
        self._tasks = Tasks(
            type(self).__name__.lower(), self.metrics, lambda failure: self._news.tell()
        )
        self._looking: asyncio.Task[None] | None = None
        self._news = News()
        """Something was answered or acknowledged, or the client has ended."""

    async def __aenter__(self) -> Self:
        if self._runtime is not None or self._closed:
            raise UsageError(f"a {type(self).__name__} is entered once; make another one")
        if self._node is not None:
            attachment = self._node.attachment
            self.validation = self._node.validation
            self._runtime = attachment.runtime
            self._finder = find_in(attachment.directory, self.group)
            self._desk = Desk.of(attachment.runtime)
            self._desk.clients.append(self)
            if attachment.gate is not None:
                attachment.gate.require(rules_of_client(self._desk.groups))
            return self
        network = self._network
        runtime = self._runtime = await open_runtime(network, self.metrics)
        self._desk = Desk.of(runtime)
        self._desk.clients.append(self)
        try:
            self._gate = make_gate(runtime, network.authority, network.rights)
            if self._gate is not None:
                self._gate.require(rules_of_client(self._desk.groups))
            if network.bootstrap:
                self._overlay = Overlay.on(runtime.endpoint, network.bootstrap, serve=False)
                await self._overlay.__aenter__()
                self._finder = find_in(self._overlay.service, self.group)
            elif self._addresses:
                self._finder = find_at(runtime, self._addresses)
        except BaseException:
            await self._close_network()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop everything; more than once is fine."""
        self._closed = True
        self._news.tell()
        for publishing in self._publishing.values():
            publishing.stop()
        for subscription in self._subscribed:
            subscription.stop()
        await self._close_network()

    async def _close_network(self) -> None:
        try:
            await self._tasks.close()
        finally:
            if self._gate is not None:
                self._gate.stop()
            if self._overlay is not None:
                await self._overlay.close()
            if self._desk is not None:
                self._desk.leave(self)
            if self._runtime is not None and self._node is None:
                await self._runtime.close()

    @property
    def contact(self) -> Contact:
        return self._open().contact

    def _open(self) -> Runtime:
        if self._runtime is None or self._closed:
            raise ClosedError(f"use a {type(self).__name__} inside `async with`")
        self._tasks.check()
        return self._runtime

    # Finding distributors.

    def _look_up(self) -> None:
        """Ask the well-known place, unless it is being asked already."""
        if not self._closed and (self._looking is None or self._looking.done()):
            self._looking = self._tasks.start("search for distributors", self._find())

    async def _find(self) -> None:
        assert self._finder is not None
        contacts = await self._finder()
        cores: list[Core] = [*self._publishing.values(), *self._subscribed]
        for core in cores:
            core.keeper.know(contacts)
        if not contacts:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _connected(self, core: Core, service: str) -> None:
        """Wait until a distributor has taken a first request."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                while not core.was_connected:
                    self._open()
                    if core.refusal == "removed":
                        raise TimeoutError
                    await self._news.wait()
        except TimeoutError:
            if core.refusal in ("no_service", "removed"):
                raise NoSuchService(
                    f"no distributor of group {self.group!r} has a service {service!r}: create it"
                ) from None
            raise NoDistributor(
                f"no distributor of group {self.group!r} answered within "
                f"{self._connect_timeout:g} s: check that one runs, and the addresses given"
            ) from None

    # Receiving.

    def _receive_answer(self, sender: Contact, answer: messages.ClientAnswer) -> None:
        for publishing in self._publishing.values():
            publishing.receive_answer(sender, answer)
        for core in self._subscribed:
            core.receive_answer(sender, answer)
            if core.stream:
                self._streams[core.stream] = core
        if len(self._streams) > len(self._subscribed) + MOST_OLD_STREAMS:
            old = [s for s, core in self._streams.items() if core.is_over or core.stream != s]
            for stream in old[:-MOST_OLD_STREAMS]:
                del self._streams[stream]
        self._news.tell()

    def _receive_alive(self, sender: Contact, alive: messages.Alive) -> None:
        if alive.stream in self._streams:
            self._streams[alive.stream].receive_alive(sender, alive)
        for publishing in self._publishing.values():
            publishing.receive_alive(sender, alive)

    def _receive_published(self, sender: Contact, published: messages.PublicationAck) -> None:
        core = self._publishing.get(published.service)
        if core is not None:
            core.receive_published(sender, published)

    def _receive_deliveries(self, sender: Contact, deliveries: messages.StreamDeliveries) -> None:
        core = self._streams.get(deliveries.stream)
        if core is not None:
            core.receive_deliveries(sender, deliveries)

    def _receive_recalled(self, sender: Contact, recalled: messages.Recalled) -> None:
        for core in self._subscribed:
            if core.service == recalled.service:
                core.receive_recalled(sender, recalled)

    def _subscription_core(self, service: str, **options: Any) -> SubscriptionCore:
        """A subscription that is started; the options are those of `SubscriptionCore`."""
        runtime = self._open()
        clients = self._desk.clients if self._desk is not None else []
        if any(core.service == service for client in clients for core in client._subscribed):
            raise UsageError(
                f"this {type(self).__name__}, or another on its node, is subscribed to {service!r} already"
            )
        core = SubscriptionCore(
            runtime.context("datagram"),
            runtime.context("channel"),
            self.config,
            service,
            want_distributors=self._look_up,
            **options,
        )
        self._subscribed.append(core)
        core.start()
        return core
