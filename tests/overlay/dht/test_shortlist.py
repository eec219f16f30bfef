"""The lookup's core, played by hand against a model of the network."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.contact import Contact, PeerId
from overlay.dht.messages import contact_of
from overlay.dht.shortlist import ADDRESSES_AN_ID, FIRST_CREDIT, MOST_REACH, Shortlist
from overlay.dht.upstream import RoutedPeer, peer_of

K, ALPHA, BUDGET = 4, 2, 60


def peer(number: int, port: int = 4000) -> RoutedPeer:
    return peer_of(Contact(PeerId(number.to_bytes(20, "big")), "127.0.0.1", port))


@dataclass
class World:
    """Nodes that each know the neighbours of any place, dead ones included, and answer in random order."""

    draw: random.Random
    alive: list[RoutedPeer]
    dead: list[RoutedPeer] = field(default_factory=list)
    slow: list[RoutedPeer] = field(default_factory=list)

    def reply(self, asked: RoutedPeer, target: int, count: int) -> list[RoutedPeer]:
        everybody = [p for p in self.alive + self.dead if p is not asked]
        return sorted(everybody, key=lambda p: p.long_id ^ target)[:count]

    def play(self, shortlist: Shortlist, target: int) -> int:
        """Run the lookup to its end; the most that were in the window at once."""
        flight: list[tuple[RoutedPeer, int]] = []
        overdue: list[tuple[RoutedPeer, int]] = []
        widest = 0
        while not shortlist.is_finished:
            flight += shortlist.next_to_ask()
            widest = max(widest, len(flight))
            assert flight or overdue, "the lookup waits for nobody and is not over"
            if not flight:
                gone, _ = overdue.pop(0)
                shortlist.failed(gone)
                continue
            asked, count = flight.pop(self.draw.randrange(0, len(flight)))
            if asked in self.dead:
                shortlist.overdue(asked)
                overdue.append((asked, count))
            else:
                shortlist.answered(asked)
                named = [node.entry for node in self.reply(asked, target, count)]
                fresh = shortlist.unknown(named, asked)
                shortlist.add([peer_of(contact_of(entry)) for entry in fresh], introduced_by=asked)
        return widest


def start(target: int, peers: list[RoutedPeer], budget: int = BUDGET) -> Shortlist:
    shortlist = Shortlist(target, K, ALPHA, budget)
    shortlist.add(peers)
    return shortlist


@settings(deadline=None, max_examples=60)
@example(740961937, 36, 0.484375)
@example(52, 52, 0.40625)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 0.5))
def test_the_result_is_the_k_nearest_live_nodes(seed: int, size: int, deaths: float) -> None:
    draw = random.Random(seed)
    nodes = [peer(draw.getrandbits(160), n + 1) for n in range(size)]
    dead = draw.sample(nodes, int(deaths * size))
    world = World(draw, [node for node in nodes if node not in dead], dead)
    target = draw.getrandbits(160)
    first = draw.sample(nodes, min(3, size))
    shortlist = start(target, first, budget=10_000)
    world.play(shortlist, target)
    if not all(node in dead for node in first):
        nearest = sorted(world.alive, key=lambda p: p.long_id ^ target)[:K]
        assert shortlist.result() == nearest


def test_alpha_requests_are_in_flight_until_the_nearest_has_answered_and_then_k() -> None:
    shortlist = start(0, [peer(n) for n in (8, 9, 10, 11)])
    assert [p.long_id for p, _ in shortlist.next_to_ask()] == [8, 9]
    assert shortlist.next_to_ask() == []
    shortlist.answered(peer(8))
    assert [p.long_id for p, _ in shortlist.next_to_ask()] == [10, 11]
    assert not shortlist.is_finished


def test_as_soon_as_one_is_answered_the_next_is_asked() -> None:
    shortlist = start(0, [peer(n) for n in (8, 9, 10, 11)])
    shortlist.next_to_ask()
    shortlist.answered(peer(9))
    assert [p.long_id for p, _ in shortlist.next_to_ask()] == [10]


def test_an_overdue_request_gives_up_its_place_but_not_its_chance() -> None:
    shortlist = start(0, [peer(n) for n in (1, 2, 3, 4)])
    shortlist.add([peer(5)])
    shortlist.next_to_ask()
    shortlist.overdue(peer(1))
    assert [p.long_id for p, _ in shortlist.next_to_ask()] == [3]
    for number in (2, 3):
        shortlist.answered(peer(number))
    assert [p.long_id for p, _ in shortlist.next_to_ask()] == [4, 5]
    for number in (4, 5):
        shortlist.answered(peer(number))
    for asked_again, _ in shortlist.next_to_ask():
        shortlist.answered(asked_again)
    assert shortlist.next_to_ask() == []
    assert not shortlist.is_finished, "the overdue one may still answer"
    shortlist.answered(peer(1))
    assert shortlist.is_finished
    assert [p.long_id for p in shortlist.result()] == [1, 2, 3, 4]


def test_peers_who_name_the_dead_are_asked_again_for_more() -> None:
    nodes = [peer(n) for n in range(1, 13)]
    dead = [peer(n) for n in (1, 3, 5)]
    world = World(random.Random(1), [n for n in nodes if n not in dead], dead)
    shortlist = start(0, [peer(12)])
    world.play(shortlist, 0)
    assert [p.long_id for p in shortlist.result()] == [2, 4, 6, 7]
    assert shortlist.asked > len(nodes) - K


def test_contacts_known_to_be_dead_count_without_being_asked() -> None:
    shortlist = start(0, [peer(9)])
    assert shortlist.next_to_ask() == [(peer(9), K)]
    shortlist.answered(peer(9))
    shortlist.rule_out([peer(1), peer(2)], introduced_by=peer(9))
    shortlist.add([peer(7), peer(8)], introduced_by=peer(9))
    assert all(count >= K + 2 for _, count in shortlist.next_to_ask())


def test_who_invents_nearer_nodes_for_ever_is_stopped_by_the_budget() -> None:
    draw = random.Random(5)
    shortlist = start(0, [peer(2**159)])
    while not shortlist.is_finished:
        for asked, count in shortlist.next_to_ask():
            shortlist.answered(asked)
            nearer = [peer(draw.randrange(1, asked.long_id + 1)) for _ in range(500)]
            shortlist.add(nearer, introduced_by=asked)
            assert count <= MOST_REACH
    assert shortlist.asked <= BUDGET
    assert len(shortlist._by_id) <= 1 + BUDGET * K


def test_a_wrong_address_named_first_does_not_hide_the_right_one() -> None:
    shortlist = start(0, [peer(1, port=6666)])
    shortlist.next_to_ask()
    shortlist.add([peer(1, port=4000)])
    shortlist.failed(peer(1, port=6666))
    assert shortlist.next_to_ask() == [(peer(1, port=4000), K)]
    shortlist.failed(peer(1, port=4000))
    shortlist.add([peer(1, port=4001)])
    assert shortlist.next_to_ask() == [(peer(1, port=4001), K)], "also when it is named too late"


def test_the_addresses_tried_for_one_id_are_few() -> None:
    shortlist = start(0, [peer(1, port=1)])
    tried = 0
    for port in range(2, 50):
        for asked, _ in shortlist.next_to_ask():
            tried += 1
            shortlist.failed(asked)
        shortlist.add([peer(1, port=port)])
    assert tried == ADDRESSES_AN_ID
    assert shortlist.is_finished


def test_nobody_to_ask_is_the_end() -> None:
    assert start(0, []).is_finished
    alone = start(0, [])
    alone.add_self(peer(3))
    assert alone.is_finished
    assert alone.result() == [peer(3)]


@pytest.mark.parametrize("seed", range(5))
def test_the_window_is_never_wider_than_k(seed: int) -> None:
    draw = random.Random(seed)
    nodes = [peer(draw.getrandbits(160)) for _ in range(40)]
    world = World(draw, nodes[8:], nodes[:8])
    target = draw.getrandbits(160)
    assert world.play(start(target, nodes[:3] + nodes[20:23]), target) <= K


def test_hops_count_who_introduced_whom() -> None:
    shortlist = start(0, [peer(8)])
    for number in (8, 4, 2):
        shortlist.next_to_ask()
        shortlist.answered(peer(number))
        shortlist.add([peer(number // 2)], introduced_by=peer(number))
    shortlist.next_to_ask()
    shortlist.answered(peer(1))
    assert shortlist.hops == 4


def invented(number: int) -> list[RoutedPeer]:
    return [peer(n, port=1 + number) for n in range(1 + 10 * number, 11 + 10 * number)]


def test_who_invents_nodes_runs_out_of_credit() -> None:
    liar, *honest = [peer(10_000 + n) for n in range(7)]
    shortlist = Shortlist(0, 6, ALPHA, 1000)
    shortlist.add([liar, *honest][:6])
    shortlist.add(honest[5:])
    wasted = 0
    while not shortlist.is_finished:
        chosen = shortlist.next_to_ask()
        assert chosen, "a lookup that waits for invented nodes has been held up"
        for asked, _ in chosen:
            if asked is liar:
                shortlist.answered(asked)
                shortlist.add(invented(0), introduced_by=liar)
            elif asked in honest:
                shortlist.answered(asked)
            else:
                wasted += 1
                shortlist.overdue(asked)
    assert shortlist.result() == [liar, *honest[:5]]
    assert wasted <= FIRST_CREDIT + ALPHA


def test_a_node_that_others_name_too_is_not_hidden_by_a_liar() -> None:
    liar, *honest = [peer(20_000 + n) for n in range(7)]
    real = peer(10_000)
    answers = {liar: [*invented(0)[:5], real], honest[0]: [real]}
    shortlist = Shortlist(0, 6, ALPHA, 1000)
    shortlist.add([liar, *honest[:5]])
    shortlist.add(honest[5:])
    while chosen := shortlist.next_to_ask():
        for asked, _ in chosen:
            if asked not in (liar, real, *honest):
                shortlist.overdue(asked)
                continue
            shortlist.answered(asked)
            named = [node.entry for node in answers.get(asked, [])]
            fresh = shortlist.unknown(named, asked)
            shortlist.add([peer_of(contact_of(entry)) for entry in fresh], introduced_by=asked)
    assert shortlist.is_finished
    assert shortlist.result()[0] is real
