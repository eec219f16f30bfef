"""What a process remembers of a topic's tree from what it has read: how deep, how dense, how many."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import PeerId
from overlay.directory.tree import Shard, shard_at


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

    def heaviest(self) -> float:
        return max((seen.weight for seen in self._leaves.values()), default=0.0)

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
