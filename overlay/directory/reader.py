"""Read one shard from its replicas, whatever some of them do."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.locations import Locations
from overlay.directory.messages import Query, ShardReply
from overlay.directory.peers import Peers
from overlay.directory.shard_view import ShardView, Witness, checked_reply, combine, content
from overlay.directory.tree import Shard
from overlay.metrics import Metrics

_PAGE = 40
"""More contacts than a reply has room for."""

_ROUNDS = 2
"""How often a silent replica is asked."""

_SLACK = 3
"""By how many places the order of one replica may differ from the common one."""


class ShardReader:
    """Asks replicas in a random order, two at a time, until their testimonies make a view.

    Replicas that are silent, lie or hold nothing are passed over. Where too few are left, the shard's place
    in the DHT is looked up again, once.
    """

    def __init__(
        self, peers: Peers, locations: Locations, config: DirectoryConfig, metrics: Metrics
    ) -> None:
        self._peers = peers
        self._locations = locations
        self._config = config
        self._asked = metrics.counter("directory_queries", "Queries sent to replicas of shards")
        self._bad = metrics.family(
            "directory_bad_replies", "reason", "Replies of replicas that were not used"
        )

    async def read(self, shard: Shard, salt: int, want: int) -> ShardView | None:
        """What is believed of the shard, with about `want` contacts; None when no replica answers."""
        query = Query(shard.topic, shard.depth, shard.prefix, salt, 0, want)
        replicas = (await self._locations.of(shard))[: self._config.replicas]
        witnesses = await self._question(shard, replicas, query)
        if not content(witnesses):
            again = await self._locations.of(shard, max_age=self._config.period)
            again = again[: self._config.replicas]
            if again != replicas:
                asked = {witness.replica for witness in witnesses}
                fresh = tuple(replica for replica in again if replica not in asked)
                kept = [witness for witness in witnesses if witness.replica in again]
                witnesses = kept + await self._question(shard, fresh, query)
            replicas = again
        if not witnesses:
            return None
        tiny = len(replicas) < self._config.replicas
        view = combine(shard, witnesses, salt, trusting=tiny)
        if shard.depth == 0 and not (tiny or view.settled or view.below):
            witnesses += await self._ask_around(shard, query)
            view = combine(shard, witnesses, salt)
        return view

    async def _ask_around(self, shard: Shard, query: Query) -> list[Witness]:
        """What is known around a root whose own replicas are too new to vouch for it.

        Where a network grows quickly, newcomers are closer to a key than the nodes to which the members
        announced themselves a moment ago; they are told at the next announcement only.
        """
        near = await self._locations.of(shard, count=self._config.root_replicas)
        around = near[self._config.replicas :]
        return [w for w in await self._question(shard, around, query) if w.knows]

    async def contacts_of(self, view: ShardView, members: list[int]) -> dict[int, Contact]:
        """The contacts of some members of a view, as far as its witnesses and others hand them out."""
        missing = {member: view.order.index(member) for member in members}
        found: dict[int, Contact] = {}
        others = (await self._locations.of(view.shard))[: self._config.replicas]
        for replica in (view.witnesses + others) * _ROUNDS:
            while missing:
                page = await self._page(view, replica, max(0, min(missing.values()) - _SLACK))
                news = {member: page[member] for member in missing if member in page}
                if not news:
                    break
                found |= news
                missing = {m: place for m, place in missing.items() if m not in news}
        return found

    async def _page(self, view: ShardView, replica: Contact, skip: int) -> dict[int, Contact]:
        shard = view.shard
        query = Query(shard.topic, shard.depth, shard.prefix, view.salt, skip, _PAGE)
        witness = await self._ask(shard, replica, query)
        return witness.contacts if witness is not None else {}

    async def glance(self, shard: Shard, count: int) -> list[int]:
        """How deep the members live, in the opinion of `count` nodes near the shard, if they know."""
        replicas = await self._locations.of(shard, count=self._config.root_replicas)
        chosen = self._peers.random.sample(replicas, min(count, len(replicas)))
        query = Query(shard.topic, shard.depth, shard.prefix, 0, 0, 0)
        answers = await self._peers.together([self._ask(shard, peer, query) for peer in chosen])
        return [w.hint for w in answers if w is not None and w.below]

    async def _question(
        self, shard: Shard, replicas: tuple[Contact, ...], query: Query
    ) -> list[Witness]:
        """Ask two, then two more, then all others; then the silent ones again, while it is of use."""
        witnesses: list[Witness] = []
        silent = self._peers.random.sample(replicas, len(replicas))
        for _ in range(_ROUNDS):
            order, silent = silent, []
            while order and not content(witnesses):
                some = 2 if len(witnesses) < 2 else len(order)
                asked, order = order[:some], order[some:]
                answers = await self._peers.together(
                    [self._ask(shard, replica, query) for replica in asked]
                )
                for replica, witness in zip(asked, answers, strict=True):
                    if witness is None:
                        silent.append(replica)
                    else:
                        witnesses.append(witness)
        return witnesses

    async def _ask(self, shard: Shard, replica: Contact, query: Query) -> Witness | None:
        self._asked.add()
        reply = await self._peers.ask(replica, query)
        if reply is None:
            self._bad.add("silent")
            return None
        witness = None
        if isinstance(reply, ShardReply):
            witness = checked_reply(shard, replica, reply, self._config)
        if witness is None:
            self._bad.add("unsound")
        return witness
