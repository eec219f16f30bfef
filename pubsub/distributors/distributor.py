"""A distributor on the overlay: serves light publishers and subscribers, together with others of its group.

    async with Distributor(["ticker"], bootstrap=["127.0.0.1:4000"]) as distributor:
        await asyncio.Event().wait()

It runs on a `Node`, a full member of the overlay, and is announced in the DHT under its group's name, where
clients and the other distributors find it. What it promises is said in
`pubsub.distributors.protocol.distributor`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self, Unpack

from overlay.contact import Address, Contact, PeerId
from overlay.errors import ClosedError, UsageError
from overlay.futures import Finish
from overlay.runtime import Runtime
from pubsub import rights
from pubsub.config import ConfigurationError, NodeConfig, NodeSettings, config_of
from pubsub.distributors import messages
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.feeds import Relay, TopicFeed
from pubsub.distributors.light_client import find_in, introduce
from pubsub.distributors.messages import check_service
from pubsub.distributors.protocol.distributor import DistributorCore
from pubsub.distributors.protocol.exchange import History
from pubsub.distributors.protocol.view import View
from pubsub.distributors.rules import group_topic, rules_of_distributor
from pubsub.node import Node
from pubsub.reliable.receipts import News
from pubsub.reliable.tasks import Tasks
from pubsub.topic import Topic

DATAGRAMS_A_TURN = 32
"""To subscribers, before others on the loop get a turn; as many as the endpoint sends in one."""

INCOMING = 65_536
"""Datagrams that may wait to be read: thousands of subscribers may answer at once."""

MOST_DISTRIBUTORS = 64
"""How many distributors of a group one of them looks for in the directory."""

LOOK_EVERY = 10.0
"""Seconds between two looks into the directory by a distributor that has others in its view."""

LOOK_EVERY_ALONE = 1.0
"""The same for one that has not."""

LOOK_BELOW_EVERY = 2.0
"""Seconds between two looks for the distributors of the groups below."""

OF_EVENTS = ("mode", "links", "signatures", "parameters", "topic_parameters")
"""Settings of a node that count only where a topic feeds a service."""

OF_PUBLISHERS = ("dissemination", "durability", "trace")
"""Settings that count for nodes that applications use."""

GOODBYE_SECONDS = 1.0
"""How long a goodbye has to arrive."""

REFUSING_SECONDS = 0.3
"""How long clients that were told goodbye are refused, so that they need not wait for an answer."""


class Distributor:
    """One distributor; enter it with `async with`, and all of it ends with the block."""

    def __init__(
        self,
        services: Sequence[str] = (),
        *,
        group: str = "main",
        topics: Mapping[str, str] | None = None,
        upstream: str | None = None,
        downstream: Sequence[str] = (),
        history: History | None = None,
        config: DistributorConfig | None = None,
        **settings: Unpack[NodeSettings],
    ) -> None:
        """`services`: to have from the start; publishers create others.

        `topics`: by service, a CAMCAST topic whose events are its messages. `upstream`: another group of
        distributors, from which the messages of `services` are taken, or of all its services if none is
        named; what is published here goes up to it, if it has this group among its `downstream` groups.
        `settings` are those of `NodeConfig`,
        those about events only with `topics`; publishers and subscribers need this node's `keys` too."""
        if isinstance(services, str):
            raise UsageError(f"services={services!r} is one name: write it in a list")
        self.services = tuple(check_service(name) for name in services)
        self.topics = {check_service(s): Topic.of(topic) for s, topic in (topics or {}).items()}
        if upstream == group:
            raise UsageError(f"upstream={upstream!r} is this group itself: name another one")
        if isinstance(downstream, str):
            raise UsageError(f"downstream={downstream!r} is one name: write it in a list")
        for name in (group, *downstream, *((upstream,) if upstream is not None else ())):
            group_topic(name)
        self.group = group
        self.downstream = tuple(downstream)
        self.upstream = upstream
        self._node = Node.from_config(_settings_of(settings, has_topics=bool(self.topics)))
        self.config = config or DistributorConfig()
        self.metrics = self._node.metrics
        self._history = history
        self._tasks = Tasks("distributor", self.metrics, lambda failure: self._wake_all())
        self._stack = AsyncExitStack()
        self._finish = Finish(self._end)
        self._core: DistributorCore | None = None
        self._runtime: Runtime
        self._feeds: list[TopicFeed] = []
        self._watched: dict[PeerId, Contact] = {}
        self._work = asyncio.Event()
        self._ready = asyncio.Event()
        self._view_changes = News()

    # Opening and closing.

    async def __aenter__(self) -> Self:
        """Join the overlay and find the group; `NetworkError` when none of `bootstrap` answers."""
        if self._core is not None:
            raise UsageError("a distributor is entered once; make another one")
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Say goodbye to the other distributors and to the subscribers, who look for another, and stop.

        More than once is fine. A caller that is cancelled meanwhile stops waiting; the distributor closes all
        the same."""
        await self._finish()

    async def _end(self) -> None:
        core, stack = self._core, self._stack
        self._wake_all()
        if core is not None:
            core.leave()
            await asyncio.sleep(REFUSING_SECONDS)
            with contextlib.suppress(TimeoutError, ClosedError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._runtime.channels.drained()
        await stack.aclose()

    async def _open(self) -> None:
        node = await self._stack.enter_async_context(self._node)
        node.check_right(rights.Action.DISTRIBUTE, group_topic(self.group))
        runtime = self._runtime = node.attachment.runtime
        # Thousands of subscribers may answer at once.
        endpoint = runtime.endpoint
        socket = endpoint.config.socket
        socket = replace(socket, incoming_limit=max(socket.incoming_limit, INCOMING))
        endpoint.config = replace(endpoint.config, socket=socket)
        core = self._core = DistributorCore(
            runtime.context("channel"),
            runtime.context("datagram"),
            self.config,
            runtime.endpoint.max_body,
            history=self._history,
            metrics=self.metrics,
            wake=self._work.set,
            on_view=self._view_changed,
            on_taken=self._taken,
        )
        self._serve(runtime, core)
        for name in (*self.services, *self.topics):
            core.create(name)
        self._register_gauges(core)
        self._stack.push_async_callback(self._tasks.close)
        self._tasks.start("ticks", self._tick(core))
        self._tasks.start("sending to subscribers", self._pump(core))
        self._tasks.start("search for distributors", self._look(core))
        if self.downstream:
            self._tasks.start("search below", self._look_below(core))
        node.attachment.directory.announce(group_topic(self.group))
        await self._open_sources(core)

    def _serve(self, runtime: Runtime, core: DistributorCore) -> None:
        introduce(runtime)
        members = core.membership
        for kind, handler in core.handlers.items():
            runtime.on(kind, handler)
        self._node.reporting["distributor"] = self._report
        gate = self._node.attachment.gate
        if gate is not None:
            topics = {service: topic.name for service, topic in self.topics.items()}
            groups = (self.group, *self.downstream, *((self.upstream,) if self.upstream else ()))
            gate.require(rules_of_distributor(core, self.group, groups, topics))
        runtime.failure.subscribe(
            lambda peer: members.suspect(peer.id), lambda peer: members.restore(peer.id)
        )

    async def _open_sources(self, core: DistributorCore) -> None:
        """Begin to take messages from topics, and from another group."""
        enter = self._stack.enter_async_context
        for service, topic in self.topics.items():
            feed = TopicFeed(core, service, topic, self._node, self._tasks)
            self._feeds.append(feed)
            await enter(feed)
        if self.upstream is not None:
            await enter(Relay(core, self.services, self.upstream, self._node))

    # What runs.

    async def _tick(self, core: DistributorCore) -> None:
        while True:
            core.tick()
            for feed in self._feeds:
                feed.tick()
            if core.is_ready:
                self._ready.set()
            await asyncio.sleep(self.config.tick)

    async def _pump(self, core: DistributorCore) -> None:
        """Send to subscribers as fast as the socket takes it, and no faster."""
        endpoint = self._runtime.endpoint
        while True:
            await self._work.wait()
            self._work.clear()
            while core.pump(DATAGRAMS_A_TURN):
                await endpoint.drained()
                await asyncio.sleep(0)

    async def _look(self, core: DistributorCore) -> None:
        """Keep knowing the other distributors of the group."""
        find = find_in(self._node.attachment.directory, self.group, MOST_DISTRIBUTORS)
        while True:
            core.membership.know(await find())
            is_alone = len(core.view.members) <= 1
            await asyncio.sleep(LOOK_EVERY_ALONE if is_alone else LOOK_EVERY)

    async def _look_below(self, core: DistributorCore) -> None:
        """Keep knowing the distributors of the groups below."""
        directory = self._node.attachment.directory
        finders = [find_in(directory, group, MOST_DISTRIBUTORS) for group in self.downstream]
        while True:
            found = [contact for find in finders for contact in await find()]
            core.below = frozenset(contact.id for contact in found)
            await asyncio.sleep(LOOK_BELOW_EVERY)

    def _view_changed(self, view: View) -> None:
        failure = self._runtime.failure
        now = {one.id: one.contact for one in view.members if one.id != self._runtime.contact.id}
        for peer, contact in self._watched.items():
            if peer not in now:
                failure.unwatch(contact)
        for peer, contact in now.items():
            if peer not in self._watched:
                failure.watch(contact)
        self._watched = now
        self._view_changes.tell()

    def _taken(self, block: messages.ServiceBlock) -> None:
        for feed in self._feeds:
            feed.taken(block)

    # What can be seen of it.

    @property
    def node(self) -> Node:
        """The node that it runs on, for doors."""
        return self._node

    @property
    def address(self) -> Address:
        """Where clients and others reach this distributor."""
        return self._opened().contact.address

    @property
    def contact(self) -> Contact:
        return self._opened().contact

    @property
    def view(self) -> View | None:
        """The distributors of the group, as they have agreed; None while it is in no view."""
        return (self._core.view or None) if self._core is not None else None

    async def ready(self) -> None:
        """Wait until it serves clients; `ClosedError` when it is closed before."""
        self._opened()
        await self._ready.wait()
        self._check_open()

    async def next_view(self) -> View | None:
        """Wait for the next change of the view; `ClosedError` when it is closed before."""
        self._opened()
        await self._view_changes.wait()
        self._check_open()
        return self.view

    def remove(self, service: str) -> bool:
        """Remove a service at all distributors of the group; False if there is none of this name."""
        self._opened()
        assert self._core is not None
        return self._core.remove(service)

    def problems(self) -> list[str]:
        """Why it cannot serve, in sentences; none when it can."""
        if self.view is None:
            return ["it is not in a view with other distributors yet"]
        if self._core is not None and self._core.membership.is_cut_off:
            return ["it is cut off from the majority of the distributors"]
        return []

    def _report(self) -> dict[str, Any]:
        """What others are told: the group, and the subscribers of each service."""
        assert self._core is not None
        services = list(self._core.services.items())[:200]
        subscribers = {name: len(service.fanout.subscribers) for name, service in services}
        return {"group": self.group, "subscribers": subscribers}

    def status(self) -> dict[str, Any]:
        """Its view, what protects its traffic, by service subscribers and memory, and all counters."""
        assert self._core is not None
        view, of_node = self._core.view, self._node.status()
        return {
            "id": self.contact.id.hex(),
            "address": str(self.address),
            "group": self.group,
            "view": view.number or None,
            "distributors": [str(one.contact) for one in view.members],
            "cut_off": self._core.membership.is_cut_off,
            "protection": of_node["protection"],
            "rights": of_node["rights"],
            "history_failure": self._core.history.failure,
            "services": {
                name: {
                    "subscribers": len(service.fanout.subscribers),
                    "held_bytes": service.log.bytes,
                    "held_pieces": service.log.last - service.log.first + 1,
                    "full": service.is_full,
                    "ended": dict(service.fanout.ended),
                }
                for name, service in self._core.services.items()
            },
            "dropped": dict(self._core.dropped.values),
            "counters": of_node["counters"],
        }

    def _register_gauges(self, core: DistributorCore) -> None:
        gauge, services = self.metrics.gauge, core.services
        gauge(
            "distributor_history_failed",
            "1 when the history's store has failed, so that nothing is recorded any more",
            lambda: float(bool(core.history.failure)),
        )
        gauge(
            "distributor_subscribers",
            "Local subscribers, over all services",
            lambda: sum(len(one.fanout.subscribers) for one in services.values()),
        )
        gauge(
            "distributor_held_bytes",
            "Messages held, over all services",
            lambda: sum(one.log.bytes for one in services.values()),
        )
        gauge(
            "distributor_full_services",
            "Services that take no publications for want of memory",
            lambda: sum(one.is_full for one in services.values()),
        )
        gauge(
            "distributor_view_members",
            "Distributors in the view",
            lambda: len(core.view.members),
        )
        gauge(
            "distributor_cut_off",
            "1 while no majority of the view can be reached",
            lambda: int(core.membership.is_cut_off),
        )

    def _opened(self) -> Runtime:
        if self._core is None:
            raise ClosedError("use a distributor inside `async with`")
        self._tasks.check()
        return self._runtime

    def _check_open(self) -> None:
        if self._finish.has_begun:
            raise ClosedError("the distributor was closed")
        self._tasks.check()

    def _wake_all(self) -> None:
        """Have those who wait see that a task has died, or that this is closed."""
        self._ready.set()
        self._view_changes.tell()


def _settings_of(settings: NodeSettings, *, has_topics: bool) -> NodeConfig:
    """The settings of a distributor's node; `ConfigurationError` for those that have no effect."""
    config, usual = config_of(settings), NodeConfig()
    if not config.uses_dht:
        raise ConfigurationError(
            f'mode "{config.mode}" has no DHT, in which distributors are found: choose another mode'
        )
    useless = dict.fromkeys(OF_PUBLISHERS, "on a distributor")
    if not has_topics:
        useless |= dict.fromkeys(OF_EVENTS, "on a distributor without topics")
    if config.authority:
        useless.pop("signatures", None)  # they are on wherever there is an authority
    for name, where in useless.items():
        if getattr(config, name) != getattr(usual, name):
            raise ConfigurationError(f"{name} has no effect {where}: leave it out")
    return config
