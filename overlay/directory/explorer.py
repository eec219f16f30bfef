"""Find one's way in a topic's tree: the first contact with a topic, paths, and surveys of its density.

A process that knows nothing of a topic looks at the root, or rather at two of the twenty nodes around it: in
a large topic they have traces, which tell how deep the members live. From then on it starts at the
depth that it has seen, and the root is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.path import Path, PathReader, Visit
from overlay.directory.peers import Peers
from overlay.directory.reader import ShardReader
from overlay.directory.topic_outline import TopicOutline
from overlay.directory.tree import POINT_BITS, Shard, shard_at


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

    def outline(self, topic: PeerId) -> TopicOutline:
        outline = self._outlines.pop(topic, None)
        if outline is None:  # not: if it is empty, for others may be about to fill it
            outline = TopicOutline(topic, self._config.ttl)
        self._outlines[topic] = outline
        if len(self._outlines) > self.MAX_TOPICS:
            del self._outlines[next(iter(self._outlines))]
        outline.forget_old(self._peers.now())
        return outline

    async def introduce(self, visit: Visit, point: int) -> None:
        """Learn where the leaves of a topic are, unless that is known.

        Two nodes that hint at about the same depth are believed; else the root is read with due care.
        """
        if not len(self.outline(visit.topic)):
            hints = await self._reader.glance(Shard(visit.topic, 0, 0), 2)
            agreed = len(hints) == 2 and abs(hints[0] - hints[1]) <= 2
            await self.path(visit, point, min(hints) if agreed else 0)

    async def path(self, visit: Visit, point: int, start: int | None = None) -> Path | None:
        """The path of a point; what it shows is remembered."""
        outline = self.outline(visit.topic)
        path = await self._paths.read(
            visit, point, self._start(outline, point) if start is None else start
        )
        if path is not None:
            outline.saw(path.leaf, path.weight, self._peers.now(), thorough=visit.thorough)
        return path

    async def paths(self, visit: Visit, points: list[int]) -> list[Path | None]:
        """The paths of many points, read at the same time, in the order of the points."""
        outline = self.outline(visit.topic)
        first: dict[Shard, int] = {}
        for point in points:
            first.setdefault(shard_at(visit.topic, self._start(outline, point), point), point)
        await self._peers.together([self.path(visit, point) for point in first.values()])
        return [await self.path(visit, point) for point in points]

    async def survey(self, visit: Visit, points: int, max_age: float) -> Survey:
        """Look at evenly spaced points; leaves seen no longer than `max_age` ago are not read again."""
        outline = self.outline(visit.topic)
        step = (1 << POINT_BITS) // points
        offset = self._peers.random.randrange(0, step)
        places = [offset + step * index for index in range(points)]
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
        return known[1].thorough and self._peers.now() - known[1].when <= max_age

    @staticmethod
    def _start(outline: TopicOutline, point: int) -> int:
        known = outline.leaf_at(point)
        return known[0].depth if known else outline.likely_depth()
