"""How an archive gives a topic away: to the replicas that are there, or to another archive by name."""

from __future__ import annotations

import asyncio
from functools import partial

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.membership.interface import TopicDirectory
from overlay.runtime import Runtime
from pubsub.archive.directory_names import archives_of
from pubsub.archive.errors import ArchiveError
from pubsub.archive.hand_over_messages import REFUSED, HandedOver
from pubsub.archive.protocol.managed_topic import ManagedTopic
from pubsub.archive.protocol.replica_table import Peer

ASK_SECONDS = 0.25
"""How often another archive is asked to manage a topic, until it has caught up."""

WITHIN = 60.0
"""Seconds that giving a topic away may take, unless told otherwise."""

_WHOEVER = PeerId(bytes(ID_BYTES))
"""A datagram goes to an address, whatever the id of the node that listens there."""


class Departures:
    """One for each archive. What fails leaves the topic managed here as before."""

    def __init__(self, runtime: Runtime, directory: TopicDirectory) -> None:
        self._runtime = runtime
        self._directory = directory
        self._leaving: dict[str, None] = {}
        self._asked: dict[tuple[Address, str], str] = {}
        """Archives that are asked to manage a topic, and why they do not."""

    async def leave(self, core: ManagedTopic, within: float) -> None:
        """Have publishers and subscribers go elsewhere, and return when another replica has everything.

        `ArchiveError` when none that is there and ready has it in time."""
        topic = core.topic
        if topic in self._leaving:
            raise ArchiveError(f"{topic} is being given away already")
        if not any(peer.is_ready for peer in core.replication.table.live()):
            raise ArchiveError(
                f"this is the only archive of {topic} that is there and ready: add a replica first"
            )
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leaving[topic] = None
        self._directory.withdraw(archives_of(topic))
        core.leave(partial(_done, left))
        try:
            async with asyncio.timeout(within):
                await left
        except TimeoutError:
            if not core.replication.has_left:
                raise ArchiveError(
                    f"{_obstacle(core)} within {within:g} s: it is still managed here"
                ) from None
        finally:
            del self._leaving[topic]
            if not core.replication.has_left:
                core.stay()
                self._directory.announce(archives_of(topic))

    async def have_managed(self, core: ManagedTopic, by: Address, within: float) -> None:
        """Ask the archive at an address to manage a topic too, and return when it has caught up.

        `ArchiveError` when nobody answers there, or it refuses, or does not catch up in time."""
        topic = core.topic
        if by == self._runtime.contact.address:
            raise ArchiveError(f"the archive at {by} is this one")
        self._asked[by, topic] = ""
        try:
            async with asyncio.timeout(within):
                while (peer := _peer_at(core, by)) is None or not peer.is_ready:
                    if why := self._asked[by, topic]:
                        raise ArchiveError(f"the archive at {by} does not take {topic}: {why}")
                    there = Contact(_WHOEVER, by.host, by.port)
                    self._runtime.send_datagram(there, core.replication.info("manage"))
                    await asyncio.sleep(ASK_SECONDS)
        except TimeoutError:
            why = f"no archive at {by} has answered"
            if _peer_at(core, by) is not None:
                why = f"the archive at {by} has not caught up with {topic}"
            raise ArchiveError(f"{why} within {within:g} s: it is still managed here") from None
        finally:
            del self._asked[by, topic]

    def receive(self, sender: Contact, answer: HandedOver) -> None:
        """Another archive says that it does not take a topic."""
        key = (sender.address, answer.topic)
        if key in self._asked and answer.state == REFUSED:
            self._asked[key] = answer.why or "it does not say why"


def _peer_at(core: ManagedTopic, address: Address) -> Peer | None:
    live = core.replication.table.live()
    return next((peer for peer in live if peer.contact.address == address), None)


def _obstacle(core: ManagedTopic) -> str:
    others = sum(1 for _ in core.replication.table.live())
    if not others:
        return f"no other replica of {core.topic} has answered"
    return f"none of the {others} other replicas of {core.topic} has had everything"


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
