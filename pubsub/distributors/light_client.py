"""What publishers and subscribers have in common: a light place on the overlay, and the way to distributors.

A light client uses the DHT without being part of it, or does without when it is given addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, Unpack, cast
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


FROM_DISTRIBUTORS = (
    messages.ClientAnswer,
    messages.Alive,
    messages.PublicationAck,
    messages.StreamDeliveries,
    messages.Recalled,
)


class Desk:
    """Hands what distributors say to the light clients of one node, which share its socket."""

    _all: ClassVar[WeakKeyDictionary[Runtime, Desk]] = WeakKeyDictionary()

    def __init__(self, runtime: Runtime) -> None:
        self.clients: list[LightClient] = []
        self._runtime = runtime
        # A distributor, which may itself be a client of the group above, takes some of them.
        self._kinds = [kind for kind in FROM_DISTRIBUTORS if not runtime.handles(kind)]
        for kind in self._kinds:
            runtime.on(kind, self._pass_on)

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

    def _pass_on(self, sender: Contact, message: object) -> None:
        for client in list(self.clients):
            client._receive(sender, message)


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
        self._tasks = Tasks(type(self).__name__.lower(), self.metrics, lambda failure: self._wake())
        self._looking: asyncio.Task[None] | None = None
        self._news = News()
        """Something was answered or acknowledged, or the client has ended."""

    async def __aenter__(self) -> Self:
        if self._runtime is not None or self._closed:
            raise UsageError(f"a {type(self).__name__} is entered once; make another one")
        if self._node is not None:
            attachment = self._node.attachment
            self._node.closes_first[self.close] = None
            self.validation = self._node.validation
            self._runtime = attachment.runtime
            self._finder = find_in(attachment.directory, self.group)
            self._take_place(attachment.runtime, attachment.gate)
            return self
        network = self._network
        runtime = self._runtime = await open_runtime(network, self.metrics)
        try:
            self._gate = make_gate(runtime, network.authority, network.rights)
            self._take_place(runtime, self._gate)
            if network.bootstrap:
                self._overlay = Overlay.on(runtime.endpoint, network.bootstrap, serve=False)
                await self._overlay.__aenter__()
                self._finder = find_in(self._overlay.service, self.group)
            elif self._addresses:
                self._finder = find_at(runtime, self._addresses)
            if self._gate is not None:
                self._gate.compare_with(self._who_may_know)
        except BaseException:
            await self._close_network()
            raise
        return self

    def _who_may_know(self) -> list[Contact]:
        """Nodes that tell a client what was taken back, which is in no community: one of its distributors may
        keep to itself that it has lost its right."""
        nodes = [] if self._overlay is None else self._overlay.neighbours
        return [
            *nodes,
            *(one for core in self._cores() for one in core.keeper.secondaries.values()),
        ]

    def _take_place(self, runtime: Runtime, gate: Gate | None) -> None:
        self._desk = Desk.of(runtime)
        self._desk.clients.append(self)
        if gate is not None:
            gate.require(rules_of_client(self._desk.groups))

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop everything; more than once is fine."""
        self._closed = True
        if self._node is not None:
            self._node.closes_first.pop(self.close, None)
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

    def _wake(self) -> None:
        """Have all who wait look whether what they wait for can come."""
        self._news.tell()

    @property
    def contact(self) -> Contact:
        return self._open().contact

    def _open(self) -> Runtime:
        if self._closed:
            raise ClosedError(f"the {type(self).__name__} was closed")
        if self._runtime is None:
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
        for core in self._cores():
            core.keeper.know(contacts)
        if not contacts:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _connected(self, core: PublishingCore | SubscriptionCore) -> None:
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
                    f"no distributor of group {self.group!r} has a service {core.service!r}: create it"
                ) from None
            raise NoDistributor(
                f"no distributor of group {self.group!r} answered within "
                f"{self._connect_timeout:g} s: check that one runs, and the addresses given"
            ) from None

    # Receiving.

    def _cores(self) -> list[PublishingCore | SubscriptionCore]:
        return [*self._publishing.values(), *self._subscribed]

    def _receive(self, sender: Contact, message: object) -> None:
        """Hand what a distributor says to those whom it may concern."""
        if isinstance(message, messages.StreamDeliveries | messages.Alive) and message.stream:
            stream = self._streams.get(message.stream)
            if stream is not None:
                stream.receive(sender, message)
            return
        for core in self._cores():
            core.receive(sender, message)
        if isinstance(message, messages.ClientAnswer):
            self._note_streams()
            self._news.tell()

    def _note_streams(self) -> None:
        self._streams.update({core.stream: core for core in self._subscribed if core.stream})
        if len(self._streams) > len(self._subscribed) + MOST_OLD_STREAMS:
            old = [s for s, core in self._streams.items() if core.is_over or core.stream != s]
            for stream in old[:-MOST_OLD_STREAMS]:
                del self._streams[stream]

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
