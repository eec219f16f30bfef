"""Lookups on paths that share no node find honest nodes though others name nobody but each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from overlay.contact import Contact, PeerId
from overlay.dht import DhtConfig
from overlay.dht.messages import FindNode, FoundNodes, join_contacts
from overlay.dht.upstream import Target, peer_of
from tests.overlay.dht.on_stage import Player, World

K = 8
SMALL = DhtConfig(k=K, disjoint_paths=4)


def lie_about_others(liars: list[Player], misplaced: Sequence[Contact] = ()) -> None:
    """Have them answer every lookup with the nearest of themselves and of those that are not there."""
    contacts = [liar.contact for liar in liars]
    contacts += misplaced

    def answer(liar: Player) -> Callable[[Contact, FindNode], FoundNodes]:
        def found(sender: Contact, request: FindNode) -> FoundNodes:
            goal = Target(request.target)
            named = sorted(contacts, key=lambda contact: goal.distance_to(peer_of(contact)))
            return FoundNodes(
                liar.node.give_token(sender), join_contacts(named[: min(request.count, 20)])
            )

        return found

    for liar in liars:
        liar.node.serve(FindNode, answer(liar))


def honest_found(seed: int, misplaces: bool = False) -> tuple[int, int, int]:
    """Honest nodes among the K closest: how many there are, how many one path finds, and all paths."""
    world = World(seed, 100, config=SMALL)
    liars = world.random.sample(world.players, 50)
    hostile = {liar.contact for liar in liars}
    honest = [player for player in world.players if player.contact not in hostile]
    lie_about_others(
        liars, [Contact(player.contact.id, "10.9.9.9", 9) for player in honest] if misplaces else ()
    )
    wanted: set[tuple[PeerId, Contact]] = set()
    alone: set[tuple[PeerId, Contact]] = set()
    apart: set[tuple[PeerId, Contact]] = set()
    for player in world.random.sample(honest, 20):
        key = PeerId(world.random.randbytes(20))
        wanted |= {(key, contact) for contact in world.closest(key, K) if contact not in hostile}

        def take(found: list[Contact], key: PeerId = key) -> None:
            alone.update((key, contact) for contact in found)

        def take_all(paths: list[list[Contact]], key: PeerId = key) -> None:
            assert len(paths) == SMALL.disjoint_paths
            apart.update((key, contact) for path in paths for contact in path)

        player.node.around(key, K, K, take)
        player.node.apart(key, K, take_all)
    world.stage.run_for(30)
    return len(wanted), len(wanted & alone), len(wanted & apart)


def test_honest_nodes_are_found_though_half_of_all_name_only_each_other() -> None:
    """And an ordinary lookup misses one in twenty and more, so that the paths are of use."""
    wanted, alone, apart = zip(*map(honest_found, range(3)), strict=True)
    assert all(found >= 0.99 * there for found, there in zip(apart, wanted, strict=True))
    assert sum(alone) < 0.95 * sum(wanted)


@pytest.mark.parametrize("seed", range(3))
def test_who_names_others_at_wrong_addresses_does_not_hide_them(seed: int) -> None:
    """Each path asks a peer where it was told that it is: a wrong address takes it from no other path."""
    wanted, _, apart = honest_found(seed, misplaces=True)
    assert apart >= 0.99 * wanted


@pytest.mark.parametrize("seed", range(2))
def test_nodes_that_are_only_named_are_not_found(seed: int) -> None:
    """Whoever is asked could invent as many as it likes behind the nearest, who alone are asked."""
    world = World(seed, 60, config=SMALL)
    key = PeerId(world.random.randbytes(20))
    near = int.from_bytes(key, "big")
    invented = [
        Contact(PeerId((near ^ n << 153).to_bytes(20, "big")), f"10.9.{n}.9", 9)
        for n in range(16, 64)
    ]
    liars = world.random.sample(world.players, 20)
    hostile = {liar.contact for liar in liars}
    lie_about_others(liars, invented)
    asker = next(player for player in world.players if player.contact not in hostile)
    found: list[list[list[Contact]]] = []
    asker.node.apart(key, K, found.append)
    world.stage.run_for(30)
    names = {contact.id for path in found[0] for contact in path}
    assert names
    assert names <= {player.contact.id for player in world.players}


@pytest.mark.parametrize("seed", range(3))
def test_who_answers_late_and_names_one_of_its_own_at_a_time_does_not_hold_up_the_others(
    seed: int,
) -> None:
    """It answers what is sent the third time, and names the next nearer one of 60."""
    world = World(seed, 120, config=SMALL)
    key = Target(PeerId(world.random.randbytes(20)))
    liars = world.random.sample(world.players, 60)
    liars.sort(key=lambda liar: -key.distance_to(peer_of(liar.contact)))
    hostile = {liar.contact for liar in liars}
    asked: Counter[tuple[Contact, Contact]] = Counter()

    def answer_late(liar: Player, named: list[Contact]) -> None:
        def found(sender: Contact, request: FindNode) -> FoundNodes | None:
            asked[liar.contact, sender] += 1
            if asked[liar.contact, sender] % 3:
                return None
            return FoundNodes(liar.node.give_token(sender), join_contacts(named))

        liar.node.serve(FindNode, found)

    for liar, nearer in pairwise(liars):
        answer_late(liar, [nearer.contact])
    answer_late(liars[-1], [])
    took: list[float] = []
    for asker in [player for player in world.players if player.contact not in hostile][:10]:
        began = world.stage.now
        found: list[list[list[Contact]]] = []

        def take(
            paths: list[list[Contact]],
            began: float = began,
            found: list[list[list[Contact]]] = found,
        ) -> None:
            took.append(world.stage.now - began)
            found.append(paths)

        asker.node.apart(PeerId(key.id), K, take)
        world.stage.run_for(20)
        honest = set(world.closest(PeerId(key.id), K)) - hostile
        assert honest <= {contact for path in found[0] for contact in path}
    assert (
        max(took) <= SMALL.lookup_deadline / 2
    )  # the deadline itself where all paths are waited for


@pytest.mark.parametrize("seed", range(2))
def test_no_peer_is_asked_on_two_paths(seed: int) -> None:
    world = World(seed, 40, config=SMALL)
    own = world.players[7]
    paths_of: dict[Contact, set[object]] = {}
    real = own.node.exchange.call

    def call(to: Contact, request: object, *more: Any, **others: Any) -> Any:
        if isinstance(request, FindNode) and request.target == key:
            paths_of.setdefault(to, set()).add(more[1].__self__)
        return real(to, request, *more, **others)

    own.node.exchange.call = call  # type: ignore[method-assign, assignment]
    found: list[list[list[Contact]]] = []
    key = PeerId(world.random.randbytes(20))
    own.node.apart(key, K, found.append)
    world.stage.run_for(10)
    assert len(paths_of) > 2 * K
    assert all(len(paths) == 1 for paths in paths_of.values())
    assert len(set.union(*paths_of.values())) == SMALL.disjoint_paths
    assert set(world.closest(key, K)) <= {contact for path in found[0] for contact in path}
