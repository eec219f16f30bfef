"""Read a topic's tree: where a shard is held, what its replicas say of it, and the path of a point.

**A shard.** One replica may have come late and hold a part, have been left behind by a change of the DHT, or
lie. So a reader asks two, and is content when both are settled and say the same. Otherwise it asks all, and
believes in a member that two or more name: a lone voice may have made it up. Where most are settled, at
least half of them must name it, too. A replica that holds nothing has no voice, as it may be new.
While fewer than three of those who answer have served for a round of announcements, or the network
has fewer nodes than a shard has replicas, each is believed: the others came too late to hear of all
members. That the tree goes on below is a graver claim, and rarer: it takes three who say the same, or half
of all who answer.

**Liars.** Who draws many identities has some next to the key of a topic's root, and may outvote those who
hold it. So where nodes are *crowded* around that key, closer together than chance brings them, those who
announce themselves tell all nodes of the region in which twice as many are expected, and who reads asks them
all. Where two camps of these, of two or
more each, name members that have little in common, a view has about as many of each: who is invented does not
answer, and the others do. Below a root, liars spoil a part of a topic only.

**A path.** The shards that matter on the path from the root to a point are usually one leaf. While members
move, because a shard splits or merges, some live above and some below, and all of these shards are read: a
shard that has traces is read on below; one that is new or nearly empty may have members that have not come
down yet, or have gone up already, and is read on above. A member that is seen at two depths counts at the
deeper one. The *weight* of a path is the sum of members times 2**depth over its shards. Over all points its
mean is the number of members; and a draw that accepts a path in proportion to its weight, and takes a shard
in proportion to its part of that weight, gives every member the same chance, however the tree has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from struct import unpack
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.directory.config import DirectoryConfig
from overlay.directory.messages import Query, ShardReply
from overlay.directory.tree import (
    LARGE_DEPTH,
    MAX_DEPTH,
    Shard,
    by_rank,
    fingerprint,
    point_of,
    shard_at,
)
from overlay.metrics import Metrics
from overlay.steps import Cancellable, answer_to, together

_A_MOMENT = 1.0
"""Seconds."""

_PAGE = 40
"""More contacts than a reply has room for."""

_FARTHEST = 3
"""Nodes that are asked on the way to a shard, in multiples of the replicas."""

_ROUNDS = 2
"""How often a silent replica is asked."""

_SLACK = 3
"""By how many places the order of one replica may differ from the common one."""


_CROWDED = {3: 0.5, 4: 1.0, 5: 1.5}
"""Nodes that are crowded, where as few are expected: that happens by chance at one key in thirty."""

_CAMP = 20
"""Members that each of two camps gives to a view at least, if it has as many."""


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


@dataclass(frozen=True, slots=True)
class Witness:
    """A sound reply of one replica."""

    replica: Contact
    members: frozenset[int]
    contacts: dict[int, Contact]
    settled: bool
    interior: bool
    below: int
    hint: int
    seasoned: bool
    near: tuple[Contact, ...] = ()
    young: bool = False

    @property
    def knows(self) -> bool:
        return bool(self.members) or self.below > 0

    def agrees(self, other: Witness) -> bool:
        return self.members == other.members and (self.below > 0) == (other.below > 0)

    def nearly_agrees(self, other: Witness) -> bool:
        """Whether the two differ by no more than who comes and goes while they are asked."""
        differing = len(self.members ^ other.members)
        few = max(2, len(self.members | other.members) // 8)
        return differing <= few and (self.below > 0) == (other.below > 0)


@dataclass(frozen=True)
class ShardView:
    """A shard's members, with the contacts that came along."""

    shard: Shard
    salt: int
    members: frozenset[int]
    contacts: dict[int, Contact]
    witnesses: tuple[Contact, ...]
    settled: bool
    interior: bool
    below: bool
    hint: int
    young: bool = False
    """Members may still live above."""

    @cached_property
    def order(self) -> list[int]:
        """The members in the order of the reader's salt."""
        return by_rank(self.members, self.salt)

    @property
    def empty(self) -> bool:
        return not self.members and not self.below


def checked_reply(
    shard: Shard, replica: Contact, reply: ShardReply, config: DirectoryConfig
) -> Witness | None:
    """Check a reply; None when no honest replica sends such a one."""
    count, rest = divmod(len(reply.fingerprints), 4)
    if rest or count > config.capacity or not 0 <= reply.below <= config.capacity:
        return None
    members = frozenset(unpack(f">{count}I", reply.fingerprints))
    contacts: dict[int, Contact] = {}
    for contact in reply.contacts:
        mark = fingerprint(shard.topic, contact)
        if mark not in members or not shard.holds(point_of(shard.topic, contact.id)):
            return None
        contacts[mark] = contact
    if len(members) != count:
        return None
    hint = min(max(reply.hint, shard.depth), 32)
    return Witness(
        replica,
        members,
        contacts,
        reply.settled,
        reply.interior,
        reply.below,
        hint,
        reply.seasoned,
        reply.near[: config.root_replicas],
        reply.young,
    )


def is_content(witnesses: Sequence[Witness]) -> bool:
    """Whether no further replica needs to be asked: two settled ones say the same, or three nearly the same.

    Of three, two tell whom the third one invents or leaves out."""
    settled = [witness for witness in witnesses if witness.settled and witness.knows]
    if len(settled) < 2:
        return False
    if len(settled) == 2:
        return settled[0].agrees(settled[1]) and not settled[0].below
    return all(one.nearly_agrees(other) for one, other in combinations(settled, 2))


def _how_many(witnesses: Sequence[Witness], left: int) -> int:
    """How many of the replicas that are left are asked next: two, then a third to decide, then all."""
    settled = [witness for witness in witnesses if witness.settled and witness.knows]
    if len(witnesses) < 2 or not any(witness.knows for witness in witnesses):
        return min(2, left)
    if len(settled) == 2 and settled[0].nearly_agrees(settled[1]):
        return min(1, left)
    return left


def combine(
    shard: Shard,
    witnesses: Sequence[Witness],
    salt: int,
    *,
    trusting: bool = False,
    crowded: bool = False,
) -> ShardView:
    """The common view of all that were asked; `trusting` believes a lone voice.

    `crowded`: liars may be the majority, so what each camp says is taken for possible."""
    knowing = [witness for witness in witnesses if witness.knows]
    settled = [witness for witness in knowing if witness.settled]
    seasoned = sum(witness.seasoned for witness in witnesses)
    believed = 1 if trusting or seasoned < 3 else 2
    needed = believed
    if 2 * len(settled) > len(knowing):
        needed = max(needed, (len(settled) + 1) // 2)
    hints = sorted(witness.hint for witness in knowing if witness.below)
    camps = camps_of(witnesses) if crowded else []
    return ShardView(
        shard=shard,
        salt=salt,
        members=_some_of_each(camps, salt) if len(camps) > 1 else _named(knowing, needed),
        contacts={mark: c for witness in knowing for mark, c in witness.contacts.items()},
        witnesses=tuple(witness.replica for witness in knowing),
        settled=len(settled) >= believed,
        interior=2 * sum(witness.interior for witness in knowing) > len(knowing),
        below=len(hints) >= 3 or 2 * len(hints) >= max(2, len(witnesses)),
        hint=hints[len(hints) // 2] if hints else shard.depth,
        young=bool(knowing) and 2 * sum(witness.young for witness in knowing) >= len(knowing),
    )


def camps_of(witnesses: Sequence[Witness]) -> list[frozenset[int]]:
    """What each camp of two or more witnesses names; one camp where all have much in common.

    Two have when they agree on half of what the one names that names less: it may have come late."""
    camps: list[list[Witness]] = []
    knowing = [witness for witness in witnesses if witness.members]
    for witness in sorted(knowing, key=lambda one: -len(one.members)):
        for camp in camps:
            if 2 * len(camp[0].members & witness.members) >= len(witness.members):
                camp.append(witness)
                break
        else:
            camps.append([witness])
    return [_named(camp, (len(camp) + 1) // 2) for camp in camps if len(camp) > 1]


def _some_of_each(camps: Sequence[frozenset[int]], salt: int) -> frozenset[int]:
    """As many of each; not the first in the order of the salt, or those of the larger camp came first."""
    most = max(_CAMP, min(map(len, camps)))
    other = salt ^ 0xFFFFFFFF
    return frozenset(member for camp in camps for member in by_rank(camp, other)[:most])


def _named(witnesses: Sequence[Witness], needed: int) -> frozenset[int]:
    """The members that enough of them name."""
    if len(witnesses) == needed == 2:
        return witnesses[0].members & witnesses[1].members
    votes: dict[int, int] = {}
    for witness in witnesses:
        for member in witness.members:
            votes[member] = votes.get(member, 0) + 1
    return frozenset(member for member, count in votes.items() if count >= needed)


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
        walk = await self._walk(shard, salt, want, is_content)
        return await self._view(shard, salt, want, walk)

    async def enter(self, root: Shard, salt: int, want: int) -> tuple[list[int], ShardView | None]:
        """How deep the members of a topic live, in the opinion of two nodes near its root; else the root.

        Any of the twenty nodes around the root of a large topic knows. Newcomers begin with one of them by
        chance, and not with the closest, where all would meet."""
        around = _Walk(root, self._config.root_replicas, self._locations.around(root))
        hints = await self._look_around(around, salt, want)
        if hints:
            return hints, None
        walk = await self._walk(
            root, salt, want, lambda ws: is_content(ws) or bool(_hints(ws)), around
        )
        hints = _hints(walk.witnesses)
        return hints, None if hints else await self._view(root, salt, want, walk)

    async def _view(self, shard: Shard, salt: int, want: int, walk: _Walk) -> ShardView | None:
        query = Query(shard.topic, shard.depth, shard.prefix, salt, 0, want, 0)
        witnesses = walk.witnesses
        replicas: Sequence[Contact] = walk.nearest
        crowd = self._locations.crowd(shard, replicas)
        if crowd:
            unasked = [node for node in crowd if node not in walk.asked]
            answers = await together([self._ask(shard, node, query) for node in unasked])
            told = [*witnesses, *(witness for witness in answers if witness is not None)]
            if len(camps_of(told)) > 1:
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
            witnesses += await self._ask_around(shard, query)
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
        enough: Callable[[Sequence[Witness]], bool],
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
            if not left or (enough(walk.witnesses) and len(walk.nearest) == count):
                break
            # One that does not hold the shard still names those who do.
            several = known or walk.witnesses
            some = _how_many(walk.witnesses, len(left)) if several else 1
            chosen = self._peers.context.random.sample(left, some)
            answers = await together([self._ask(shard, node, query) for node in chosen])
            for node, witness in zip(chosen, answers, strict=True):
                walk.take(node, witness)
        replicas = walk.nearest if walk.is_exact else walk.named_by_the_settled()
        if replicas:
            self._locations.correct(shard, tuple(replicas))
        return walk

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
                some = _how_many(witnesses, len(order))
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


def _distance(one: PeerId, other: PeerId) -> int:
    return int.from_bytes(one, "big") ^ int.from_bytes(other, "big")


class _Walk:
    """The nodes that were met on the way to a shard, and what they said."""

    def __init__(self, shard: Shard, count: int, start: Sequence[Contact]) -> None:
        self.shard = shard
        self._goal = int.from_bytes(shard.key, "big")
        self._count = count
        self._met: dict[Contact, None] = dict.fromkeys(start)
        self._silent: set[Contact] = set()
        self.asked: set[Contact] = set()
        self.witnesses: list[Witness] = []

    @property
    def nearest(self) -> list[Contact]:
        """The closest to the shard's key of all that were met and are not silent."""
        sound = [contact for contact in self._met if contact not in self._silent]
        sound.sort(key=lambda contact: int.from_bytes(contact.id, "big") ^ self._goal)
        return sound[: self._count]

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
        self._silent |= other._silent
        self.asked |= other.asked
        self.witnesses += other.witnesses

    def take(self, node: Contact, witness: Witness | None) -> None:
        self.asked.add(node)
        if witness is None:
            self._silent.add(node)
        else:
            self.witnesses.append(witness)
            self._met |= dict.fromkeys(witness.near)


def _hints(witnesses: Sequence[Witness]) -> list[int]:
    """How deep the members live, if two and most of those who know the topic say that they live deeper."""
    hints = [witness.hint for witness in witnesses if witness.below]
    knowing = sum(witness.knows for witness in witnesses)
    return hints if len(hints) >= 2 and 2 * len(hints) > knowing else []


class Visit:
    """One caller's round through a topic: what was read, so that no shard is read twice in it.

    `thorough`: no member on a path may be missed. A newcomer that only looks for its place need not be.
    """

    def __init__(self, topic: PeerId, salt: int, want: int, *, thorough: bool = True) -> None:
        self.topic = topic
        self.salt = salt
        self.want = want
        self.thorough = thorough
        self.views: dict[Shard, ShardView | None] = {}
        self.paths: dict[Shard, Path] = {}


@dataclass(frozen=True)
class ShardPart:
    """A shard's members on a path, without those that were seen deeper."""

    view: ShardView
    members: frozenset[int]

    @cached_property
    def order(self) -> list[int]:
        return [member for member in self.view.order if member in self.members]

    @property
    def weight(self) -> float:
        return len(self.members) * 2.0**self.view.shard.depth


@dataclass(frozen=True)
class Path:
    """The views read for one point, from the shallowest to the deepest."""

    views: tuple[ShardView, ...]

    @cached_property
    def parts(self) -> tuple[ShardPart, ...]:
        """The shards with members, each member in one of them."""
        parts: list[ShardPart] = []
        deeper: frozenset[int] = frozenset()
        for view in reversed(self.views):
            members = view.members - deeper
            if members:
                parts.append(ShardPart(view, members))
                deeper |= members
        return tuple(parts)

    @cached_property
    def weight(self) -> float:
        return sum(part.weight for part in self.parts)

    @property
    def leaf(self) -> Shard:
        """The shard that covers the point and has nothing below."""
        return next((view for view in self.views if not view.below), self.views[-1]).shard

    @property
    def home(self) -> int:
        """The depth at which a newcomer with this point should live."""
        for view in self.views:
            if not view.interior:
                return view.shard.depth
        return min(self.views[-1].shard.depth + 1, MAX_DEPTH)


class PathReader:
    """Reads paths, from wherever the caller believes the leaf to be."""

    def __init__(self, reader: ShardReader, config: DirectoryConfig) -> None:
        self._reader = reader
        self._config = config

    async def read(self, visit: Visit, point: int, start: int) -> Path | None:
        """The path of a point; None when a shard of it could not be read."""
        known = visit.paths.get(shard_at(visit.topic, start, point))
        if known is not None:
            return known
        read: dict[int, ShardView] = {}
        depth: int | None = start
        while depth is not None:
            view = await self._view(shard_at(visit.topic, depth, point), visit)
            if view is None:
                return None
            if depth == 0 and all(other.empty for other in read.values()):
                read = {}
            read[depth] = view
            depth = self._next(read, visit.thorough)
        path = Path(tuple(read[depth] for depth in sorted(read)))
        visit.paths[path.views[-1].shard] = path
        return path

    def _next(self, read: dict[int, ShardView], thorough: bool) -> int | None:
        """The depth to read next; None when the path is complete.

        Down while there are traces, by leaps where a shard knows how deep its members live; then up
        from the deepest. Two empty shards in a row mean that the tree is not where it was thought
        to be, and that the root knows better: it is asked, and they are forgotten.
        """
        deepest = max(read)
        if read[deepest].below and deepest < MAX_DEPTH:
            return min(max(deepest + 1, read[deepest].hint), MAX_DEPTH)
        for depth in range(deepest, 0, -1):
            if depth not in read:
                lost = len(read) >= 2 and all(view.empty for view in read.values())
                return 0 if lost else depth
            if self._nothing_above(read[depth], thorough):
                return None
        return None if 0 in read else 0

    def _nothing_above(self, view: ShardView, thorough: bool) -> bool:
        is_old = view.settled and not view.young
        if view.below:
            return view.interior and (is_old or not thorough)
        return is_old and len(view.members) > self._config.merge

    async def _view(self, shard: Shard, visit: Visit) -> ShardView | None:
        if shard not in visit.views:
            visit.views[shard] = await self._reader.read(shard, visit.salt, visit.want)
        return visit.views[shard]
