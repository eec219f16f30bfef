"""What a process knows of its topics' trees: the first contact with a topic, how deep, how dense, how many.

A process that knows nothing of a topic looks at the root, or rather at two of the twenty nodes around it: in
a large topic they have traces, which tell how deep the members live. From then on it starts at the
depth that it has seen, and the root is left alone. The number of members is estimated from the density of
a few dozen leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from overlay.contact import PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.paths import Path, PathReader, Visit
from overlay.directory.peers import Peers
from overlay.directory.reading import ShardReader
from overlay.directory.tree import POINT_BITS, Shard, shard_at
from overlay.steps import together

AT_ONCE = 0.01
"""Seconds: who wants a sample this soon after a size was told asks because of the size."""

A_MOMENT = 1.0
"""Seconds: what was read above the leaves for a first announcement is not read again for a size."""

CONTACTS_BESIDE_A_SIZE = 16
"""Contacts that come with what is read for a size: a caller that wants a size often wants a sample next."""

ROUGH_POINTS = 3
"""Leaves of a large topic that are counted for a rough size, of about 6 % error."""

SURVEY_POINTS = 32
"""Topics of up to about this many leaves are counted in full; of larger ones, this many leaves are."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A leaf that was read: its weight, which is the topic's size if members were as dense everywhere."""

    weight: float
    when: float
    thorough: bool


class TopicOutline:
    """Leaves that were seen lately, none inside another; bounded, oldest out first."""

    MAX_LEAVES = 2_048

    def __init__(self, topic: PeerId, life: float) -> None:
        self._topic = topic
        self._life = life
        self._leaves: dict[Shard, Sighting] = {}
        self._at_depth: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._leaves)

    def saw(self, leaf: Shard, weight: float, now: float, *, thorough: bool) -> None:
        """Remember a leaf; what was known above or below it is out of date."""
        if leaf not in self._leaves:
            self._drop_relatives(leaf)
            self._at_depth[leaf.depth] = self._at_depth.get(leaf.depth, 0) + 1
        else:
            del self._leaves[leaf]
        self._leaves[leaf] = Sighting(weight, now, thorough)
        oldest = next(iter(self._leaves))
        if len(self._leaves) > self.MAX_LEAVES:
            self._drop(oldest)

    def forget_old(self, now: float) -> None:
        """Drop what is older than this outline's life, but for the last leaf: it is still a hint."""
        while len(self._leaves) > 1:
            oldest = next(iter(self._leaves))
            if now - self._leaves[oldest].when <= self._life:
                break
            self._drop(oldest)

    def leaf_at(self, point: int) -> tuple[Shard, Sighting] | None:
        """The leaf that was seen around a point."""
        for depth in self._at_depth:
            shard = shard_at(self._topic, depth, point)
            seen = self._leaves.get(shard)
            if seen is not None:
                return shard, seen
        return None

    def likely_depth(self) -> int:
        """Where to look for a leaf that was not seen: rather above it than below, which costs less."""
        below = len(self._leaves) // 4
        for depth in sorted(self._at_depth):
            below -= self._at_depth[depth]
            if below < 0:
                return depth
        return 0

    def size(self) -> float:
        """A rough estimate of the number of members, from everything remembered."""
        share = self.share()
        return (
            sum(s.weight * leaf.share for leaf, s in self._leaves.items()) / share if share else 0.0
        )

    def share(self) -> float:
        """The part of the tree that has been seen: 1.0 is all of it."""
        return sum(leaf.share for leaf in self._leaves)

    def _drop(self, leaf: Shard) -> None:
        del self._leaves[leaf]
        self._at_depth[leaf.depth] -= 1
        if not self._at_depth[leaf.depth]:
            del self._at_depth[leaf.depth]

    def _drop_relatives(self, leaf: Shard) -> None:
        for depth in list(self._at_depth):
            if depth < leaf.depth:
                above = Shard(leaf.topic, depth, leaf.prefix >> (leaf.depth - depth))
                if above in self._leaves:
                    self._drop(above)
            elif depth > leaf.depth:
                span = depth - leaf.depth
                for below in [s for s in self._leaves if s.depth == depth]:
                    if below.prefix >> span == leaf.prefix:
                        self._drop(below)


@dataclass(frozen=True, slots=True)
class Survey:
    """The density of members at evenly spaced points.

    `size` is its mean: the number of members. It was counted in `share` of the tree, `counted` members.
    """

    size: float
    share: float
    counted: float


class Explorer:
    """A process's knowledge of the trees of its topics; bounded, the topic longest unused out first."""

    MAX_TOPICS = 1_024

    def __init__(self, peers: Peers, reader: ShardReader, config: DirectoryConfig) -> None:
        self._peers = peers
        self._reader = reader
        self._config = config
        self._paths = PathReader(reader, config)
        self._outlines: dict[PeerId, TopicOutline] = {}
        self._visits: dict[PeerId, tuple[Visit, float]] = {}

    def outline(self, topic: PeerId) -> TopicOutline:
        outline = self._outlines.pop(topic, None)
        if outline is None:  # not: if it is empty, for others may be about to fill it
            outline = TopicOutline(topic, self._config.ttl)
        self._outlines[topic] = outline
        if len(self._outlines) > self.MAX_TOPICS:
            del self._outlines[next(iter(self._outlines))]
        outline.forget_old(self._peers.context.now())
        return outline

    async def introduce(self, visit: Visit, point: int) -> None:
        """Learn where the leaves of a topic are, unless that is known.

        Two nodes that hint at about the same depth are believed; else the root is read with due care.
        """
        if not len(self.outline(visit.topic)):
            root = Shard(visit.topic, 0, 0)
            hints, view = await self._reader.enter(root, visit.salt, visit.want)
            if view is not None:
                visit.views[root] = view
            agreed = len(hints) >= 2 and abs(hints[0] - hints[1]) <= 2
            await self.path(visit, point, min(hints[:2]) if agreed else 0)

    def keep(self, visit: Visit, seconds: float = AT_ONCE) -> None:
        """Somebody may want a size or a sample of what was just read, for an announcement or a size."""
        self._visits.pop(visit.topic, None)
        self._visits[visit.topic] = (visit, self._peers.context.now() + seconds)
        if len(self._visits) > self.MAX_TOPICS:
            del self._visits[next(iter(self._visits))]

    def take_kept(self, topic: PeerId) -> Visit | None:
        """What was read just now; once: two samples of one salt would be alike."""
        visit, until = self._visits.pop(topic, (None, 0.0))
        return visit if self._peers.context.now() <= until else None

    async def path(self, visit: Visit, point: int, start: int | None = None) -> Path | None:
        """The path of a point; what it shows is remembered."""
        outline = self.outline(visit.topic)
        path = await self._paths.read(
            visit, point, self._start(outline, point) if start is None else start
        )
        if path is not None:
            outline.saw(path.leaf, path.weight, self._peers.context.now(), thorough=visit.thorough)
        return path

    async def paths(self, visit: Visit, points: list[int]) -> list[Path | None]:
        """The paths of many points, read at the same time, in the order of the points."""
        outline = self.outline(visit.topic)
        first: dict[Shard, int] = {}
        for point in points:
            first.setdefault(shard_at(visit.topic, self._start(outline, point), point), point)
        await together([self.path(visit, point) for point in first.values()])
        return [await self.path(visit, point) for point in points]

    async def survey(self, visit: Visit, points: int, max_age: float) -> Survey:
        """Look at evenly spaced points; leaves seen no longer than `max_age` ago are not read again."""
        outline = self.outline(visit.topic)
        step = (1 << POINT_BITS) // points
        offset = self._peers.context.random.randrange(0, step)
        places = [offset + step * index for index in range(points)]
        visit.points = places
        await self.paths(visit, [p for p in places if not self._fresh(outline, p, max_age)])
        weights: list[float] = []
        leaves: dict[Shard, float] = {}
        for place in places:
            known = outline.leaf_at(place)
            if known is not None:
                weights.append(known[1].weight)
                leaves[known[0]] = known[1].weight * known[0].share
        return Survey(
            size=sum(weights) / len(weights) if weights else 0.0,
            share=sum(leaf.share for leaf in leaves),
            counted=sum(leaves.values()),
        )

    def _fresh(self, outline: TopicOutline, point: int, max_age: float) -> bool:
        known = outline.leaf_at(point)
        if known is None or known[0].depth == 0:
            return False  # a topic of one shard is counted anew each time: one read, and exact
        return known[1].thorough and self._peers.context.now() - known[1].when <= max_age

    @staticmethod
    def _start(outline: TopicOutline, point: int) -> int:
        known = outline.leaf_at(point)
        return known[0].depth if known else outline.likely_depth()


@dataclass(frozen=True, slots=True)
class TopicSize:
    """An estimate and its relative standard error; an error of 0.0 means that all were counted."""

    members: float
    relative_error: float

    def __float__(self) -> float:
        return self.members

    def __int__(self) -> int:
        return round(self.members)


async def topic_size(
    topic: PeerId, peers: Peers, explorer: Explorer, config: DirectoryConfig, points: int
) -> TopicSize:
    """Count the members of a topic.

    Points are hashes, so the number c of members in a share f of the tree is Poisson-distributed, and the
    relative standard error of c / f is sqrt((1 - f) / c).
    """
    visit = explorer.take_kept(topic)
    if visit is None or visit.points:  # what was read for another size is counted anew
        visit = Visit(topic, peers.context.random.getrandbits(32), CONTACTS_BESIDE_A_SIZE)
    await explorer.introduce(visit, peers.context.random.getrandbits(POINT_BITS))
    survey = await explorer.survey(visit, points, config.size_life)
    explorer.keep(visit)
    missed = max(0.0, 1.0 - survey.share)
    return TopicSize(survey.size, sqrt(missed / survey.counted) if survey.counted else 0.0)
