"""Draw members uniformly: distinct, and every live member as likely as any other.

A draw takes a random point, reads its path, and takes a few members of it: five on average, in proportion
to the path's weight over the size of the topic, rounded up or down by chance. So each member has the same
chance in every draw; and as members sit at points by chance, those of one path have no more in common than
others. The points of a size that was just counted are drawn first: they are spaced evenly from a random one
on, so that each falls everywhere with the same chance. A path whose replicas are slow or lost is not given
up for another one, as that would favour members whose replicas answer.

No path counts for more than four times the size: replicas that invent members cannot fill a sample alone.
"""

from __future__ import annotations

from math import ceil

from overlay.contact import Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.paths import Path, ShardPart, Visit
from overlay.directory.peers import Peers
from overlay.directory.reading import ShardReader
from overlay.directory.survey import Explorer, TopicOutline
from overlay.directory.tree import POINT_BITS, Shard, by_rank, fingerprint, shard_at
from overlay.directory.witnesses import ShardView
from overlay.metrics import Metrics

CEILING = 4.0
_FIRST_POINTS = 2
"""Points of the first draws: they also tell the size of the topic, and the first one how deep it is."""

_OF_A_PATH = 5
"""Members that one draw takes on average: every path that is read costs two or three questions."""

_BATCH = 32


class Sampler:
    """Uniform samples of topics' members, without this process itself."""

    def __init__(
        self,
        peers: Peers,
        reader: ShardReader,
        explorer: Explorer,
        config: DirectoryConfig,
        metrics: Metrics,
    ) -> None:
        self._peers = peers
        self._reader = reader
        self._explorer = explorer
        self._config = config
        self._draws = metrics.family(
            "directory_draws", "outcome", "Points drawn for samples, by what became of them"
        )

    async def sample(self, topic: PeerId, count: int) -> list[Contact]:
        """`count` distinct members in random order; all of them where there are fewer."""
        visit = self._explorer.take_kept(topic)
        if visit is None:
            visit = Visit(topic, self._peers.context.random.getrandbits(32), count)
            visit.points = [self._point() for _ in range(_FIRST_POINTS)]
        await self._explorer.introduce(visit, visit.points[0] if visit.points else self._point())
        outline = self._explorer.outline(topic)
        size = outline.size()
        visit.want = min(count, 2 + ceil(2 * count * self._config.split / max(size, 1.0)))
        drawn = _Drawn(fingerprint(topic, self._peers.context.contact))
        if size <= 2 * count:
            await self._take_from_all(visit, drawn, count)
        else:
            await self._draw_until(visit, drawn, outline, count)
        return await self._contacts(visit, drawn)

    async def _draw_until(
        self, visit: Visit, drawn: _Drawn, outline: TopicOutline, count: int
    ) -> None:
        tries, points = 0, self._peers.context.random.sample(visit.points, len(visit.points))
        while len(drawn.chosen) < count and tries < 16 * count + 64:
            missing = min(_BATCH, ceil((count - len(drawn.chosen)) / _OF_A_PATH))
            points += [self._point() for _ in range(missing - len(points))]
            tries += len(points)
            paths = await self._explorer.paths(visit, points)
            self._judge(paths, drawn, max(outline.size(), 1.0), count)
            points = []

    def _judge(self, paths: list[Path | None], drawn: _Drawn, size: float, count: int) -> None:
        """Take members of each path in the order of the draws, whichever was read first."""
        for path in paths:
            if path is None:
                outcome = "unreadable"
            elif len(drawn.chosen) == count:
                outcome = "spare"
            else:
                share = self._share(path, size)
                due = int(share + self._peers.context.random.random())
                tries = min(due, count - len(drawn.chosen))
                taken = sum(self._take(path, drawn) for _ in range(tries))
                outcome = "accepted" if taken else "repeated" if tries else "rejected"
            self._draws.add(outcome)

    def _share(self, path: Path, size: float) -> float:
        """How many members of a path are taken, on average."""
        return _OF_A_PATH * min(path.weight / size, CEILING)

    def _take(self, path: Path, drawn: _Drawn) -> bool:
        """Take a member of the path that was not taken yet; False if the draw fell on one that was.

        Members of a shard are taken in their random order. So the draw falls on one of those already taken
        as often as their part in the shard, and otherwise the next in order is as good as any.
        """
        part = self._part(path)
        left = [member for member in part.order if member not in drawn.taken]
        if self._peers.context.random.randrange(0, len(part.members)) >= len(left):
            return False
        drawn.taken[left[0]] = None
        drawn.chosen[left[0]] = part
        return True

    def _part(self, path: Path) -> ShardPart:
        spot = self._peers.context.random.random() * path.weight
        for part in path.parts:
            spot -= part.weight
            if spot < 0:
                return part
        return path.parts[-1]

    async def _take_from_all(self, visit: Visit, drawn: _Drawn, count: int) -> None:
        """Read the whole of a topic that is hardly larger than the sample."""
        found: dict[int, ShardPart] = {}
        point = 0
        for _ in range(4 * count + 64):
            path = await self._explorer.path(visit, point)
            if path is not None:
                for part in reversed(path.parts):
                    found |= dict.fromkeys(part.members, part)
            leaf = path.leaf if path is not None else self._guess(visit, point)
            point = (leaf.prefix + 1) << (POINT_BITS - leaf.depth)
            if point >> POINT_BITS:
                break
        for member in by_rank(found, visit.salt):
            if len(drawn.chosen) < count and member not in drawn.taken:
                drawn.chosen[member] = found[member]

    def _guess(self, visit: Visit, point: int) -> Shard:
        return shard_at(visit.topic, self._explorer.outline(visit.topic).likely_depth(), point)

    async def _contacts(self, visit: Visit, drawn: _Drawn) -> list[Contact]:
        """The contacts of those chosen; one that no replica hands out is left out."""
        contacts: dict[int, Contact] = {}
        lacking: dict[Shard, tuple[ShardView, list[int]]] = {}
        for member, part in drawn.chosen.items():
            contact = part.view.contacts.get(member)
            if contact is not None:
                contacts[member] = contact
            else:
                lacking.setdefault(part.view.shard, (part.view, []))[1].append(member)
        for view, members in lacking.values():
            contacts |= await self._reader.contacts_of(view, members)
        return [contacts[member] for member in drawn.chosen if member in contacts]

    def _point(self) -> int:
        return self._peers.context.random.getrandbits(POINT_BITS)


class _Drawn:
    """The members chosen so far, each with the part of the path that it was found in."""

    def __init__(self, this_process: int) -> None:
        self.taken: dict[int, None] = {this_process: None}
        self.chosen: dict[int, ShardPart] = {}
