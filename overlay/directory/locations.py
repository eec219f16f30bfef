"""Where in the DHT the shards of topics are held, as far as this process knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.directory.config import DirectoryConfig
from overlay.directory.tree import Shard
from overlay.metrics import Metrics
from overlay.steps import Cancellable, answer_to

_A_MOMENT = 1.0
"""Seconds."""

_CROWDED = {3: 0.5, 4: 1.0, 5: 1.5}
"""Nodes that are crowded, where as few are expected: that happens by chance at one key in thirty."""


class Peers(Protocol):
    """What the directory needs of a node of the DHT. Nothing here raises for reasons of the network."""

    @property
    def context(self) -> Context: ...

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> Cancellable:
        """The `exact` live serving nodes closest to `key`, then others near it, up to `wide` in all."""
        ...

    def ask(
        self, to: Contact, request: object, done: Callable[[object | None], None]
    ) -> Cancellable:
        """The peer's reply, of whatever type it sent; None when none came, though asked repeatedly."""
        ...

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        """The nodes closest to `key` that this one knows, itself included if it serves; asks nobody."""
        ...

    def token(self, to: Contact) -> bytes:
        """The last token that this process got from a node; empty if none. `around` brings new ones."""
        ...


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

    def crowd(self, shard: Shard, nearest: Sequence[Contact]) -> tuple[Contact, ...]:
        """The nodes of the region around a root, if the nearest to it are crowded; else none.

        The region is as wide as twice the replicas need without a crowd, so that those who would hold the
        shard then are in it, however many came between. How dense nodes are is seen around this node's own
        id, which nobody else chose."""
        replicas, me = self._config.replicas, self._peers.context.contact.id
        if shard.depth or len(nearest) < replicas:
            return ()
        around = self._peers.known_closest(me, 2 * replicas)
        a_node = _distance(around[-1].id, me) / len(around)
        distances = sorted(_distance(contact.id, shard.key) for contact in nearest)
        is_crowded = len(around) == 2 * replicas and any(
            count <= len(distances) and distances[count - 1] < few * a_node
            for count, few in _CROWDED.items()
        )
        if not is_crowded:
            return ()
        known = self.around(shard)
        inside = sum(_distance(node.id, shard.key) < 2 * replicas * a_node for node in known)
        return known[: max(2 * replicas, inside)]

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


def _distance(one: PeerId, other: PeerId) -> int:
    return int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
