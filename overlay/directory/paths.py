"""Read the path from the root of a topic's tree to a point.

The shards that matter on the path from the root to a point are usually one leaf. While members
move, because a shard splits or merges, some live above and some below, and all of these shards are read: a
shard that has traces is read on below; one that is new or nearly empty may have members that have not come
down yet, or have gone up already, and is read on above. A member that is seen at two depths counts at the
deeper one. The *weight* of a path is the sum of members times 2**depth over its shards. Over all points its
mean is the number of members; and a draw that accepts a path in proportion to its weight, and takes a shard
in proportion to its part of that weight, gives every member the same chance, however the tree has grown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from overlay.contact import PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.reading import ShardReader
from overlay.directory.tree import MAX_DEPTH, Shard, shard_at
from overlay.directory.witnesses import ShardView


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
        self.points: list[int] = []
        """Evenly spaced points at which members were counted."""

    def above_leaves(self) -> Visit:
        """A thorough visit that begins with what was read above the leaves. The leaves are read again: those
        who came at the same moment are there by now."""
        visit = Visit(self.topic, self.salt, self.want)
        visit.views = {
            shard: view for shard, view in self.views.items() if view is not None and view.below
        }
        return visit


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
