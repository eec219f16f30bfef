"""Hops and requests at 10^4 nodes: the real shortlist and the real tables, without a network between them."""

from __future__ import annotations

import heapq
import random

import pytest

from overlay.contact import Contact, PeerId
from overlay.dht.messages import contact_of
from overlay.dht.routing import RoutingTable
from overlay.dht.shortlist import Shortlist
from overlay.dht.upstream import RoutedPeer, Target, peer_of

K, ALPHA = 20, 3
MET = 150
"""Nodes anywhere that a node has met by chance; it also knows its own neighbourhood."""


class World:
    """Nodes whose tables are filled when they are first asked."""

    def __init__(self, size: int, draw: random.Random) -> None:
        self._draw = draw
        self.nodes = [
            peer_of(Contact(PeerId(draw.randbytes(20)), f"10.0.{n >> 8}.{n & 255}", 4000))
            for n in range(size)
        ]
        self._tables: dict[RoutedPeer, RoutingTable] = {}

    def closest(self, target: int, count: int) -> list[RoutedPeer]:
        return heapq.nsmallest(count, self.nodes, key=lambda node: node.long_id ^ target)

    def table(self, node: RoutedPeer) -> RoutingTable:
        table = self._tables.get(node)
        if table is None:
            table = self._tables[node] = RoutingTable(node, K, lambda: 0.0)
            for other in self.closest(node.long_id, 2 * K)[1:] + self._draw.sample(self.nodes, MET):
                if other is not node:
                    table.add(other)
        return table

    def look_up(self, asker: RoutedPeer, target: Target) -> Shortlist:
        shortlist = Shortlist(target.long_id, K, ALPHA, 12 * K)
        shortlist.add_self(asker)
        shortlist.add(self.table(asker).closest(target, K))
        flight: list[tuple[RoutedPeer, int]] = []
        while not shortlist.is_finished:
            flight += shortlist.next_to_ask()
            asked, count = flight.pop(0)
            named = self.table(asked).closest(target, count, exclude=asker)
            shortlist.answered(asked)
            fresh = shortlist.unknown([peer.entry for peer in named], asked)
            shortlist.add([peer_of(contact_of(entry)) for entry in fresh], introduced_by=asked)
        return shortlist


def run(size: int, lookups: int, seed: int) -> tuple[float, float]:
    """Mean hops and requests of lookups, all of them exact."""
    draw = random.Random(seed)
    world = World(size, draw)
    hops = requests = 0
    for number in range(lookups):
        target = Target(PeerId(draw.randbytes(20)))
        shortlist = world.look_up(draw.choice(world.nodes), target)
        assert shortlist.result() == world.closest(target.long_id, K), f"lookup {number}"
        hops += shortlist.hops
        requests += shortlist.asked
    print(f"{size} nodes: {hops / lookups:.2f} hops and {requests / lookups:.1f} requests a lookup")
    return hops / lookups, requests / lookups


def test_a_thousand_modelled_nodes_answer_exactly_in_two_hops() -> None:
    hops, requests = run(1000, 15, seed=1)
    assert hops < 2.5
    assert requests < 25


@pytest.mark.sweep
def test_ten_thousand_modelled_nodes_answer_exactly_in_under_three_hops() -> None:
    hops, requests = run(10_000, 80, seed=1)
    assert 1.5 < hops < 3.0
    assert 20 <= requests < 27
