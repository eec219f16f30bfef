"""The region around a topic's root: whom to tell and to ask where somebody crowds the nodes next to the key.

Ids cannot be chosen, but they can be drawn again and again. Who draws many has some that are closer to a key
than those of honest nodes, and would hold the topic alone. Such nodes are *crowded*: closer together than
chance brings them. A node sees that from how dense nodes are around its own id; as it may not know of those
who have just come, it then looks how dense they are at a place drawn by chance. Then everybody counts who is
in the *region* in which twice as many nodes as replicas are expected: those who drew ids stand beside the
honest holders of the root, and do not displace them.

Where the nodes that a lookup of the key finds do not reach beyond the region, a crowd is all that one sees
from there. So the region is looked at from its *cells*, eight parts of the same size: a lookup of a
place in each, and at most as many nodes of each. Each lookup goes on paths that share no node (see
`overlay.dht.disjoint`): those who name nobody but each other end their own path only. One path that shows
nobody but a crowd is enough to look at the cells: those who have taken over another path may show nodes far
away there. Honest nodes may be few around the key by chance. So the region is doubled, each time by four
more cells, until it has twice as many nodes as replicas outside the cell of the key. Who wants to hide the
honest nodes has to crowd every cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from overlay.contact import Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.peers import Peers
from overlay.directory.tree import Shard
from overlay.steps import answer_to, together
from overlay.transport.address import block_of

_CROWDED = {3: 0.3, 4: 0.65, 5: 1.3}
"""Nodes that are crowded, where as few are expected. By chance that happens at 2 or 3 keys in a hundred:
there every member tells and asks twice as many nodes, so it has to be rare."""

_CELL_BITS = 3

_OF_A_CELL = 8
"""Nodes of a cell at most. Blocks of addresses take turns, so that one owner's do not take all places."""

_COUNTED = 3
"""Nodes of a cell that count when the region is said to have enough: a crowd may be in several cells."""

_NEIGHBOURS = 128
"""Nodes that are known around this one, more than a crowd has of them."""

_MEASURED = 15
"""Of these, how many tell how dense nodes are: a node that has just joined was told of as many for sure."""

_MOST_KNOWN = 64
"""Regions that are remembered, least recent out first."""

_ID_BITS = 160


class Region(NamedTuple):
    """The nodes of a region: none where nobody crowds the nearest to the root."""

    nodes: tuple[Contact, ...] = ()
    is_taken: bool = False
    """A crowd is all that can be seen from the key, so that most of those next to it may lie."""


class Regions:
    """The regions that this process looks at; asks nobody unless the nodes around a root are crowded."""

    def __init__(self, peers: Peers, config: DirectoryConfig) -> None:
        self._peers = peers
        self._config = config
        self._found: dict[Shard, tuple[Region, float]] = {}
        self._elsewhere: tuple[float, float] | None = None
        """How far apart nodes are at a place that was looked up, and when that was."""

    async def around(self, root: Shard, nearest: Sequence[Contact]) -> Region:
        """The region, if the nearest to the root are crowded; else one without nodes."""
        key, replicas = _number(root.key), self._config.replicas
        a_node = self._spacing(key) if len(nearest) >= replicas else None
        if a_node is None or not _are_crowded(nearest, key, a_node):
            return Region()
        # This node may not know of those who have just come, and a region may cost hundreds of requests.
        a_node = min(a_node, await self._spacing_elsewhere(key, a_node))
        if not _are_crowded(nearest, key, a_node):
            return Region()
        now = self._peers.context.now()
        found, when = self._found.pop(root, (Region(), 0.0))
        if not found.nodes or now - when > self._config.period:
            found, when = await self._found_around(key, int(2 * replicas * a_node)), now
        self._found[root] = found, when
        if len(self._found) > _MOST_KNOWN:
            del self._found[next(iter(self._found))]
        return found

    async def _found_around(self, key: int, width: int) -> Region:
        expected = 2 * self._config.replicas

        def within(nodes: Sequence[Contact], limit: int) -> int:
            return sum(_number(node.id) ^ key < limit for node in nodes)

        paths = await self._look(key)
        known = _in_order(paths, key)
        # Others may be shown by a crowd that has taken over a path: so one path with a crowd alone is enough.
        is_taken = any(
            len(path) >= expected and within(path, width // 4) == len(path) for path in paths
        )
        inside = within(known, width)
        if len(known) < expected or (len(known) - inside >= self._config.replicas and not is_taken):
            crowd = within(known, width >> _CELL_BITS)
            others = expected + (crowd if crowd >= _OF_A_CELL else 0)
            return Region(tuple(known[: max(inside, others)]))
        bits = min(max(width.bit_length(), _CELL_BITS), _ID_BITS)
        return Region(await self._in_cells(key, bits, known), is_taken=True)

    async def _look(self, place: int) -> list[list[Contact]]:
        """The nodes around a place that each of the paths to it has found."""
        peer_id = PeerId(place.to_bytes(_ID_BITS // 8, "big"))
        count = 2 * self._config.replicas
        return await answer_to(partial(self._peers.apart, peer_id, count))

    def _spacing(self, key: int) -> float | None:
        """How far apart nodes are, seen around this node's own id, which nobody else chose; None if it
        knows nobody.

        The subtree of ids in which the key lies, and this node does not, is left out: a crowd is in there."""
        me = _number(self._peers.context.contact.id)
        its_bits = (me ^ key).bit_length()
        distances = [_number(node.id) ^ me for node in self._peers.neighbours(_NEIGHBOURS)]
        others = [d for d in distances if d.bit_length() != its_bits][:_MEASURED]
        if not others:
            return None
        left_out = 1 << its_bits - 1 if its_bits and others[-1] >> its_bits else 0
        return (others[-1] - left_out) / len(others)

    async def _spacing_elsewhere(self, key: int, around_here: float) -> float:
        """How far apart nodes are at a place drawn by chance, in the half of all ids where the key is not;
        looked up once a period. As around here where nobody is found."""
        now, count = self._peers.context.now(), self._config.root_replicas
        if self._elsewhere is None or now - self._elsewhere[1] > self._config.period:
            half = 1 << _ID_BITS - 1
            place = (key ^ half) & half | self._peers.context.random.getrandbits(_ID_BITS - 1)
            peer_id = PeerId(place.to_bytes(_ID_BITS // 8, "big"))
            look = partial(self._peers.around, peer_id, self._config.replicas, count)
            distances = [_number(node.id) ^ place for node in await answer_to(look)]
            if len(distances) < count:
                return around_here
            self._elsewhere = distances[_MEASURED - 1] / _MEASURED, now
        return self._elsewhere[0]

    async def _in_cells(self, key: int, bits: int, known: Sequence[Contact]) -> tuple[Contact, ...]:
        """The nodes that are found in each cell of a region: of all ids that differ in the last `bits`, and
        of twice as many while these are too few."""
        found = dict.fromkeys(known)
        size = bits - _CELL_BITS
        cells = [cell << size for cell in range(1, 1 << _CELL_BITS)]
        chosen: list[Contact] = []
        enough = 0
        while True:
            looks = await together([self._look(key ^ cell) for cell in cells])
            for paths, cell in zip(looks, cells, strict=True):
                found |= dict.fromkeys(_in_order(paths, key ^ cell))
            for cell in cells if chosen else [0, *cells]:
                of_cell = [node for node in found if (_number(node.id) ^ key ^ cell) >> size == 0]
                chosen += _by_turns(of_cell)
                enough += min(len(of_cell), _COUNTED) if cell else 0
            if enough >= 2 * self._config.replicas or bits == _ID_BITS:
                return tuple(chosen)
            size = bits - 2
            cells = [1 << bits | cell << size for cell in range(4)]
            bits += 1


def _in_order(paths: Sequence[Sequence[Contact]], place: int) -> list[Contact]:
    """What all paths to a place have found, closest first."""
    return sorted(set(chain(*paths)), key=lambda contact: _number(contact.id) ^ place)


def _are_crowded(nearest: Sequence[Contact], key: int, a_node: float) -> bool:
    distances = sorted(_number(contact.id) ^ key for contact in nearest)
    return any(
        count <= len(distances) and distances[count - 1] < few * a_node
        for count, few in _CROWDED.items()
    )


def _by_turns(nodes: Sequence[Contact]) -> list[Contact]:
    """Those of a cell that are asked: the first of each block of addresses before the second of any."""
    of_block: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for place, node in enumerate(nodes):
        block = block_of(node.host)
        turns.append((of_block[block], place))
        of_block[block] += 1
    return [nodes[place] for _, place in sorted(turns)[:_OF_A_CELL]]


def _number(peer_id: PeerId) -> int:
    return int.from_bytes(peer_id, "big")
