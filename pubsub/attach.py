"""Attach a node to its network: the one place where the mode decides what is put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from overlay.contact import Address, Contact
from overlay.context import Context
from overlay.errors import NetworkError
from overlay.identity import Identity
from overlay.membership.interface import Membership, MembershipListener, TopicDirectory
from overlay.membership.modes import MODES, make_membership
from overlay.metrics import Metrics
from overlay.overlay import Overlay
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from pubsub.camcast.bootstrap import FindContacts
from pubsub.camcast.messages import Check
from pubsub.camcast.observer import Route
from pubsub.camcast.parameters import Parameters, membership_config
from pubsub.camcast.process import RULES, Process, members_only
from pubsub.config import NodeConfig
from pubsub.gate import Gate
from pubsub.introduction import Introduction, ItIsMe, WhoIsThere
from pubsub.rights import Action, Authority
from pubsub.sending import Ways

_log = logging.getLogger(__name__)

LEAVING_SECONDS = 1.0
"""How long goodbyes and events have to be acknowledged when a node closes."""


async def open_runtime(config: NodeConfig, metrics: Metrics) -> Runtime:
    """The node's socket and channels, before it has found anybody."""
    layers = config.layers
    return await Runtime.open(
        RuntimeConfig(
            EndpointConfig(
                config.listen,
                keys=config.keys,
                insecure=config.insecure,
                advertise=config.advertise,
                datagram_size=config.datagram_bytes,
                session=layers.session,
                socket=layers.socket,
            ),
            layers.channel,
            replace(layers.failure, light=layers.is_light),
        ),
        config.identity,
        metrics,
    )


async def attach(config: NodeConfig, metrics: Metrics) -> Attachment:
    """Open the node's socket and find the network."""
    runtime = await open_runtime(config, metrics)
    try:
        gate = make_gate(runtime, config.authority, config.rights)
        async with AsyncExitStack() as stack:
            if gate is not None and config.revocations is not None:
                from pubsub.revocation_file import RevocationFile

                file = RevocationFile(Path(config.revocations), gate.authority, metrics)
                await file.open()
                stack.push_async_callback(file.close)
            if not config.uses_dht:
                leave = stack.pop_all().aclose
                return Attachment(config, runtime, _gateways(config, runtime), leave, list, gate)
            if config.discover:
                from pubsub.lan import Lan

                lan = await stack.enter_async_context(Lan(runtime.contact, config.keys))
                found = [str(address) for address in await lan.find()]
                config = replace(config, bootstrap=(*config.bootstrap, *found))
            overlay = await join(runtime.endpoint, config)
            _log.info(
                "%s is in the network, and knows %d nodes", runtime.contact, len(overlay.neighbours)
            )
            stack.push_async_callback(overlay.close)
            leave = stack.pop_all().aclose
    except BaseException:
        await runtime.close()
        raise
    return Attachment(config, runtime, overlay.service, leave, lambda: overlay.neighbours, gate)


def make_gate(runtime: Runtime, authority: Sequence[bytes], rights: Sequence[bytes]) -> Gate | None:
    """What asks others for their rights; None in a network without an authority."""
    if not authority:
        return None
    context = runtime.context("channel")
    useless = runtime.endpoint.useless
    gate = Gate(context, Authority(authority, time.time), rights, runtime.metrics, useless)
    for kind, handler in gate.handlers.items():
        runtime.on(kind, handler)
    runtime.gate = gate.admit
    runtime.channels.prefer(gate.has_rights)
    return gate


async def join(endpoint: Endpoint, config: NodeConfig) -> Overlay:
    """The overlay, entered within `join_timeout`; `NetworkError` when no bootstrap node answers by then."""
    layers = config.layers
    overlay = Overlay.on(endpoint, config.bootstrap, dht=layers.dht, directory=layers.directory)
    try:
        async with asyncio.timeout(config.join_timeout):
            return await overlay.__aenter__()
    except BaseException as error:
        await overlay.close()
        if isinstance(error, TimeoutError):
            raise NetworkError(
                f"no node of {', '.join(config.bootstrap)} answered within {config.join_timeout:g} s: "
                "check the addresses and the network key"
            ) from None
        raise


def _gateways(config: NodeConfig, runtime: Runtime) -> TopicDirectory:
    from overlay.membership.gateways import Gateways  # only two modes use them

    context = runtime.context("datagram")
    introduction = Introduction(context)
    runtime.on(WhoIsThere, introduction.receive_question)
    runtime.on(ItIsMe, introduction.receive_answer)
    gateways = {
        topic: [Address.parse(address) for address in addresses]
        for topic, addresses in config.gateways.items()
    }
    return Gateways(context, gateways, introduction.resolve)


class Attachment:
    """A node's place in the network: a runtime, and a directory of whichever kind.

    Which membership service runs, only this class knows."""

    def __init__(
        self,
        config: NodeConfig,
        runtime: Runtime,
        directory: TopicDirectory,
        leave: Callable[[], Awaitable[None]],
        neighbours: Callable[[], list[Contact]],
        gate: Gate | None = None,
    ) -> None:
        """`leave`: withdraw from the directory and end what it runs; `neighbours`: those in the DHT."""
        self._neighbours = neighbours
        self.gate = gate
        """What asks others for their rights; None in a network without an authority."""
        self._mode = config.mode
        self.is_light = config.layers.is_light
        membership = config.layers.membership
        self._membership = membership.for_light_member() if self.is_light else membership
        self.runtime = runtime
        """What further protocols of the node run on."""
        self.directory = directory
        """Where nodes are found by what they announced."""
        self._leave = leave
        self._process: Process | None = None
        self.ways = Ways(runtime, over_channels=config.links == "channel")
        """How events reach members."""
        self.control: Context = runtime.context("channel")
        self.questions: Context = runtime.context("datagram")
        """For what is asked again until it is answered."""
        self.finds_all = config.uses_dht
        self.draws_tables = MODES[self._mode].samples
        self.find_contacts: FindContacts = (
            directory.sample if self.draws_tables else directory.contacts
        )

    @property
    def contact(self) -> Contact:
        return self.runtime.contact

    def known_nodes(self) -> list[Contact]:
        """Nodes that this one knows: neighbours in the DHT, and members of its communities."""
        found = {one.id: one for one in self._neighbours()}
        if self._process is not None:
            for community in self._process.communities.values():
                found.update({one.id: one for one in community.table})
        return list(found.values())

    def routes(self, topic: str) -> set[Route]:
        """How some events of a community came here."""
        return set() if self._process is None else self._process.communities[topic].routes.all()

    @property
    def identity(self) -> Identity:
        return self.runtime.endpoint.identity

    def make_membership(
        self, topic: str, parameters: Parameters, listener: MembershipListener
    ) -> Membership:
        directory: TopicDirectory = self.directory
        if self.gate is not None and not self.gate.own.may(Action.SUBSCRIBE, topic):
            directory = _Unlisted(directory)
        membership = make_membership(
            self._mode,
            topic,
            # What is lost the services ask for again; acknowledgements would cost as much as the messages.
            self.runtime.context("datagram"),
            directory,
            listener,
            membership_config(parameters, self._membership),
            self.runtime.metrics,
        )
        for kind, handler in membership.handlers.items():
            self.runtime.on(kind, partial(self._receive_membership, handler), topic)
            if self.gate is not None:
                self.gate.require({kind: members_only})
        return membership

    def end_membership(self, membership: Membership) -> None:
        """A topic was left: its membership service is handed nothing more."""
        for kind in membership.handlers:
            self.runtime.off(kind, membership.topic)

    def serve(self, process: Process) -> None:
        """Hand the process its messages, and the failure detector's suspicions."""
        self._process = process
        asked_for_lease = process.handlers[Check]

        def check(sender: Contact, message: Check) -> None:
            # Who asks for a lease has this process in a table.
            self.runtime.failure.watched_by(sender)
            asked_for_lease(sender, message)

        for kind, handler in {**process.handlers, Check: check}.items():
            self.runtime.on(kind, handler)
        if self.gate is not None:
            self.gate.require(RULES)
        self.runtime.failure.subscribe(self._lost)

    def _lost(self, peer: Contact) -> None:
        assert self._process is not None
        _log.info("%s does not answer any more", peer)
        self._process.suspect(peer.id)

    def _receive_membership(
        self, handler: Callable[[Contact, Any], None], sender: Contact, message: object
    ) -> None:
        self.runtime.failure.heard(sender.id)
        handler(sender, message)

    def watch(self, contact: Contact) -> None:
        self.runtime.failure.watch(contact, in_turn=True)

    def unwatch(self, contact: Contact) -> None:
        self.runtime.failure.unwatch(contact, in_turn=True)

    async def close(self) -> None:
        """Leave the network: what is on its way has a moment to arrive, then nothing is left."""
        if self.gate is not None:
            self.gate.stop()
        try:
            await asyncio.gather(self._leave(), self._drain())
        finally:
            await self.runtime.close()

    async def _drain(self) -> None:
        with contextlib.suppress(
            TimeoutError
        ):  # who has not answered by then may have gone as well
            async with asyncio.timeout(LEAVING_SECONDS):
                await self.runtime.channels.drained()


class _Unlisted:
    """The directory of a node that may publish on a topic and not subscribe to it: nobody finds it there.

    Others may not send it events. A publisher that found none but such nodes would reach no subscriber."""

    def __init__(self, directory: TopicDirectory) -> None:
        self.contacts = directory.contacts
        self.sample = directory.sample
        self.report = directory.report
        self.size = directory.size

    def announce(self, topic: str, done: Callable[[], None] = lambda: None) -> None:
        done()

    def withdraw(self, topic: str) -> None: ...
