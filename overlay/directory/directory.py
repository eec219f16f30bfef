"""The topic directory as one process uses it: announce, withdraw, contacts, sample, size.

This is CAMCAST's view of the overlay (sections 3.3, 5.2.2 and 5.2.3): `contacts` is the paper's
getContact(), by which a process finds its way into a community, and `sample` its searchPeers(), which
gives whole membership tables. No call raises for reasons of the network: what cannot be found is
left out of the result.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.directory.announcer import Announcer
from overlay.directory.config import DirectoryConfig
from overlay.directory.explorer import Explorer
from overlay.directory.locations import Locations
from overlay.directory.messages import Report
from overlay.directory.path import Visit
from overlay.directory.peers import Peers
from overlay.directory.reader import ShardReader
from overlay.directory.sampler import Sampler
from overlay.directory.topic_size import TopicSize, topic_size
from overlay.directory.tree import POINT_BITS, point_of, shard_at, topic_key
from overlay.metrics import Metrics


class Directory:
    """Topics by name. Pure logic on a port to the DHT; the caller keeps the time of announcements."""

    def __init__(self, peers: Peers, config: DirectoryConfig, metrics: Metrics) -> None:
        self._peers = peers
        self._config = config
        locations = self._locations = Locations(peers, config, metrics)
        reader = ShardReader(peers, locations, config, metrics)
        self._explorer = Explorer(peers, reader, config)
        self._sampler = Sampler(peers, reader, self._explorer, config, metrics)
        self._announcer = Announcer(peers, locations, self._explorer, config, metrics)

    async def announce(self, topic: str) -> float:
        """Be a member, from now for one time-to-live; the seconds until it should be called again."""
        return await self._announcer.refresh(topic_key(topic))

    async def withdraw(self, topic: str) -> None:
        """Stop being a member."""
        await self._announcer.withdraw(topic_key(topic))

    def network_changed(self) -> None:
        """Nodes that were lost are back: nothing that is known of where shards are held is to be trusted."""
        self._locations.forget()

    async def report(self, topic: str, member: Contact) -> None:
        """A member that was found does not answer: have those who hold it ask it, and forget it."""
        key = topic_key(topic)
        point = point_of(key, member.id)
        outline = self._explorer.outline(key)
        seen = outline.leaf_at(point)
        shard = seen[0] if seen else shard_at(key, outline.likely_depth(), point)
        request = Report(key, shard.depth, shard.prefix, member)
        replicas = (await self._locations.of(shard))[: self._config.replicas]
        await self._peers.together([self._peers.ask(replica, request) for replica in replicas])

    async def contacts(self, topic: str, count: int) -> list[Contact]:
        """Some members other than this process, from the first leaf that is found."""
        key = topic_key(topic)
        visit = Visit(key, self._peers.random.getrandbits(32), count + 1)
        point = self._peers.random.getrandbits(POINT_BITS)
        await self._explorer.introduce(visit, point)
        path = await self._explorer.path(visit, point)
        found: dict[PeerId, Contact] = {}
        for part in path.parts if path is not None else ():
            found |= {c.id: c for f, c in part.view.contacts.items() if f in part.members}
        found.pop(self._peers.contact.id, None)
        if len(found) < count:
            found |= {c.id: c for c in await self._sampler.sample(key, count)}
        return list(found.values())[:count]

    async def sample(self, topic: str, count: int) -> list[Contact]:
        """Distinct members other than this process, uniform over all; all if they are fewer."""
        return await self._sampler.sample(topic_key(topic), count)

    async def size(self, topic: str) -> TopicSize:
        """How many members there are, this process included if it is one."""
        return await topic_size(topic_key(topic), self._peers, self._explorer, self._config)
