"""Read a shard: ask the nodes that hold it, or those on the way to it, until their words make a view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from overlay.contact import Contact
from overlay.directory.config import DirectoryConfig
from overlay.directory.locations import Locations
from overlay.directory.messages import Query, ShardReply
from overlay.directory.peers import Peers
from overlay.directory.tree import LARGE_DEPTH, Shard
from overlay.directory.witnesses import (
    ShardView,
    Witness,
    camps_of,
    checked_reply,
    combine,
    how_many,
    is_content,
    other_order,
)
from overlay.metrics import Metrics
from overlay.steps import answer_to, together

_PAGE = 40
"""More contacts than a reply has room for."""

_FARTHEST = 3
"""Nodes that are asked on the way to a shard, in multiples of the replicas."""

_ROUNDS = 2
"""How often a silent replica is asked."""

_SLACK = 3
"""By how many places the order of one replica may differ from the common one."""


class ShardReader:
    """Asks replicas in a random order, two at a time, until their testimonies make a view.

    Where a shard is held need not be known: those who are asked name nodes that are closer, and those that
    hold the shard answer on the way. Replicas that are silent, lie or hold nothing are passed over. Where
    too few are left, the shard's place in the DHT is looked up, exactly, once.
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
        return await self._view(shard, salt, want, await self._walk(shard, salt, want))

    async def enter(self, root: Shard, salt: int, want: int) -> tuple[list[int], ShardView | None]:
        """How deep the members of a topic live, in the opinion of two nodes near its root; else the root.

        Any of the twenty nodes around the root of a large topic knows. Newcomers begin with one of them by
        chance, and not with the closest, where all would meet."""
        around = _Walk(root, self._config.root_replicas, self._locations.around(root))
        hints = await self._look_around(around, salt, want)
        if hints:
            return hints, None
        walk = await self._walk(root, salt, want, around)
        return [], await self._view(root, salt, want, walk)

    async def _view(self, shard: Shard, salt: int, want: int, walk: _Walk) -> ShardView | None:
        query = Query(shard.topic, shard.depth, shard.prefix, salt, 0, want, 0)
        witnesses = walk.witnesses
        replicas: Sequence[Contact] = walk.nearest
        region = await self._locations.region(shard, replicas)
        if region.nodes:
            wide = Query(shard.topic, shard.depth, shard.prefix, other_order(salt), 0, _PAGE, 0)
            answers = await together([self._ask(shard, node, wide) for node in region.nodes])
            told = [witness for witness in answers if witness is not None]
            # Those who hold a part look like a camp beside liars who add invented members to the true ones.
            if len(camps_of(told, apart=region.is_taken)) > 1:
                return combine(shard, told, salt, crowded=True)
        if not is_content(witnesses) and not walk.is_exact:
            replicas = await self._locations.of(shard, max_age=self._config.period)
            replicas = replicas[: self._config.replicas]
            fresh = tuple(replica for replica in replicas if replica not in walk.asked)
            kept = [witness for witness in witnesses if witness.replica in replicas]
            witnesses = kept + await self._question(shard, fresh, query)
        if not witnesses:
            return None
        tiny = len(replicas) < self._config.replicas
        view = combine(shard, witnesses, salt, trusting=tiny)
        if shard.depth == 0 and not (tiny or view.settled or view.below):
            witnesses += await self._ask_around(walk, query)
            view = combine(shard, witnesses, salt)
        return view

    async def _look_around(self, around: _Walk, salt: int, want: int) -> list[int]:
        """Two depths told by nodes around a root; none where one of these knows of no large topic."""
        root, hints = around.shard, list[int]()
        query = Query(root.topic, 0, 0, salt, 0, want, self._config.root_replicas)
        while len(hints) < 2 and len(around.asked) < self._config.replicas and around.left():
            node = self._peers.context.random.choice(around.left())
            witness = await self._ask(root, node, query)
            around.take(node, witness)
            if witness is not None and witness.below and witness.hint >= LARGE_DEPTH:
                hints.append(witness.hint)
            elif witness is not None and node in around.nearest:
                return []
        return hints if len(hints) == 2 else []

    async def _walk(
        self,
        shard: Shard,
        salt: int,
        want: int,
        around: _Walk | None = None,
    ) -> _Walk:
        """Ask nodes near the shard, and those that they name, until it is enough or the nearest are asked.

        `around`: a look from farther away that came before."""
        count = self._config.replicas
        known: Sequence[Contact] = self._locations.remembered(shard)
        walk = _Walk(shard, count, known or self._peers.known_closest(shard.key, count))
        if around is not None:
            walk.go_on_from(around)
        query = Query(shard.topic, shard.depth, shard.prefix, salt, 0, want, count)
        while len(walk.asked) < _FARTHEST * count:
            left = walk.left()
            # Where there are fewer nodes than replicas, all are asked: many may have come at once.
            if not left or (is_content(walk.witnesses) and len(walk.nearest) == count):
                break
            if known or any(witness.knows for witness in walk.witnesses):
                some = how_many(walk.witnesses, len(left))
                chosen = self._peers.context.random.sample(left, some)
            else:  # on the way: the nearest names those who hold the shard, unless it is gone
                chosen = left[: 1 + len(walk.asked) - len(walk.witnesses)]
            answers = await together([self._ask(shard, node, query) for node in chosen])
            for node, witness in zip(chosen, answers, strict=True):
                walk.take(node, witness)
        replicas = walk.nearest if walk.is_exact else walk.named_by_the_settled()
        if replicas:
            self._locations.correct(shard, tuple(replicas))
        return walk

    async def _ask_around(self, walk: _Walk, query: Query) -> list[Witness]:
        """What is known around a root whose own replicas are too new to vouch for it.

        Where a network grows quickly, newcomers are closer to a key than the nodes to which the members
        announced themselves a moment ago; they are told at the next announcement only.
        """
        shard, count = walk.shard, self._config.replicas
        near = walk.closest(2 * count)
        if len(near) < 2 * count:
            near = (await self._locations.of(shard, count=2 * count))[: 2 * count]
        around = tuple(contact for contact in near[count:] if contact not in walk.asked)
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
        query = Query(shard.topic, shard.depth, shard.prefix, view.salt, skip, _PAGE, 0)
        witness = await self._ask(shard, replica, query)
        return witness.contacts if witness is not None else {}

    async def _question(
        self, shard: Shard, replicas: tuple[Contact, ...], query: Query
    ) -> list[Witness]:
        """Ask two, then two more, then all others; then the silent ones again, while it is of use."""
        witnesses: list[Witness] = []
        silent = self._peers.context.random.sample(replicas, len(replicas))
        for _ in range(_ROUNDS):
            order, silent = silent, []
            while order and not is_content(witnesses):
                some = how_many(witnesses, len(order))
                asked, order = order[:some], order[some:]
                answers = await together([self._ask(shard, replica, query) for replica in asked])
                for replica, witness in zip(asked, answers, strict=True):
                    if witness is None:
                        silent.append(replica)
                    else:
                        witnesses.append(witness)
        return witnesses

    async def _ask(self, shard: Shard, replica: Contact, query: Query) -> Witness | None:
        self._asked.add()
        reply = await answer_to(partial(self._peers.ask, replica, query))
        if reply is None:
            self._bad.add("silent")
            return None
        witness = None
        if isinstance(reply, ShardReply):
            witness = checked_reply(shard, replica, reply, self._config)
        if witness is None:
            self._bad.add("unsound")
        return witness


class _Walk:
    """The nodes that were met on the way to a shard, and what they said."""

    def __init__(self, shard: Shard, count: int, start: Sequence[Contact]) -> None:
        self.shard = shard
        self._goal = int.from_bytes(shard.key, "big")
        self._count = count
        self._met: dict[Contact, int] = {}
        """How far each is from the shard's key."""
        self._ranked: list[Contact] | None = None
        """What `closest` gives the first of, until it changes."""
        self._silent: set[Contact] = set()
        self.asked: set[Contact] = set()
        self.witnesses: list[Witness] = []
        self._meet(start)

    @property
    def nearest(self) -> Sequence[Contact]:
        """As many as hold the shard, the closest to its key of all that were met and are not silent."""
        return self.closest(self._count)

    def closest(self, count: int) -> Sequence[Contact]:
        """The closest to the shard's key of all that were met and are not silent."""
        if self._ranked is None:
            ranked = sorted(self._met, key=self._met.__getitem__)
            self._ranked = [contact for contact in ranked if contact not in self._silent]
        return self._ranked[:count]

    def left(self) -> list[Contact]:
        """The contacts among the nearest that were not asked."""
        return [contact for contact in self.nearest if contact not in self.asked]

    @property
    def is_exact(self) -> bool:
        """All of the nearest were asked, each answered, and none knows anybody nearer."""
        return bool(self._met) and not self._silent and not self.left()

    def named_by_the_settled(self) -> list[Contact]:
        """Who holds the shard in the opinion of two who hold it for long; none if there are not two."""
        settled = [witness for witness in self.witnesses if witness.settled and witness.knows]
        if len(settled) < 2:
            return []
        named = {contact for witness in settled for contact in witness.near}
        return [contact for contact in self.nearest if contact in named]

    def go_on_from(self, other: _Walk) -> None:
        """Take what was said on another walk to the same shard."""
        self._met |= other._met
        self._ranked = None
        self._silent |= other._silent
        self.asked |= other.asked
        self.witnesses += other.witnesses

    def take(self, node: Contact, witness: Witness | None) -> None:
        self.asked.add(node)
        if witness is None:
            self._silent.add(node)
            self._ranked = None
        else:
            self.witnesses.append(witness)
            self._meet(witness.near)

    def _meet(self, contacts: Iterable[Contact]) -> None:
        for contact in contacts:
            if contact not in self._met:
                self._met[contact] = int.from_bytes(contact.id, "big") ^ self._goal
                self._ranked = None
