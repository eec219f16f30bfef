"""A node of the DHT: lookups, values, and the upkeep that keeps its routing table true."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kademlia.network import Server

from overlay.contact import Address, Contact, PeerId
from overlay.dht.call import Call
from overlay.dht.config import DhtConfig
from overlay.dht.contacts_file import load_contacts, save_contacts
from overlay.dht.handoff import DYING, HandOff
from overlay.dht.lookup import Lookup, LookupReport, NodeLookup, ValueLookup
from overlay.dht.messages import Pong, Record, Stored
from overlay.dht.peer import Peer, Target, peer_of
from overlay.dht.protocol import DhtProtocol
from overlay.dht.record_store import RecordStore
from overlay.entropy import entropy
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Kind


@dataclass(frozen=True)
class PutOutcome:
    """What became of a value that was put."""

    replicas: int
    """Nodes that hold it now, this one included."""

    newest: int
    """The highest version that any of the nodes asked holds: above the one put, it was outdated."""


class DhtServer(Server):  # type: ignore[misc]
    """Upstream's server on our endpoint. Lines are of kademlia/network.py.

    What stays upstream's: its parts and how they are put together (27-45, 57-58).
    """

    protocol: DhtProtocol
    storage: RecordStore
    node: Peer

    def __init__(self, endpoint: Endpoint, config: DhtConfig) -> None:
        loop = asyncio.get_running_loop()
        storage = RecordStore(
            endpoint.contact.id,
            loop.time,
            capacity=config.max_records,
            capacity_a_source=max(1, config.max_records // 4),
            longest_life=config.max_time_to_live,
        )
        super().__init__(config.k, config.alpha, endpoint.contact.id, storage)
        # Upstream tests the truth of the storage, and an empty one is false.
        self.storage = storage
        self.node = peer_of(endpoint.contact)
        self.config = config
        self._endpoint = endpoint
        self._lookups = asyncio.Semaphore(config.lookups_at_once)
        metrics = endpoint.metrics
        self._lookups_made = metrics.counter("dht_lookups", "Lookups made")
        self._lookup_requests = metrics.counter("dht_lookup_requests", "Peers asked by lookups")
        self.last_report = LookupReport(0, 0)
        """What the lookup that ended last did cost."""

    def _create_protocol(self) -> DhtProtocol:
        """Replaces lines 57-58, whose protocol opens a socket of its own to come to life."""
        return DhtProtocol(self._endpoint, self.storage, self.config, entropy())

    def listen(self) -> None:
        """Replaces lines 60-73, which open a socket: the endpoint's frames of kind DHT are this node's."""
        self.protocol = self._create_protocol()
        self.hand_off = HandOff(self.protocol)
        self.protocol.on_new_peer = self.hand_off.welcome
        self._endpoint.on(
            Kind.DHT, lambda sender, body: self.protocol.datagram_received(body, sender)
        )

    async def stop(self) -> None:
        """Replaces lines 47-55, which leave requests and tasks behind."""
        self.protocol.close()
        await self.hand_off.close()

    async def closest(self, target: PeerId, count: int) -> list[Contact]:
        """The live nodes closest to `target`, nearest first; this one too if it serves and is close."""
        place = Target(target)
        self.protocol.router.bucket_of(place).touch_last_updated()
        async with self._lookups:
            lookup = NodeLookup(self.protocol, place, count, self.config)
            found: list[Peer] = await lookup.find()
        self._count(lookup)
        return [peer.contact for peer in found]

    async def around(self, target: PeerId, exact: int, wide: int) -> list[Contact]:
        """The `exact` live nodes closest to `target`, and after them up to `wide` in all that they named."""
        place = Target(target)
        self.protocol.router.bucket_of(place).touch_last_updated()
        async with self._lookups:
            lookup = NodeLookup(self.protocol, place, exact, self.config, reach=wide)
            found: list[Peer] = await lookup.find()
        self._count(lookup)
        named = dict.fromkeys([*found, *lookup.shortlist.near(wide)])
        return [peer.contact for peer in named][:wide]

    async def bootstrap(self, addrs: Sequence[Address]) -> dict[Contact, bool]:
        """Replaces lines 115-134: ping every address.

        The contacts that answered, which are in the table now; for each, whether it has joined a network
        (the value True) or is looking for one itself.
        """
        own = self.node.contact.address
        calls = [self.protocol.call_ping(address) for address in addrs if address != own]
        answered: dict[Contact, bool] = {}
        for call in calls:
            _, reply = await call
            contact = call.contact
            if isinstance(reply, Pong) and contact is not None and contact.id != self.node.id:
                answered[contact] = not reply.joining
        return answered

    async def get(self, key: PeerId) -> Record | None:
        """Replaces lines 136-154, to which a value that is at hand cannot be outdated."""
        async with self._lookups:
            lookup = ValueLookup(self.protocol, Target(key), self.config)
            record: Record | None = await lookup.find()
        self._count(lookup)
        return record

    async def set_digest(self, key: PeerId, record: Record) -> PutOutcome:
        """Replaces lines 166-188, which raise when no neighbour is left alive.

        Stores at the k closest nodes, this one included where it is among them.
        """
        started = asyncio.get_running_loop().time()
        nodes = await self.closest(key, self.config.k)
        elapsed = asyncio.get_running_loop().time() - started
        if elapsed >= record.time_to_live:
            return PutOutcome(0, record.version)
        record = Record(record.version, record.value, record.time_to_live - elapsed)
        calls = [
            self.protocol.call_store(peer_of(contact), key, record)
            for contact in nodes
            if contact.id != self.node.id
        ]
        newest = [self.storage.offer(key, record)] if self.node.contact in nodes else []
        newest += [await _version_stored(call) for call in calls]
        versions = [version for version in newest if version is not None]
        return PutOutcome(versions.count(record.version), max(versions, default=record.version))

    async def refresh_table(self) -> None:
        """Replaces lines 75-100, where to publish again is to begin a new life, over anything newer.

        One lookup after the other into the buckets that had none for long, then the records that nobody
        has stored for long.
        """
        for target in self.protocol.get_refresh_ids():
            await self.closest(target, self.config.k)
        self.storage.cull()
        for key, record in self.storage.iter_older_than(self.config.republish_interval):
            self.storage.mark_heard(key)
            if record.time_to_live > DYING:
                await self.set_digest(key, record)

    def save_state(self, fname: Path) -> None:
        """Replaces lines 190-206: the known contacts, and no pickle."""
        contacts = [peer.contact for peer in self.protocol.router]
        if contacts:
            save_contacts(fname, contacts)

    @staticmethod
    def load_state(fname: Path) -> list[Contact]:
        """Replaces lines 208-222, which run whatever code the file holds."""
        return load_contacts(fname)

    def _count(self, lookup: Lookup) -> None:
        self.last_report = lookup.report()
        self._lookups_made.value += 1
        self._lookup_requests.value += self.last_report.requests


async def _version_stored(call: Call) -> int | None:
    _, reply = await call
    return reply.newest if isinstance(reply, Stored) else None
