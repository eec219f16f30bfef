"""Where in the DHT the shards of topics are held, as far as this process knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.peers import Peers
from overlay.directory.region import Region, Regions
from overlay.directory.tree import Shard
from overlay.metrics import Metrics
from overlay.steps import answer_to

_A_MOMENT = 1.0
"""Seconds."""


class Locations:
    """The replicas of the shards that this process reads and announces to; bounded, least recent out first.

    A remembered location may be old: those who use it notice from what the replicas say (nobody answers,
    nothing is held, nobody announces there any more) and then look again.
    """

    MAX_SHARDS = 4_096

    def __init__(self, peers: Peers, config: DirectoryConfig, metrics: Metrics) -> None:
        self._peers = peers
        self._config = config
        self._regions = Regions(peers, config)
        self._known: dict[Shard, tuple[tuple[Contact, ...], int, float]] = {}
        self._lookups = metrics.counter("directory_lookups", "DHT lookups made for shards")

    def forget(self) -> None:
        """The network has changed: look everything up again."""
        self._known.clear()

    def correct(self, shard: Shard, replicas: tuple[Contact, ...]) -> None:
        """Take the nodes that hold a shard now, as some of them have told."""
        known = self._known.get(shard)
        when = self._peers.context.now() if known is None else known[2]
        self._remember(shard, replicas, len(replicas), when)

    def remembered(self, shard: Shard) -> tuple[Contact, ...]:
        """The replicas that are known, whenever they were found; empty if none are."""
        known = self._known.get(shard)
        return known[0][: self._config.replicas] if known is not None else ()

    def around(self, root: Shard) -> tuple[Contact, ...]:
        """The nodes around a root that are known, from an earlier lookup or without asking anybody."""
        known = self._known.get(root)
        if known is not None and len(known[0]) > self._config.replicas:
            return known[0]
        return self._peers.known_closest(root.key, self._config.root_replicas)

    async def region(self, shard: Shard, nearest: Sequence[Contact]) -> Region:
        """The region around a root, if the nearest to it are crowded; else one without nodes."""
        if shard.depth:
            return Region()
        return await self._regions.around(shard, nearest)

    async def of(
        self, shard: Shard, max_age: float = float("inf"), count: int | None = None
    ) -> tuple[Contact, ...]:
        """The `count` nodes closest to the shard's key, closest first, looked up at most `max_age` ago.

        `count` is the number of replicas where it is not given; a larger one was perhaps looked up before,
        and then all that were found are returned. Where there are fewer nodes than replicas, others may
        join any moment: that is soon looked up again.
        """
        wanted = self._config.replicas if count is None else count
        known = self._known.pop(shard, None)
        if known is not None:
            found, asked, when = known
            fresh_for = max_age if len(found) >= self._config.replicas else _A_MOMENT
            if asked >= wanted and self._peers.context.now() - when <= min(max_age, fresh_for):
                self._known[shard] = known
                return found
        self._lookups.add()
        # Newcomers look at the root of a topic from farther away as well: see `Explorer.introduce`.
        wanted = max(wanted, self._config.root_replicas) if shard.depth == 0 else wanted
        found = tuple(
            await answer_to(partial(self._peers.around, shard.key, self._config.replicas, wanted))
        )
        self._remember(shard, found, wanted, self._peers.context.now())
        return found

    def _remember(self, shard: Shard, found: tuple[Contact, ...], asked: int, when: float) -> None:
        self._known.pop(shard, None)
        self._known[shard] = (found, asked, when)
        if len(self._known) > self.MAX_SHARDS:
            del self._known[next(iter(self._known))]
