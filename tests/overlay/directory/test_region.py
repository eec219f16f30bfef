"""Whom a node tells and asks where others have crowded the nodes next to a topic's key."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from overlay.contact import Contact, PeerId
from overlay.directory import DirectoryConfig
from overlay.directory.locations import Locations
from overlay.directory.region import Region
from overlay.directory.tree import Shard, topic_key
from overlay.metrics import Metrics
from overlay.steps import Cancellable, Steps
from tests.overlay.directory.model_network import contact_of

ROOT = Shard(topic_key("/soccer"), 0, 0)

PATHS = 3
"""Paths that nobody has taken over; they come upon nodes in turn."""


class KnownPeers:
    """Peers of a node that knows some contacts, and finds all others by lookups."""

    def __init__(self, known: list[Contact], others: list[Contact] | None = None) -> None:
        self.known = known
        self.others = others or []
        self.contact = known[0]
        self.context: Any = self
        self.random = Random(1)
        self.lookups = 0
        self.time = 0.0
        self.hostile_path: list[Contact] = []
        """What a path finds that attackers have taken over."""

    def now(self) -> float:
        return self.time

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        return _closest(self.known, key, count)

    def neighbours(self, count: int) -> tuple[Contact, ...]:
        return _closest(self.known, self.contact.id, count + 1)[1:]

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> Cancellable | None:
        done(list(_closest(self.known + self.others, key, wide)))
        return None

    def apart(
        self, key: PeerId, count: int, done: Callable[[list[list[Contact]]], None]
    ) -> Cancellable | None:
        self.lookups += 1
        near = _closest(self.known + self.others, key, PATHS * count)
        done([*(list(near[number::PATHS]) for number in range(PATHS)), self.hostile_path])
        return None


def _closest(contacts: list[Contact], key: PeerId, count: int) -> tuple[Contact, ...]:
    goal = int.from_bytes(key, "big")
    return tuple(sorted(contacts, key=lambda c: int.from_bytes(c.id, "big") ^ goal)[:count])


def region(peers: Any, locations: Locations | None = None) -> tuple[Contact, ...]:
    """Of the root, as a node sees it whose walk has met the nearest."""
    found: list[Region] = []
    nearest = _closest(peers.known + peers.others, ROOT.key, 5)
    locations = locations or Locations(peers, DirectoryConfig(), Metrics())
    Steps(locations.region(ROOT, nearest), done=found.append)
    return found[0].nodes


def nodes_near_the_root(drawn: int, identities: int, random: Random) -> list[Contact]:
    """The closest to the root of many drawn identities, as an attacker has them."""
    key, most = int.from_bytes(ROOT.key, "big"), (1 << 160) // drawn
    near = (PeerId((key ^ random.randrange(most)).to_bytes(20, "big")) for _ in range(identities))
    return [Contact(peer, f"11.0.{index}.1", 4000) for index, peer in enumerate(near)]


def test_few_keys_are_crowded_by_chance_and_most_by_those_who_draw_identities() -> None:
    random = Random(3)
    by_chance = by_attack = 0
    for _ in range(200):
        honest = [contact_of(random, index) for index in range(60)]
        by_chance += bool(region(KnownPeers(honest)))
        by_attack += bool(region(KnownPeers(honest, nodes_near_the_root(100, 5, random))))
    assert by_chance <= 20
    assert by_attack >= 180


def test_a_network_that_has_just_grown_does_not_look_crowded_to_those_who_know_the_old_one() -> (
    None
):
    random = Random(9)
    by_chance = 0
    for _ in range(200):
        nodes = [contact_of(random, index) for index in range(120)]
        by_chance += bool(region(KnownPeers(nodes[:40], nodes[40:])))
    assert by_chance <= 20


def test_those_who_held_a_root_before_a_crowd_came_are_asked_all_the_same() -> None:
    """However many came: each lookup of the key then ends among them. Two holders are enough to be heard."""
    random = Random(4)
    for attackers in (12, 24, 48, 96):
        asked = 0
        for _ in range(30):
            honest = [contact_of(random, index) for index in range(60)]
            before = _closest(honest, ROOT.key, 5)
            peers = KnownPeers(honest, nodes_near_the_root(100, attackers, random))
            asked += len(set(before) & set(region(peers))) >= 2
        assert asked >= 28, attackers


@pytest.mark.parametrize("left", [0, 1, 2])
def test_where_honest_nodes_are_few_around_the_key_by_chance_the_region_is_wider(left: int) -> None:
    """The nodes that this one knows around itself are as many as anywhere else."""
    random, key = Random(11), int.from_bytes(ROOT.key, "big")
    for attackers in (12, 24, 48):
        for _ in range(10):
            drawn = [contact_of(random, index) for index in range(60)]
            near = [c for c in drawn if int.from_bytes(c.id, "big") ^ key < 1 << 158]
            honest = [contact for contact in drawn if contact not in near[left:]]
            before = _closest(honest, ROOT.key, 5)
            peers = KnownPeers(honest, nodes_near_the_root(100, attackers, random))
            assert len(set(before) & set(region(peers))) >= 3, attackers


def test_a_hostile_path_that_reaches_beyond_the_region_does_not_hide_the_crowd() -> None:
    """Some attackers far from the key are all that it finds, as if nobody were crowded there."""
    random, asked = Random(7), 0
    for _ in range(30):
        honest = [contact_of(random, index) for index in range(60)]
        before = _closest(honest, ROOT.key, 5)
        peers = KnownPeers(honest, nodes_near_the_root(100, 48, random))
        peers.hostile_path = [contact_of(random, 100 + index) for index in range(20)]
        asked += len(set(before) & set(region(peers))) >= 2
    assert asked >= 25  # as without it; 2 where all that any path shows is put together


def test_the_cells_are_looked_up_at_few_of_the_keys_that_are_crowded_by_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One path finds the nearest, and the others end elsewhere."""
    monkeypatch.setattr(f"{__name__}.PATHS", 1)
    random = Random(8)
    crowded = in_cells = 0
    while crowded < 60:
        honest = [contact_of(random, index) for index in range(100)]
        peers = KnownPeers(honest)
        peers.hostile_path = random.sample(honest, 10)
        if region(peers):
            crowded += 1
            in_cells += peers.lookups > 1
    assert in_cells <= 6


def test_a_crowd_next_to_this_node_does_not_look_like_the_usual_density() -> None:
    """The node's own id is near the key, so that most of the nodes that it knows best are attackers."""
    random = Random(5)
    seen = 0
    for _ in range(30):
        honest = [contact_of(random, index) for index in range(40)]
        before = _closest(honest, ROOT.key, 5)
        honest.insert(0, before[1])
        peers = KnownPeers(honest + nodes_near_the_root(50, 20, random))
        seen += len(set(before) & set(region(peers))) >= 2
    assert seen >= 23


def test_one_block_of_addresses_does_not_take_the_places_of_others() -> None:
    """Attackers in every cell of the region, more than are asked of one, with one block of addresses."""
    random, heard = Random(6), 0
    for _ in range(30):
        honest = [
            Contact(contact_of(random, index).id, f"10.0.{index}.1", 4000) for index in range(60)
        ]
        crowd = nodes_near_the_root(100, 20, random) + nodes_near_the_root(4, 80, random)
        block = [Contact(node.id, "11.0.0.1", 1 + port) for port, node in enumerate(crowd)]
        asked = region(KnownPeers(honest, block))
        assert len(asked) <= 64
        heard += len(set(_closest(honest, ROOT.key, 10)) & set(asked))
    assert heard >= 210  # of 300; 180 where blocks do not take turns


def test_without_a_crowd_nobody_is_looked_up() -> None:
    peers = KnownPeers([contact_of(Random(8), index) for index in range(60)])
    assert region(peers) == ()
    assert peers.lookups == 0


def test_a_crowded_region_is_looked_up_once_a_period() -> None:
    """Also where those who announce themselves have corrected which nodes hold the root since."""
    random, config = Random(9), DirectoryConfig()
    honest = [contact_of(random, index) for index in range(60)]
    for attackers in (5, 48):  # that one lookup shows with others, and that fill it
        peers = KnownPeers(honest, nodes_near_the_root(100, attackers, random))
        locations = Locations(peers, config, Metrics())
        found = region(peers, locations)
        lookups = peers.lookups
        assert found
        assert lookups > 0
        locations.correct(ROOT, found[: config.replicas])
        assert region(peers, locations) == found
        assert peers.lookups == lookups
        peers.time += 1.01 * config.period
        region(peers, locations)
        assert peers.lookups > lookups
