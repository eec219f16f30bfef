"""Attach a node to its network: the one place where the mode decides what is put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable

from overlay.channel import OnAck
from overlay.contact import Address, Contact
from overlay.context import Context
from overlay.errors import NetworkError
from overlay.identity import Identity
from overlay.membership.gateways import Gateways
from overlay.membership.interface import Membership, MembershipListener, TopicDirectory
from overlay.membership.modes import MODES, make_membership
from overlay.metrics import Metrics
from overlay.overlay import Overlay
from overlay.runtime import MessageHandler, Runtime, RuntimeConfig
from overlay.topic_directory import CallbackTopicDirectory
from overlay.transport.endpoint import Endpoint, EndpointConfig
from pubsub.camcast.bootstrap import FindContacts
from pubsub.camcast.parameters import Parameters, membership_config
from pubsub.camcast.process import Process
from pubsub.config import NodeConfig
from pubsub.event import Copy
from pubsub.introduction import Introduction, ItIsMe, WhoIsThere
from pubsub.sending import Pace

LEAVING_SECONDS = 1.0
"""How long goodbyes and events have to be acknowledged when a node closes."""

ROOM_AROUND_COPIES = 96
"""Bytes of a datagram that are left to the heads of channels and messages."""


BEHIND_PART = 0.75
"""Of a channel's send buffer: a member for which more waits is behind. Half of the buffer is where publishers
begin to wait, and what is left is for what the member is told meanwhile."""


async def attach(config: NodeConfig, metrics: Metrics) -> Attachment:
    """Open the node's socket and find the network."""
    layers = config.layers
    runtime = await Runtime.open(
        RuntimeConfig(
            EndpointConfig(
                config.listen,
                keys=config.keys,
                insecure=config.insecure,
                advertise=config.advertise,
                datagram_size=config.datagram_bytes,
            ),
            layers.channel,
            layers.failure,
        ),
        config.identity,
        metrics,
    )
    if not config.uses_dht:
        return Attachment(config, runtime, _gateways(config, runtime), _nothing)
    try:
        overlay = await join(runtime.endpoint, config)
    except BaseException:
        await runtime.close()
        raise
    directory = CallbackTopicDirectory(overlay.service)

    async def leave() -> None:
        await directory.close(LEAVING_SECONDS)
        await overlay.close()

    return Attachment(config, runtime, directory, leave)


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


async def _nothing() -> None:
    """Gateways run nothing that would have to end."""


def _gateways(config: NodeConfig, runtime: Runtime) -> TopicDirectory:
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
    ) -> None:
        """`leave`: withdraw from the directory and end what it runs."""
        self._mode = config.mode
        self._membership = config.layers.membership
        self.runtime = self._runtime = runtime
        """What further protocols of the node run on."""
        self.directory = self._directory = directory
        """Where nodes are found by what they announced."""
        self._leave = leave
        self._process: Process | None = None
        self._over_channels = config.links == "channel"
        self._pace = Pace(runtime.channels)
        self._most_buffered = int(BEHIND_PART * runtime.channels.config.send_buffer)
        self.copies_room = max(runtime.endpoint.max_body - ROOM_AROUND_COPIES, 1)
        """Bytes of a copy that travels to a member in one datagram, together with all that is around it."""
        self.control: Context = runtime.context("channel")
        self.questions: Context = runtime.context("datagram")
        """For what is asked again until it is answered."""
        self.draws_tables = MODES[self._mode].samples
        self.find_contacts: FindContacts = (
            directory.sample if self.draws_tables else directory.contacts
        )

    @property
    def contact(self) -> Contact:
        return self._runtime.contact

    @property
    def identity(self) -> Identity:
        return self._runtime.endpoint.identity

    def make_membership(
        self, topic: str, parameters: Parameters, listener: MembershipListener
    ) -> Membership:
        membership = make_membership(
            self._mode,
            topic,
            # What is lost the services ask for again; acknowledgements would cost as much as the messages.
            self._runtime.context("datagram"),
            self._directory,
            listener,
            membership_config(parameters, self._membership),
            self._runtime.metrics,
        )
        self._serve(membership.message_types, self._receive_membership)
        return membership

    def serve(self, process: Process) -> None:
        """Hand the process its messages, and the failure detector's suspicions."""
        self._process = process
        self._serve(process.message_types, process.receive)
        self._runtime.failure.subscribe(lambda peer: process.suspect(peer.id))

    def _serve(self, kinds: Iterable[type], receive: MessageHandler) -> None:
        """Hand the process the messages of these types, from the first that needs them on."""
        assert self._process is not None, "a process is served before its communities are made"
        for kind in kinds:
            if not self._runtime.handles(kind):
                handler = self._process.receive_copy if kind is Copy else receive
                self._runtime.on(kind, handler)

    def _receive_membership(self, sender: Contact, message: object) -> None:
        assert self._process is not None
        self._runtime.failure.heard(sender.id)
        self._process.receive(sender, message)

    def watch(self, contact: Contact) -> None:
        self._runtime.failure.watch(contact, in_turn=True)

    def unwatch(self, contact: Contact) -> None:
        self._runtime.failure.unwatch(contact, in_turn=True)

    def send_copy(self, to: Contact, data: bytes, on_ack: OnAck | None) -> bool:
        """Send a copy of a block, encoded; `on_ack` is called once over channels, and never otherwise.

        False for what is larger than a datagram where events travel as datagrams: it never leaves."""
        if not self._over_channels:
            return self._runtime.send_encoded_datagram(to, data)
        if self._runtime.send_encoded(to, data, on_ack):
            self._runtime.failure.expect(to)
        elif on_ack is not None:
            on_ack(False)
        return True

    def keeps_up(self, member: Contact) -> bool:
        """Whether no more waits for a member than it should be able to take; always with datagrams.

        One that does not is behind: it is told of blocks, and fetches them."""
        return self._runtime.channels.to(member).buffered <= self._most_buffered

    async def writable(self, contacts: Collection[Contact]) -> None:
        """Give others a turn, and wait for these members as `Pace` says."""
        await asyncio.sleep(0)
        if self._over_channels:
            await self._pace.wait([*contacts])
        else:
            await self._runtime.endpoint.drained()

    async def close(self) -> None:
        """Leave the network: what is on its way has a moment to arrive, then nothing is left."""
        try:
            await asyncio.gather(self._leave(), self._drain())
        finally:
            await self._runtime.close()

    async def _drain(self) -> None:
        with contextlib.suppress(
            TimeoutError
        ):  # who has not answered by then may have gone as well
            async with asyncio.timeout(LEAVING_SECONDS):
                await self._runtime.channels.drained()
