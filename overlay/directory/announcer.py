"""Keep this process known as a member of its topics, and follow the tree as it splits and merges.

Every period a member announces itself to the replicas of its leaf, and leaves a trace at one ancestor of it
(see `holding`). Replicas answer with advice. A member told that its leaf has become interior
moves one level down, and only then turns its record above into a trace; one told by an
ancestor that it is a leaf again moves up there, and only then withdraws below. So a
member that moves is never missing, and readers see it once (see `paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.locations import Locations
from overlay.directory.messages import (
    BAD_TOKEN,
    HELD_ELSEWHERE,
    AnnounceMember,
    AnnounceReply,
    Withdraw,
)
from overlay.directory.paths import Visit
from overlay.directory.peers import Peers
from overlay.directory.survey import A_MOMENT, CONTACTS_BESIDE_A_SIZE, Explorer
from overlay.directory.tree import LARGE_DEPTH, MAX_DEPTH, Shard, point_of, shard_at
from overlay.metrics import Metrics
from overlay.steps import answer_to, together

_JUST_NOW = 1.0
"""Seconds: a lookup that recent is not repeated."""

_HASTE = 8
"""How much sooner a member comes again that was heard by fewer replicas than there should be: the network has
just begun, or is hard to reach, or the member has come back at another address."""

_SHRINKING = 6
"""How much sooner a member comes again that lives among few, and will move up as soon as it is told to."""

_DWINDLING = 2
"""How much sooner a member comes again whose shard has lost members lately: when the records of those who
crashed expire, it may be among few, and must notice that within one time-to-live of the crash."""

_CLEARLY_FEWER = 0.8

_MOST_SILENT = 256
"""Nodes of which is remembered that they did not answer."""

_WithToken = Callable[[bytes], object]


@dataclass(slots=True)
class Stay:
    """A topic that this process is a member of: where it is announced.

    `number` changes whenever it leaves a shard, which will take no announcement of that number again.
    """

    topic: PeerId
    number: int
    depth: int
    beside: tuple[int, int, float] = (0, 0, 0.0)
    """A depth, how many lived there and below before some were lost, and when that was."""
    told: dict[int, dict[Contact, float]] = field(default_factory=dict)
    """Which nodes were told of the stay at which depth, and when."""


class Announcer:
    """This process's memberships. The caller calls `refresh` again after the seconds that it returned."""

    def __init__(
        self,
        peers: Peers,
        locations: Locations,
        explorer: Explorer,
        config: DirectoryConfig,
        metrics: Metrics,
    ) -> None:
        self._peers = peers
        self._locations = locations
        self._explorer = explorer
        self._config = config
        self._stays: dict[PeerId, Stay] = {}
        self._silent: dict[Contact, float] = {}
        """When nodes were last told something and did not answer."""
        self._sent = metrics.counter("directory_announcements", "Announcements sent to replicas")
        self._moves = metrics.family(
            "directory_moves", "direction", "Moves of this process to another depth of a topic"
        )

    async def refresh(self, topic: PeerId) -> float:
        """Announce, for the first time or again; the seconds until it has to be done again."""
        stay, first = self._stays.get(topic), None
        if stay is None:
            draw = self._peers.context.random
            number, salt = draw.getrandbits(32), draw.getrandbits(32)
            first = Visit(topic, salt, CONTACTS_BESIDE_A_SIZE, thorough=False)
            stay = self._stays[topic] = Stay(topic, number, await self._home(first))
        replies = await self._settle(stay)
        if first is not None:
            self._explorer.keep(first.above_leaves(), A_MOMENT)
        if stay.depth and _members(replies) <= 1:
            await self._rejoin(stay)
        await self._leave_traces(stay, replies)
        pause = self._peers.context.random.uniform(*self._config.pause)
        heard = sum(reply.refused != HELD_ELSEWHERE for reply in replies)
        if heard < self._config.replicas:
            return pause / _HASTE
        is_dwindling = self._is_dwindling(stay, replies)
        if stay.depth and self._are_few(replies):
            return pause / _SHRINKING
        if stay.depth and is_dwindling:
            return pause / _DWINDLING
        # Those who came together are not to announce themselves together ever after.
        return pause * self._peers.context.random.uniform(0.5, 1.0) if first else pause

    def _is_dwindling(self, stay: Stay, replies: Sequence[AnnounceReply]) -> bool:
        """Whether this process has moved up, or clearly fewer live beside it, within a record's life."""
        depth, before, when = stay.beside
        count, now = _members(replies, with_traces=True), self._peers.context.now()
        is_fewer = depth == stay.depth and count < _CLEARLY_FEWER * before
        if (is_fewer or stay.depth < depth) and now - when <= self._config.record_life:
            return True
        stay.beside = (stay.depth, count, now)
        return False

    async def withdraw(self, topic: PeerId) -> None:
        """Leave a topic; every replica that answers has forgotten this process when it returns."""
        stay = self._stays.pop(topic, None)
        if stay is not None:
            await together(
                [self._withdraw_at(stay, depth, stay.number) for depth in list(stay.told)]
            )

    async def _home(self, visit: Visit) -> int:
        point = point_of(visit.topic, self._peers.context.contact.id)
        await self._explorer.introduce(visit, point)
        path = await self._explorer.path(visit, point)
        outline = self._explorer.outline(visit.topic)
        return path.home if path is not None else outline.likely_depth()

    async def _settle(self, stay: Stay) -> list[AnnounceReply]:
        """Announce at the leaf, and below as long as the replicas say so; what those of the leaf say."""
        left: list[int] = []
        while True:
            replies = await self._announce_at(stay, stay.depth, stay.depth)
            if stay.depth == MAX_DEPTH or not _advise_deeper(replies):
                break
            left.append(stay.depth)
            stay.depth += 1
            self._moves.add("down")
        for depth in left:
            await self._announce_at(stay, depth, stay.depth)
        return replies

    async def _leave_traces(self, stay: Stay, replies: list[AnnounceReply]) -> None:
        """At one ancestor; if few live here also at all ancestors below which few live, and move up to those
        that are leaves."""
        chosen = self._some_ancestor(stay.depth)
        if chosen >= 0 and _advise_here(await self._announce_at(stay, chosen, stay.depth)):
            await self._move_up(stay, chosen)
        depth, few = stay.depth, self._are_few(replies)
        while few and depth:
            depth -= 1
            advice = await self._announce_at(stay, depth, stay.depth, sure=True)
            few = self._are_few(advice)
            # Where all at the parent have died, nobody is left who has been settled there for long.
            is_parent = depth == stay.depth - 1
            if _advise_here(advice, even_if_new=is_parent and _settled(replies)):
                await self._move_up(stay, depth)

    def _are_few(self, replies: Sequence[AnnounceReply]) -> bool:
        """Whether so few live in a shard and below that it should merge with others."""
        return _members(replies, with_traces=True) <= self._config.merge

    async def _rejoin(self, stay: Stay) -> None:
        """Alone in a shard: look whether the others live higher up on the path."""
        salt = self._peers.context.random.getrandbits(32)
        home = await self._home(Visit(stay.topic, salt, 0, thorough=False))
        if home < stay.depth:
            await self._move_up(stay, home)

    async def _move_up(self, stay: Stay, depth: int) -> None:
        former, number = stay.depth, stay.number
        stay.depth, stay.number = depth, self._peers.context.random.getrandbits(32)
        self._moves.add("up")
        await self._announce_at(stay, depth, depth)
        await self._withdraw_at(stay, former, number)

    def _some_ancestor(self, depth: int) -> int:
        """k levels up with probability 2**-k; negative for none."""
        depth -= 1
        while depth >= 0 and self._peers.context.random.random() < 0.5:
            depth -= 1
        return depth

    async def _announce_at(
        self, stay: Stay, depth: int, leaf_depth: int, *, sure: bool = False
    ) -> list[AnnounceReply]:
        shard = self._shard(stay, depth)
        told = stay.told.setdefault(depth, {})
        wide = depth == 0 and leaf_depth >= LARGE_DEPTH
        return await self._tell(
            shard,
            lambda token: AnnounceMember(stay.topic, depth, leaf_depth, stay.number, token, sure),
            self._config.root_replicas if wide else self._config.replicas,
            told,
        )

    async def _withdraw_at(self, stay: Stay, depth: int, number: int) -> None:
        """Tell all who were told of the stay there and may remember it, and those who may have copied it."""
        shard = self._shard(stay, depth)
        now = self._peers.context.now()
        told = stay.told.pop(depth, {})
        holders = [c for c, when in told.items() if now - when <= self._config.record_life]
        replies: dict[Contact, AnnounceReply] = {}

        def request(token: bytes) -> Withdraw:
            return Withdraw(stay.topic, depth, number, token)

        await self._tell_those(holders, request, replies, {})
        await self._tell_those(self._nearest(shard, holders, replies), request, replies, {})

    async def _tell(
        self, shard: Shard, request: _WithToken, count: int, told: dict[Contact, float]
    ) -> list[AnnounceReply]:
        """Tell all replicas, and nearer ones that they name; where some are silent, look for them anew."""
        replies: dict[Contact, AnnounceReply] = {}
        replicas = (await self._locations.of(shard, self._config.location_life, count))[:count]
        await self._tell_those(replicas, request, replies, told)
        if len(replies) < len(replicas):
            replicas = (await self._locations.of(shard, _JUST_NOW, count))[:count]
            await self._tell_those(replicas, request, replies, told)
        if count == self._config.replicas:
            nearest = self._nearest(shard, replicas, replies)
            if nearest != replicas:
                await self._tell_those(nearest, request, replies, told)
                held_by = [replica for replica in nearest if replica in replies]
                if len(held_by) == count:
                    self._locations.correct(shard, tuple(held_by))
            region = await self._locations.region(shard, nearest)
            # Few others tell these, so that they know less: their advice is not taken.
            await self._tell_those(region.nodes, request, dict(replies), told)
        now = self._peers.context.now()
        for node in [c for c, when in told.items() if now - when > self._config.record_life]:
            del told[node]
        return list(replies.values())

    async def _tell_those(
        self,
        replicas: Sequence[Contact],
        request: _WithToken,
        replies: dict[Contact, AnnounceReply],
        told: dict[Contact, float],
    ) -> None:
        """Tell those that have not replied yet; `told` keeps whom, for a reply may be lost."""
        untold = [replica for replica in replicas if replica not in replies]
        told |= dict.fromkeys(untold, self._peers.context.now())
        answers = await together([self._tell_one(r, request) for r in untold])
        for replica, reply in zip(untold, answers, strict=True):
            if reply is not None:
                replies[replica] = reply
                self._silent.pop(replica, None)
            else:
                self._silent.pop(replica, None)
                self._silent[replica] = self._peers.context.now()
                if len(self._silent) > _MOST_SILENT:
                    del self._silent[next(iter(self._silent))]

    def _nearest(
        self, shard: Shard, replicas: Sequence[Contact], replies: dict[Contact, AnnounceReply]
    ) -> tuple[Contact, ...]:
        """The closest to the shard's key of the replicas and those that they named, but for the silent."""
        now, goal = self._peers.context.now(), int.from_bytes(shard.key, "big")
        named = dict.fromkeys(replicas)
        for reply in replies.values():
            named |= dict.fromkeys(reply.near[: self._config.replicas])
        sound = [
            c for c in named if now - self._silent.get(c, -self._config.ttl) >= self._config.ttl
        ]
        sound.sort(key=lambda contact: int.from_bytes(contact.id, "big") ^ goal)
        return tuple(sound[: self._config.replicas])

    async def _tell_one(self, replica: Contact, request: _WithToken) -> AnnounceReply | None:
        """The reply; None for silence, and for want of a token, though one that came along was tried."""
        token = self._peers.token(replica)
        for _ in range(2):
            self._sent.add()
            reply = await answer_to(partial(self._peers.ask, replica, request(token)))
            if not isinstance(reply, AnnounceReply):
                return None
            if reply.refused != BAD_TOKEN:
                return reply
            token = reply.token
        return None

    def _shard(self, stay: Stay, depth: int) -> Shard:
        return shard_at(stay.topic, depth, point_of(stay.topic, self._peers.context.contact.id))


def _members(replies: Sequence[AnnounceReply], *, with_traces: bool = False) -> int:
    """How many members the shard has, in the middle of the replicas' opinions; with traces if wanted."""
    counts = sorted(reply.members + with_traces * reply.below for reply in replies)
    return counts[len(counts) // 2] if counts else 0


def _settled(replies: Sequence[AnnounceReply]) -> bool:
    return 2 * sum(reply.settled for reply in replies) > len(replies)


def _advise_deeper(replies: Sequence[AnnounceReply]) -> bool:
    """Whether most replicas, of the settled ones if they are the majority, call the shard interior."""
    voters = [reply for reply in replies if reply.settled] if _settled(replies) else replies
    return 2 * sum(reply.interior for reply in voters) > len(voters)


def _advise_here(replies: Sequence[AnnounceReply], even_if_new: bool = False) -> bool:
    """Whether most replicas are settled and call an ancestor a leaf; or just call it so."""
    leaves = sum(not reply.interior and (reply.settled or even_if_new) for reply in replies)
    return 2 * leaves > len(replies)
