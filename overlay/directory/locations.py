"""Which nodes hold a shard: DHT lookups, remembered."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.peers import Peers
from overlay.directory.tree import Shard
from overlay.metrics import Metrics

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
        self._known: dict[Shard, tuple[tuple[Contact, ...], int, float]] = {}
        self._lookups = metrics.counter("directory_lookups", "DHT lookups made for shards")

    def forget(self) -> None:
        """The network has changed: look everything up again."""
        self._known.clear()

    def correct(self, shard: Shard, replicas: tuple[Contact, ...]) -> None:
        """Those who hold a shard have told who else does now."""
        known = self._known.get(shard)
        if known is not None:
            self._known[shard] = (replicas, len(replicas), known[2])

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
            if asked >= wanted and self._peers.now() - when <= min(max_age, fresh_for):
                self._known[shard] = known
                return found
        self._lookups.add()
        # Newcomers look at the root of a topic from farther away as well: see `Explorer.introduce`.
        wanted = max(wanted, self._config.root_replicas) if shard.depth == 0 else wanted
        found = tuple(await self._peers.around(shard.key, self._config.replicas, wanted))
        self._known[shard] = (found, wanted, self._peers.now())
        if len(self._known) > self.MAX_SHARDS:
            del self._known[next(iter(self._known))]
        return found
